"""Rows of the audit log, and refusals if it cannot be written: over HTTP, streamed, in a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from sqlalchemy import Engine
from support.api_client import ADDRESS, LOCAL, bearer
from support.databases import audit_rows, damage_audit, emptied
from support.wiki import configuration, publish
from typer.testing import CliRunner

from citelock_governance.audit import log as log_module
from citelock_governance.audit.ledger import HEADS, METADATA
from citelock_governance.audit.verification import Verifier
from rag_serving.api.app import create_app
from rag_serving.artifacts.store import Store
from rag_serving.cli.main import app
from rag_serving.hooks import AuditUnavailableError, Event, open_audit, record

QUESTION = "May I restart a broker while partitions are under-replicated?"
TOKENS = {"ann": {"tenant": "acme", "user": "ann", "groups": ["staff"], "roles": ["reader", "editor"]}}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audited")
    publish(folder)
    return folder


@pytest.fixture
def engine(home: Path) -> Iterator[Engine]:
    with emptied(None, home, METADATA) as opened:
        (home / "audit" / "acme.json").unlink(missing_ok=True)
        yield opened


@pytest.fixture
def client(home: Path, engine: Engine, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    assert engine
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
    config = configuration(
        home,
        audit={"mode": getattr(request, "param", "required"), "store_queries": True},
        serving={"auth": "tokens"},
        sources={"uploads": {"kind": "files", "tenant": "acme"}},
    )
    return TestClient(create_app(config), ADDRESS, client=LOCAL, raise_server_exceptions=False)


def ask(client: TestClient, **more: Any) -> Any:
    return client.post("/v1/ask", json={"question": QUESTION, **more}, headers=bearer("ann"))


def test_a_question_is_on_disk_before_its_answer(client: TestClient, engine: Engine, home: Path) -> None:
    with client:
        answer = ask(client).json()
        (row,) = audit_rows(engine)
        found = client.post("/v1/search", json={"query": "log retention"}, headers=bearer("ann")).json()
    assert (row["kind"], row["status"], row["generation"]) == ("question", "answered", answer["generation"])
    assert answer["citations"][0]["chunk_id"] in json.loads(row["retrieved"])
    assert json.loads(row["details"])["receipt_id"] == answer["receipt_id"]
    assert row["latency_ms"] > 0
    search = audit_rows(engine)[1]
    assert (search["kind"], json.loads(search["retrieved"])[0]) == ("search", found["results"][0]["chunk_id"])
    assert search["actor"] == row["actor"] != "ann"
    assert Verifier(home, None).verify("acme").fault is None


def test_nothing_is_answered_that_cannot_be_logged(client: TestClient, engine: Engine) -> None:
    damage_audit(engine)
    with client:
        refused = ask(client)
        assert refused.status_code == 503
        assert refused.json()["code"] == "AUDIT_UNAVAILABLE"
        assert int(refused.headers["retry-after"]) > 0
        assert "168" not in refused.text
        assert "offline replicas" not in refused.text
        streamed = ask(client, stream=True).text
        assert "AUDIT_UNAVAILABLE" in streamed
        assert "event: answer" not in streamed
        assert "event: sentence" not in streamed
        assert client.post("/v1/search", json={"query": "logs"}, headers=bearer("ann")).status_code == 503
        completion = {"model": "citelock", "messages": [{"role": "user", "content": QUESTION}]}
        assert client.post("/v1/chat/completions", json=completion, headers=bearer("ann")).status_code == 503
    assert audit_rows(engine) == []


def test_a_document_is_neither_kept_nor_deleted_without_the_log(client: TestClient, engine: Engine, home: Path) -> None:
    files = {"file": ("Leave.md", b"# Leave\n\nThirty days.\n", "text/markdown")}
    with client:
        kept = client.post("/v1/documents", files=files, headers=bearer("ann")).json()
        damage_audit(engine)
        assert client.post("/v1/documents", files=files, headers=bearer("ann")).status_code == 503
        gone = client.delete(f"/v1/documents/{kept['document_id']}", headers=bearer("ann"))
        assert gone.json()["code"] == "AUDIT_UNAVAILABLE"
        (shown,) = client.get("/v1/documents", headers=bearer("ann")).json()["documents"]
    assert shown["status"] == "received"
    assert not list((Store(home).source("uploads") / "inbox").rglob("*.part"))
    (row,) = audit_rows(engine)
    assert (row["kind"], json.loads(row["details"])["source"]) == ("document.uploaded", "uploads")


@pytest.mark.parametrize("client", ["best_effort"], indirect=True)
def test_in_best_effort_an_answer_is_given_and_its_row_is_written_later(
    client: TestClient, engine: Engine, home: Path
) -> None:
    damage_audit(engine)
    with client:
        assert ask(client).status_code == 200
        with engine.begin() as connection:
            connection.execute(HEADS.delete())
        log = client.app.state.service.pipelines["acme"].log.audit  # type: ignore[attr-defined]
        assert log.flush(10.0)
    assert [row["kind"] for row in audit_rows(engine)] == ["question"]
    assert Verifier(home, None).verify("acme").fault is None


def test_what_is_lost_is_counted_in_the_log(home: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    damage_audit(engine)
    monkeypatch.setattr(log_module, "CAPACITY", 3)
    log = open_audit(configuration(home, audit={"mode": "best_effort"}), "acme")
    assert log is not None
    for _ in range(10):
        log.record(Event("question"))
    with engine.begin() as connection:
        connection.execute(HEADS.delete())
    assert log.flush(10.0)
    log.record(Event("question"))
    log.close()
    lost = [json.loads(row["details"])["events"] for row in audit_rows(engine) if row["kind"] == "audit.lost"]
    written = sum(row["kind"] == "question" for row in audit_rows(engine))
    assert sum(lost) + written == 11
    assert sum(lost) > 0


@pytest.fixture
def config_file(home: Path, engine: Engine, tmp_path: Path) -> str:
    assert engine
    path = tmp_path / "app.yaml"
    path.write_text(yaml.safe_dump({"home": str(home), "tenants": {"acme": {}}, "audit": {"mode": "required"}}))
    return str(path)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, [*arguments])


def test_a_terminal_gets_no_answer_either(config_file: str, engine: Engine) -> None:
    asked = run("ask", QUESTION, "--config", config_file)
    assert asked.exit_code == 0
    damage_audit(engine)
    refused = run("ask", QUESTION, "--config", config_file)
    assert refused.exit_code == 1
    assert "the audit log cannot be written, and nothing is answered without it" in refused.stderr
    assert "replica" not in refused.stdout
    assert run("audit", "verify", "--config", config_file).exit_code == 1


def test_a_rollback_is_logged_before_it_happens(config_file: str, engine: Engine, home: Path) -> None:
    current = Store(home).current("acme")
    assert current is not None
    assert run("generations", "rollback", current, "--config", config_file).exit_code == 0
    (row,) = audit_rows(engine)
    assert (row["kind"], row["subject"], json.loads(row["details"])) == (
        "generation.rolled_back", current, {"from": current}
    )  # fmt: skip
    damage_audit(engine)
    assert run("generations", "rollback", current, "--config", config_file).exit_code == 1


def test_a_command_logs_by_its_account_and_nothing_where_the_log_is_off(home: Path, engine: Engine) -> None:
    record(configuration(home), "acme", Event("key.created", subject="k1"))
    METADATA.create_all(engine)
    assert audit_rows(engine) == []
    record(configuration(home, audit={"mode": "required"}), "acme", Event("key.created", subject="k1"))
    (row,) = audit_rows(engine)
    assert (row["kind"], row["subject"], bool(row["actor"])) == ("key.created", "k1", True)


def test_a_log_that_fails_is_left_alone_for_a_while(home: Path, engine: Engine) -> None:
    damage_audit(engine)
    log = open_audit(configuration(home, audit={"mode": "required"}), "acme")
    assert log is not None
    for fault in ("altered", "altered", "failed a moment ago"):
        with pytest.raises(AuditUnavailableError, match=fault):
            log.record(Event("question"))
    log.close()


AUDITORS = {
    "eve": {"tenant": "acme", "user": "eve", "roles": ["auditor"]},
    "foreign": {"tenant": "other", "user": "eve", "roles": ["auditor"]},
    "ann": {"tenant": "acme", "user": "ann", "roles": ["reader", "operator"]},
}


def test_auditors_read_the_log_of_their_own_tenant(home: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(AUDITORS))
    more = {"audit": {"mode": "best_effort"}, "serving": {"auth": "tokens"}, "tenants": {"acme": {}, "other": {}}}
    config = configuration(home, **more)
    with TestClient(create_app(config), ADDRESS, client=LOCAL, raise_server_exceptions=False) as client:

        def read(token: str, query: str = "") -> Any:
            return client.get(f"/v1/audit{query}", headers=bearer(token))

        assert read("eve").status_code in (200, 404), read(
            "eve"
        ).text  # there is no log yet, or only that it was looked for
        for number in range(5):
            record(config, "acme", Event("key.created", subject=f"k{number}"))
        first = read("eve", "?limit=2").json()
        assert len(first["rows"]) == 2
        following = read("eve", f"?after={first['next']}&limit=1000").json()
        rows_read = first["rows"] + following["rows"]
        assert [row["sequence"] for row in rows_read] == [*range(1, len(rows_read) + 1)]
        assert sum(row["kind"] == "key.created" for row in rows_read) == 5
        assert following["next"] is None
        assert not [row for row in read("foreign").json()["rows"] if row["tenant"] != "other"]
        assert read("ann").status_code == 403
        assert client.get("/v1/audit").status_code == 401
        assert read("eve", "?limit=0").status_code == 400
        assert read("eve", f"?after={10**30}").status_code == 400
