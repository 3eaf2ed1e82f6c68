"""Installations under load: the sample wiki as three tenants, or an installation of the caller's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from evals.bench.clients import CITELOCK
from evals.load.expected import ExpectedAnswers, degraded
from evals.load.plan import ASK, SEARCH, worded
from rag_serving.artifacts.store import Store, write_json

ROOT = Path(__file__).parents[2]
TENANTS = {"demo": ("ENG", "OPS"), "engineering": ("ENG",), "operations": ("OPS",)}
"""Each has a part of the sample of its own, so that an answer of another tenant's pages is another answer."""
SEARCHED = 10
_CALM_TRIES = 20
PATHS = {ASK: "/v1/ask", SEARCH: "/v1/search"}


@dataclass(frozen=True)
class BuiltInstallation:
    """A built configuration, and its questions.

    Attributes:
        tenants: their names, or one empty name for a server without tokens.
        tokens: by tenant; none if the server requires none.
    """

    config: Path | None
    tenants: tuple[str, ...]
    tokens: dict[str, str]
    questions: tuple[str, ...]

    def headers(self, tenant: str) -> dict[str, str]:
        token = self.tokens.get(tenant)
        return {"Authorization": f"Bearer {token}"} if token else {}


@contextmanager
def sample(home: Path | None, tenants: int, wordings: int = 1, **sections: Any) -> Iterator[BuiltInstallation]:
    """Yield the sample as so many tenants, built in a temporary folder or, if it is not there, in `home`;
    `sections` are added to its configuration."""
    with tempfile.TemporaryDirectory(prefix="citelock-load-") as folder:
        place = (home or Path(folder)).resolve()
        names = tuple(TENANTS)[:tenants]
        config = place / "load.yaml"
        place.mkdir(parents=True, exist_ok=True)
        write_json(config, {**settings(place / "home", names), **sections})  # JSON is YAML
        tokens = {name: f"load-{name}" for name in names}
        os.environ["CITELOCK_TOKENS"] = json.dumps(
            {token: {"tenant": name, "user": "ann"} for name, token in tokens.items()}
        )
        store = Store(place / "home")
        if not all(store.current(name) for name in names):
            subprocess.run([*CITELOCK, "build", "--config", str(config)], check=True, stdout=sys.stderr)
        yield BuiltInstallation(config, names, tokens, worded(gold_questions(), wordings))


def gold_questions() -> tuple[str, ...]:
    """Return the questions about the sample that anybody may ask."""
    content = yaml.safe_load((ROOT / "evals/gold/sample.yaml").read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = content["questions"]
    return tuple(str(row["question"]) for row in rows if "groups" not in row and "user" not in row)


def settings(home: Path | str, tenants: Sequence[str]) -> dict[str, Any]:
    """Return the configuration of the sample as these tenants."""
    sources = {
        f"{space.lower()}_{tenant}": {
            "kind": "confluence_dump", "tenant": tenant, "path": str(ROOT / "sample" / space), "readers": "everyone"
        }
        for tenant in tenants
        for space in TENANTS[tenant]
    }  # fmt: skip
    serving = {"auth": "tokens", "rate_limit_per_minute": 0, "streams": 512}
    tenant_sections: dict[str, Any] = {name: {} for name in tenants}
    embedding = {"query_cache": 0}  # else the load would leave the embedding out after its first minute
    return {
        "home": str(home), "tenants": tenant_sections, "sources": sources, "serving": serving, "embedding": embedding
    }  # fmt: skip


def calm_answers(url: str, installation: BuiltInstallation, doors: Iterable[str] = PATHS) -> ExpectedAnswers:
    """Ask every question of every tenant twice through the doors, one after the other.

    Raises:
        RuntimeError: an answer is degraded, or the second one is another one: nothing could be compared with it.
    """
    expected = ExpectedAnswers()
    with httpx.Client(base_url=url, timeout=120) as client:
        for tenant in installation.tenants:
            for door, path in ((door, PATHS[door]) for door in doors):
                for question in installation.questions:
                    asked = tenant, door, question
                    first, second = (
                        _calm_answer(client, path, body_of(door, question), installation.headers(tenant)) for _ in "12"
                    )
                    expected.learn(asked, first)
                    if degraded(first) or expected.verdict(asked, second) != "same":
                        flags = degraded(first) + degraded(second)
                        raise RuntimeError(f"the calm server is not sure of its answer ({flags}): {asked}")
    return expected


def body_of(door: str, question: str) -> dict[str, Any]:
    """Return the body of a request to a door."""
    if door == SEARCH:
        return {"query": question, "k": SEARCHED}
    return {"question": question, **({} if door == ASK else {"stream": True})}


def _calm_answer(client: httpx.Client, path: str, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """Return an answer that lacks nothing; a busy machine may need several tries to give one in time."""
    for number in range(_CALM_TRIES):
        time.sleep(1 if number else 0)
        found: dict[str, Any] = client.post(path, json=body, headers=headers).raise_for_status().json()
        if not degraded(found):
            break
    return found
