"""What an operator is told of a tenant's state, and that nobody else is told anything."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.api_client import QUESTION, bearer, client_of
from support.wiki import configuration, publish

from rag_serving.api.status import status_of
from rag_serving.artifacts.signed_files import read_sync_time, write_sync_time
from rag_serving.artifacts.store import Store, write_json
from rag_serving.ask import Pipeline

TOKENS = json.dumps(
    {
        "reader": {"tenant": "acme"},
        "editor": {"tenant": "acme", "roles": ["reader", "editor", "auditor"]},
        "boss": {"tenant": "acme", "roles": ["operator"]},
        "other": {"tenant": "other", "roles": ["operator"]},
    }
)
SECRET = "s3cr3t-of-the-model"
DUMP = {"kind": "confluence_dump", "path": "x", "readers": "everyone"}
MORE: dict[str, Any] = {
    "tenants": {"acme": {}, "other": {}},
    "sources": {
        "ops": {**DUMP, "tenant": "acme", "schedule": "*/15 * * * *"},
        "new": {**DUMP, "tenant": "acme"},
        "theirs": {**DUMP, "tenant": "other"},
    },
    "generation": {
        "provider": "openai",
        "model": "small",
        "base_url": f"http://user:{SECRET}@127.0.0.1:9/v1",
        "max_retries": 0,
        "breaker_failures": 1,
    },
}
NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    publish(tmp_path)
    return tmp_path


@pytest.fixture
def client(home: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setenv("CITELOCK_TOKENS", TOKENS)
    return client_of(home, serving={"auth": "tokens"}, **MORE)


def status(home: Path, now: datetime = NOON, **more: Any) -> dict[str, Any]:
    pipeline = Pipeline.open(configuration(home, **{**MORE, **more}), "acme")
    try:
        return status_of(pipeline, now=now)
    finally:
        pipeline.close()


def test_an_operator_is_told_what_is_published_and_how_fresh_it_is(client: TestClient, home: Path) -> None:
    write_sync_time(Store(home), "ops", datetime.now(UTC))
    told = client.get("/v1/status", headers=bearer("boss")).json()
    assert told.keys() == {
        "tenant", "version", "generation", "sources", "phase", "features", "breakers", "degraded", "models", "streams",
    }  # fmt: skip
    assert told["tenant"] == "acme"
    assert told["generation"].keys() == {"id", "published_at", "chunks", "pages"}
    assert (told["generation"]["id"], told["generation"]["chunks"]) == (Store(home).current("acme"), 6)
    assert datetime.fromisoformat(told["generation"]["published_at"]) <= datetime.now(UTC)
    ops, new = told["sources"]
    assert (ops["key"], ops["kind"], ops["pages"], ops["overdue"]) == ("ops", "confluence_dump", 6, False)
    assert ops["newest_page"] == "2026-01-01T00:00:00+00:00"
    assert (new["key"], new["pages"], new["last_sync"], new["overdue"]) == ("new", 0, None, None)
    assert told["models"] == {"embedder": "local/all-MiniLM-L6-v2", "generator": "openai/small", "reranker": None}
    assert {each["name"]: each["state"] for each in told["breakers"]} == {"embedder": "closed", "generator": "closed"}
    assert (told["degraded"], told["streams"], told["phase"]["enabled"]) == ([], 0, True)


def test_nobody_else_is_told_anything(client: TestClient) -> None:
    assert client.get("/v1/status").status_code == 401
    for token in ("reader", "editor"):
        refused = client.get("/v1/status", headers=bearer(token))
        assert refused.status_code == 403
        assert refused.json() == {
            "error": True,
            "code": "FORBIDDEN",
            "message": "this is for callers with the role operator",
        }
    theirs = client.get("/v1/status", headers=bearer("other")).json()
    assert (theirs["generation"], [each["key"] for each in theirs["sources"]]) == (None, ["theirs"])
    assert "acme" not in json.dumps(theirs).replace("acme/wiki", "")


def test_no_credential_and_no_address_is_told(client: TestClient, home: Path) -> None:
    client.post("/v1/ask", json=QUESTION, headers=bearer("boss"))
    told = client.get("/v1/status", headers=bearer("boss")).text
    assert SECRET not in told
    assert "127.0.0.1" not in told
    assert str(home) not in told
    folder = status(home, embedding={"provider": "local", "model": "/models/secret-place/mini"})
    assert folder["models"]["embedder"] == "local/mini"


def test_a_model_that_fails_is_told_by_its_breaker(client: TestClient) -> None:
    asked = client.post("/v1/ask", json=QUESTION, headers=bearer("boss")).json()
    assert "generator_unavailable" in asked["flags"]
    told = client.get("/v1/status", headers=bearer("boss")).json()
    assert {"name": "generator", "state": "open"} in told["breakers"]
    assert told["degraded"] == ["generator: left alone after failures"]


@pytest.mark.parametrize(("minutes", "overdue"), [(5, False), (29, False), (46, True)])
def test_a_source_is_overdue_by_its_schedule(home: Path, minutes: int, overdue: bool) -> None:
    write_sync_time(Store(home), "ops", NOON - timedelta(minutes=minutes))
    assert status(home)["sources"][0]["overdue"] is overdue


def test_a_time_that_was_not_signed_here_is_no_time(home: Path) -> None:
    store = Store(home)
    write_sync_time(store, "ops", NOON)
    content = json.loads((store.source("ops") / "last_sync.json").read_text())
    for altered in ({**content, "synced_at": "2030-01-01T00:00:00+00:00"}, {"synced_at": NOON.isoformat()}, [], None):
        write_json(store.source("ops") / "last_sync.json", altered)
        assert read_sync_time(store, "ops") is None
    write_sync_time(store, "new", NOON)
    (store.source("ops") / "last_sync.json").write_bytes((store.source("new") / "last_sync.json").read_bytes())
    assert read_sync_time(store, "ops") is None, "it was signed for another source"
    assert status(home)["sources"][0]["last_sync"] is None


def test_a_source_that_went_to_another_tenant_tells_nothing_of_its_syncs(home: Path) -> None:
    write_sync_time(Store(home), "ops", NOON)
    told = status(home, sources={"ops": {**DUMP, "tenant": "other"}})["sources"]
    assert [(each["key"], each["kind"], each["pages"], each["last_sync"]) for each in told] == [("ops", None, 6, None)]


def test_a_tenant_without_a_generation_says_so(tmp_path: Path) -> None:
    told = status(tmp_path)
    assert told["generation"] is None
    assert len(told["degraded"]) == 1
    assert "citelock build" in told["degraded"][0]


def test_an_operator_is_told_which_phase_is_in_force_and_why(client: TestClient) -> None:
    for _ in range(2):
        client.post("/v1/ask", json=QUESTION, headers=bearer("reader"))
    told = client.get("/v1/status", headers=bearer("boss")).json()["phase"]
    assert (told["enabled"], told["phase"], told["why"]) == (True, 3, "as configured")
    assert told["configured"] == {"enabled": True, "phase": 3, "canary": None}
    assert told["window"]["questions"] == 2
    assert told["window"]["p95_ms"] > 0
    assert (told["changes"], told["hanging"]) == ([], 0)


def test_a_phase_that_is_switched_off_or_lowered_is_told(home: Path) -> None:
    off = status(home, retrieval={"enabled": False})["phase"]
    assert (off["enabled"], off["phase"], off["configured"]["phase"]) == (False, None, 3)
    lower = status(
        home, retrieval={"enabled": False}, tenants={"acme": {"retrieval": {"enabled": True, "phase": 1}}, "other": {}}
    )
    assert (lower["phase"]["enabled"], lower["phase"]["phase"]) == (True, 1)
