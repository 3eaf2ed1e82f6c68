"""Installations under load: the sample wiki as three tenants, or the caller's own; the answers expected of them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import httpx
import yaml

from evals.bench.clients import CITELOCK
from evals.load.plan import ASK, SEARCH, worded
from rag_serving.artifacts.store import Store, write_json
from rag_serving.records.flags import CACHED, CACHED_OLDER, FINDINGS

_MARK = re.compile(r"\s*\[(\d+)\]\.?\s*$")
_MARKUP = re.compile(r"[*_`#>|\\]|^\s*[-+]\s|\[([^\]]*)\]\([^)]*\)", re.MULTILINE)


class AskerProofs:
    """Passages as the asker's own requests show them. Not safe to use from several threads."""

    def __init__(self, client: httpx.Client, headers: Mapping[str, str]) -> None:
        self._client, self._headers = client, dict(headers)
        self._passages: dict[str, dict[str, Any] | None] = {}

    def fault(self, payload: Mapping[str, Any]) -> str:
        """Return the fault of an answer or of the results of a search; empty without one."""
        if "results" in payload:
            return next(filter(None, map(self._result_fault, payload["results"])), "")
        if payload["status"] == "answered" and not payload["citations"]:
            return "an answer without citations"
        faults = [self._citation_fault(citation) for citation in payload["citations"]]
        return next(filter(None, [*faults, self._sentence_fault(payload)]), "")

    def _result_fault(self, result: Mapping[str, Any]) -> str:
        passage = self._passage(result["chunk_id"])
        if passage is None:
            return f"passage {result['chunk_id']} is not one that the asker may read"
        return "" if passage["chunk"]["text"] == result["text"] else f"passage {result['chunk_id']} has another text"

    def _citation_fault(self, citation: Mapping[str, Any]) -> str:
        passage = self._passage(citation["chunk_id"])
        if passage is None:
            return f"cited passage {citation['chunk_id']} is not one that the asker may read"
        page, text = passage["page"], passage["chunk"]["text"]
        if (page["page_id"], page["version"]) != (citation["page_id"], citation["page_version"]):
            return f"cited passage {citation['chunk_id']} is of another page, or of another version"
        return "" if _plain(citation["quote"]) in _plain(text) else f"no such words on the page: {citation['quote']!r}"

    def _sentence_fault(self, payload: Mapping[str, Any]) -> str:
        """Return a line of an extractive answer that is missing from the passages that it cites."""
        if payload.get("generator", "extractive") not in ("", "extractive"):
            return ""
        cited = {citation["index"]: citation["chunk_id"] for citation in payload["citations"]}
        for line in payload["answer"].splitlines():
            mark = _MARK.search(line)
            if mark is None or int(mark[1]) not in cited:
                continue
            passage = self._passage(cited[int(mark[1])])
            if passage is None or not _stands(_MARK.sub("", line), passage["chunk"]["text"]):
                return f"a line of the answer does not stand on the page that it cites: {line!r}"
        return ""

    def _passage(self, chunk_id: str) -> dict[str, Any] | None:
        if chunk_id not in self._passages:
            response = self._client.get(f"/v1/passages/{quote(chunk_id, safe=':')}", headers=self._headers)
            if response.status_code not in (200, 404):
                response.raise_for_status()
            self._passages[chunk_id] = response.json() if response.status_code == 200 else None
        return self._passages[chunk_id]


def _stands(line: str, text: str) -> bool:
    """Return whether a line is in a text, or is a row of its table: the names of columns, each with its cell."""
    plain = _plain(text)
    parts = [part for cell in line.split("; ") for part in cell.split(": ", 1)]
    return _plain(line) in plain or all(_plain(part) in plain for part in parts)


def _plain(text: str) -> str:
    """Return letters, digits and signs as they are read: without markup and white space."""
    text = _MARKUP.sub(lambda mark: mark[1] or "", unicodedata.normalize("NFKC", text))
    return re.sub(r"\s+", "", text).casefold()


Verdict = Literal["same", "degraded", "unproved", "refused", "wrong"]
"""same: what the calm server said; degraded: the same or another known answer, which says what was missing; unproved:
an answer that says so and is not known, to be compared with the pages; refused: it says that it has none at the
moment; wrong: anything else."""

_CITED = ("page_id", "page_version", "url", "quote")
_EARLIER = {CACHED, CACHED_OLDER}


def substance(payload: Mapping[str, Any]) -> str:
    """Return a digest of an answer's or a search's substance; times, ids of receipts and flags are left out."""
    if "results" in payload:
        kept: Any = [result["chunk_id"] for result in payload["results"]]
    else:
        cited = [[citation[name] for name in _CITED] for citation in payload["citations"]]
        clarification = payload["clarification"] if not _EARLIER.intersection(payload["flags"]) else None
        kept = [payload["status"], payload["answer"], cited, clarification]
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:32]


def degraded(payload: Mapping[str, Any]) -> list[str]:
    """Return the flags of an answer or a search that name missing parts."""
    return sorted(set(payload.get("flags", payload.get("degraded", ()))) - FINDINGS)


@dataclass
class ExpectedAnswers:
    """Answers that may be given, by tenant, door and question: the calm server's first, then those of the same server
    with another generation, or without a part."""

    known: dict[str, list[str]] = field(default_factory=dict)

    def learn(self, asked: Iterable[str], payload: Mapping[str, Any]) -> bool:
        """Take an answer of a calm server; return whether it was known."""
        answers, told = self.known.setdefault(_key(asked), []), substance(payload)
        if told in answers:
            return True
        answers.append(told)
        return False

    def verdict(self, asked: Iterable[str], payload: Mapping[str, Any]) -> Verdict:
        """Return the verdict on an answer. One to a question that the calm server did not get is unproved."""
        if payload.get("status") == "unavailable":
            return "refused"
        answers, told, missing = self.known.get(_key(asked)), substance(payload), degraded(payload)
        if answers is None:
            return "unproved"
        if told == answers[0]:
            return "degraded" if missing else "same"
        if not missing:
            return "wrong"
        return "degraded" if told in answers else "unproved"


def _key(asked: Iterable[str]) -> str:
    return "\n".join(asked)


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
