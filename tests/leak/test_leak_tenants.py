"""A tenant's callers see of the installation what they would see if their tenant were the only one."""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response
from support.api_client import QUESTION, bearer, client_of
from support.stand_in_issuer import AUDIENCE, claims_of, signed
from support.stand_in_provider import served_provider
from support.wiki import copied

from rag_serving.api.admission import ROUTES
from rag_serving.api.limits import Guesses
from rag_serving.artifacts.store import Store

OWN, HIDDEN, MADE_UP = "acme", "zebra-secret", "ghost-tenant"
ROLES = ["reader", "editor", "operator", "auditor"]
TOKENS = {
    "own": {"tenant": OWN, "user": "ann", "roles": ROLES},
    "hidden": {"tenant": HIDDEN, "user": "zoe", "roles": ROLES},
}
SENT: dict[str, Any] = {
    "POST /v1/ask": QUESTION,
    "POST /v1/search": {"query": "broker"},
    "POST /v1/chat/completions": {"model": "citelock", "messages": [{"role": "user", "content": "What is a broker?"}]},
    "POST /v1/responses": {"model": "citelock", "input": "What is a broker?"},
    "POST /v1/embeddings": {"model": "citelock", "input": "broker"},
    "POST /v1/feedback": {"receipt_id": "0" * 32, "verdict": "helpful"},
    "POST /mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
}
ENDLESS = {"GET /v1/events"}
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
VOLATILE = re.compile(
    r'"(id|resp_\w+|receipt_id|created|created_at|completed_at|timings_ms|total_ms|expires_at|csrf|item_id|ms|total|since'
    r'|last_active|session_id|timestamp)": ?("[^"]*"|-?[\d.e-]+|\{[^}]*\})'
)
NUMBERS = re.compile(r"(?<= )[\d.e+-]+$", re.MULTILINE)


@dataclass
class Beside:
    """The same installation with another tenant, and without."""

    both: TestClient
    alone: TestClient


@pytest.fixture(scope="module")
def beside(wiki_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    homes = [tmp_path_factory.mktemp(name) for name in ("both", "alone")]
    for home in homes:
        copied(wiki_home, home)
    tenants: dict[str, Any] = {OWN: {}}
    with served_provider() as issuer, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CITELOCK_SECRET", "a secret of the installation for tests")
        patch.setenv("CITELOCK_TOKENS", json.dumps({"own": TOKENS["own"]}))
        serving = {"auth": "jwt", "mcp": True, "jwt": {"issuer": "https://id.example", "audience": AUDIENCE}}
        serving["jwt"] |= {"jwks_url": f"{issuer.url}/keys", "tenants": {}}  # type: ignore[operator]
        with client_of(homes[1], tenants=tenants, serving=serving) as alone:
            patch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
            with client_of(homes[0], tenants={**tenants, HIDDEN: {}}, serving=serving) as both:
                yield Beside(both, alone)


@pytest.fixture(autouse=True)
def forgotten_guesses(beside: Beside) -> None:
    for client in (beside.both, beside.alone):
        client.app.state.guesses = Guesses()  # type: ignore[attr-defined]


def asked(client: TestClient, route: str, headers: dict[str, str], query: str = "") -> Response:
    method, _, path = route.partition(" ")
    path = re.sub(r"\{[\w:]+\}", "0" * 32, path)
    sent = {"json": SENT[route]} if route in SENT else {}
    return client.request(method, f"{path}{query}", headers={**headers, **HEADERS}, **sent)


def seen(response: Response) -> tuple[int, str, dict[str, str]]:
    """What of a response is not made anew for each request."""
    text = VOLATILE.sub('"…"', response.text)
    kept = {name: value for name, value in response.headers.items() if name not in ("content-length", "set-cookie")}
    return response.status_code, NUMBERS.sub("…", text) if "metrics" in response.url.path else text, kept


@pytest.mark.parametrize("route", sorted(set(ROUTES) - ENDLESS))
def test_every_route_answers_as_if_there_were_no_other_tenant(beside: Beside, route: str) -> None:
    for query in ("", f"?tenant={OWN}", f"?tenant={HIDDEN}", f"?tenant={MADE_UP}"):
        for headers in (bearer("own"), {}, bearer("wrong")):
            answers = [asked(client, route, headers, query) for client in (beside.both, beside.alone)]
            assert seen(answers[0]) == seen(answers[1]), (query, headers)
            assert HIDDEN not in re.sub(r"\?tenant=\S+", "", answers[0].text)


@pytest.mark.parametrize("route", sorted(set(ROUTES) - ENDLESS))
def test_a_tenant_that_is_there_is_refused_as_one_that_is_not(beside: Beside, route: str) -> None:
    there, made_up = (asked(beside.both, route, bearer("own"), f"?tenant={name}") for name in (HIDDEN, MADE_UP))
    assert seen(there) == seen(made_up)


def test_a_model_of_another_tenant_is_as_unknown_as_one_that_never_was(beside: Beside) -> None:
    for route in ("POST /v1/chat/completions", "POST /v1/responses"):
        told = []
        for name in (HIDDEN, MADE_UP):
            body = {**SENT[route], "model": f"citelock-{name}"}
            response = beside.both.post(route.partition(" ")[2], json=body, headers=bearer("own"))
            told.append((response.status_code, response.text.replace(name, "…")))
        assert told[0] == told[1]
        assert told[0][0] == 404


def test_tokens_that_name_a_tenant_of_nobody_learn_of_none(beside: Beside) -> None:
    told = set()
    for name in (MADE_UP, "zebra", HIDDEN.upper(), ""):
        token = signed(claims_of("https://id.example", tenant_id=name))
        response = beside.both.get("/v1/models", headers=bearer(token))
        told.add((response.status_code, response.text))
    assert len(told) == 1
    assert HIDDEN not in str(told)


def test_what_the_other_tenant_does_moves_no_figure(beside: Beside) -> None:
    def metrics() -> str:
        return str(beside.both.get("/metrics", headers=bearer("own")).text)

    def streams_told() -> Any:
        return beside.both.get("/v1/status", headers=bearer("own")).json()["streams"]

    told = streams_told()
    metrics()
    before = metrics()
    for _ in range(5):
        asked(beside.both, "POST /v1/ask", bearer("hidden"))
        asked(beside.both, "POST /v1/search", bearer("hidden"))
    streams = beside.both.app.state.streams.by_caller  # type: ignore[attr-defined]
    streams[f"{HIDDEN} digest zoe"] += 3
    assert metrics() == before
    assert streams_told() == told
    assert beside.both.get("/v1/status", headers=bearer("hidden")).json()["streams"] == 3
    del streams[f"{HIDDEN} digest zoe"]


def test_probes_name_no_tenant(beside: Beside) -> None:
    for path in ("/healthz", "/readyz"):
        answers = [client.get(path) for client in (beside.both, beside.alone)]
        assert answers[0].text == answers[1].text
        assert OWN not in answers[0].text


def test_the_limits_of_one_tenant_are_not_told_by_another(beside: Beside) -> None:
    for _ in range(20):
        asked(beside.both, "GET /v1/models", bearer("hidden"))
    assert asked(beside.both, "GET /v1/models", bearer("own")).status_code == 200


def test_a_tenant_that_is_there_takes_as_long_to_refuse_and_opens_no_file(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a refusal looks into no tenant")

    monkeypatch.setattr(Store, "current", never)
    monkeypatch.setattr(Store, "publication", never)
    seconds: dict[str, list[float]] = {HIDDEN: [], MADE_UP: []}
    for _ in range(60):
        for name, taken in seconds.items():
            begun = time.perf_counter()
            refused = asked(beside.both, "GET /v1/models", bearer("own"), f"?tenant={name}")
            taken.append(time.perf_counter() - begun)
            assert refused.status_code == 403
    there, made_up = (statistics.median(taken) for taken in seconds.values())
    assert 0.5 < there / made_up < 2
