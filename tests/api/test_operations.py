"""Operators roll back and choose phases over HTTP; each act is logged before it is done."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.api_client import QUESTION, bearer, client_of
from support.wiki import PASSAGES, configuration, publish

from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.degradation.phases import ChosenPhases

TOKENS = json.dumps(
    {
        "reader": {"tenant": "acme", "user": "rita", "roles": ["reader", "editor", "auditor"]},
        "boss": {"tenant": "acme", "user": "bea", "roles": ["operator"]},
        "other": {"tenant": "other", "user": "oz", "roles": ["operator"]},
    }
)
ROLLBACK, PHASE = "/v1/generations/rollback", "/v1/phase"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CITELOCK_TOKENS", TOKENS)
    return tmp_path


def served(home: Path, **more: Any) -> TestClient:
    tenants: dict[str, Any] = {"acme": {}, "other": {}}
    return client_of(home, serving={"auth": "tokens"}, tenants=tenants, **more)


def logged(home: Path) -> list[tuple[str, str | None, dict[str, Any]]]:
    """The acts in the audit log: kind, subject, details."""
    with sqlite3.connect(home / "serving.db") as database:
        rows = database.execute("SELECT kind, subject, details FROM audit_rows ORDER BY sequence").fetchall()
    acts = [(kind, subject, json.loads(details)) for kind, subject, details in rows if "." in kind]
    return [act for act in acts if act[2].get("direction") != "configured"]


@contextmanager
def failing_audit(home: Path) -> Iterator[None]:
    """A database that nobody may write."""
    file = home / "serving.db"
    file.unlink(missing_ok=True)
    file.mkdir()
    yield
    file.rmdir()


def test_an_operator_publishes_the_generation_before_and_the_next_question_is_answered_from_it(home: Path) -> None:
    first = publish(home)
    second = publish(home, PASSAGES[1:])
    with served(home, audit={"mode": "required"}) as client:
        assert client.post("/v1/ask", json=QUESTION, headers=bearer("reader")).json()["generation"] == second
        done = client.post(ROLLBACK, json={}, headers=bearer("boss"))
        assert (done.status_code, done.json()) == (200, {"tenant": "acme", "previous": second, "current": first})
        answer = client.post("/v1/ask", json=QUESTION, headers=bearer("reader")).json()
        assert (answer["generation"], answer["status"]) == (first, "answered")
        again = client.post(ROLLBACK, json={"generation": second}, headers=bearer("boss"))
        assert again.json()["current"] == Store(home).current("acme") == second
    assert logged(home) == [
        ("generation.rolled_back", None, {"from": second}),
        ("generation.rolled_back", second, {"from": first}),
    ]


def test_only_generations_that_were_published_can_be_again(home: Path) -> None:
    only = publish(home)
    with served(home) as client:
        for body in ({}, {"generation": "20990101-never"}, {"generation": "../other"}):
            refused = client.post(ROLLBACK, json=body, headers=bearer("boss"))
            assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT"), body
    assert Store(home).current("acme") == only


def test_a_generation_that_failed_its_checks_is_not_published_by_its_name(home: Path) -> None:
    first, candidate = publish(home), publish(home, PASSAGES[1:])
    store = Store(home)
    record = store.publication_record("acme")
    store.point_current("acme", first)
    content = json.loads(record.read_text(encoding="utf-8"))
    assert candidate in content["history"]
    publish_only(store, first, record)
    with served(home) as client:
        assert client.post(ROLLBACK, json={"generation": candidate}, headers=bearer("boss")).status_code == 409
    assert store.current("acme") == first


def publish_only(store: Store, generation: str, record: Path) -> None:
    """Let the record of publications name one generation alone."""
    record.unlink()
    store.pointer("acme").unlink()
    store.point_current("acme", generation)


def test_a_database_whose_pointer_this_server_may_not_move_is_named(home: Path) -> None:
    publish(home)
    index = {"kind": "postgres", "url": "postgresql://citelock_app@127.0.0.1:9/none"}
    with served(home, index=index) as client:
        for body in ({}, {"generation": "g"}):
            refused = client.post(ROLLBACK, json=body, headers=bearer("boss"))
            assert refused.status_code == 501, refused.text
            assert "index.writer_url is not set" in refused.json()["message"]


def test_a_home_that_this_server_may_not_write_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home)
    publish(home, PASSAGES[1:])

    def read_only(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with served(home) as client:
        monkeypatch.setattr(Store, "point_current", read_only)
        monkeypatch.setattr(ChosenPhases, "choose", read_only)
        for path, body in ((ROLLBACK, {}), (PHASE, {"phase": 1})):
            refused = client.post(path, json=body, headers=bearer("boss"))
            assert refused.status_code == 501, refused.text
            assert str(home) not in refused.text


def test_an_act_that_cannot_be_logged_is_not_done(home: Path) -> None:
    publish(home)
    second = publish(home, PASSAGES[1:])
    with served(home, audit={"mode": "required"}, telemetry={"enabled": False}) as client, failing_audit(home):
        for path, body in ((ROLLBACK, {}), (PHASE, {"phase": 1})):
            refused = client.post(path, json=body, headers=bearer("boss"))
            assert (refused.status_code, refused.json()["code"]) == (503, "AUDIT_UNAVAILABLE"), refused.text
        assert Store(home).current("acme") == second
        assert ChosenPhases(Store(home), "acme").current() is None


def test_a_chosen_phase_holds_in_all_processes_of_the_home_and_after_a_restart_until_it_is_lifted(home: Path) -> None:
    publish(home)
    with served(home, audit={"mode": "required"}) as client, served(home) as beside:
        chosen = client.post(PHASE, json={"phase": 1}, headers=bearer("boss"))
        assert chosen.json() == {"tenant": "acme", "phase": 1, "enabled": True, "chosen": True}
        beside.app.state.service.follow()  # type: ignore[attr-defined]
        for each in (client, beside):
            state = each.get("/v1/status", headers=bearer("boss")).json()["phase"]
            assert (state["phase"], state["configured"]["phase"], state["chosen"]["phase"]) == (1, 3, 1)
        with served(home) as restarted:
            assert restarted.get("/v1/status", headers=bearer("boss")).json()["phase"]["phase"] == 1
        lifted = client.post(PHASE, json={"phase": None}, headers=bearer("boss"))
        assert lifted.json() == {"tenant": "acme", "phase": 3, "enabled": True, "chosen": False}
    assert logged(home) == [
        ("phase.changed", None, {"direction": "chosen", "phase": 1, "enabled": True}),
        ("phase.changed", None, {"direction": "chosen", "phase": None, "enabled": True}),
    ]


def test_retrieval_is_switched_off_and_on_but_never_on_where_the_configuration_has_it_off(home: Path) -> None:
    publish(home)
    with served(home) as client:
        client.post(PHASE, json={"phase": None, "enabled": False}, headers=bearer("boss"))
        off = client.post("/v1/ask", json=QUESTION, headers=bearer("reader"))
        assert (off.status_code, off.json()["flags"]) == (503, ["retrieval_disabled"])
        client.post(PHASE, json={"phase": None}, headers=bearer("boss"))
        assert client.post("/v1/ask", json=QUESTION, headers=bearer("reader")).status_code == 200
    with served(home, retrieval={"enabled": False}) as client:
        client.post(PHASE, json={"phase": 3, "enabled": True}, headers=bearer("boss"))
        assert client.post("/v1/ask", json=QUESTION, headers=bearer("reader")).status_code == 503


def test_a_choice_that_was_not_signed_here_is_ignored(home: Path) -> None:
    publish(home)
    choices = ChosenPhases(Store(home), "acme")
    choices.choose(1, True)
    assert (choice := choices.current())
    assert choice.phase == 1
    file = home / "tenants" / "acme" / "phase.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"phase": 1', '"phase": 2'), encoding="utf-8")
    assert ChosenPhases(Store(home), "acme").current() is None
    assert Pipeline.open(configuration(home), "acme").phases.settings.phase == 3


def test_nobody_acts_on_another_tenant_or_without_the_role(home: Path) -> None:
    publish(home)
    second = publish(home, PASSAGES[1:])
    with served(home) as client:
        for path, body in ((ROLLBACK, {}), (PHASE, {"phase": 1})):
            assert client.post(path, json=body, headers=bearer("reader")).status_code == 403
            assert client.post(f"{path}?tenant=acme", json=body, headers=bearer("other")).status_code == 403
        assert client.post(ROLLBACK, json={}, headers=bearer("other")).status_code == 409
        for body in ({}, {"phase": 0}, {"phase": 4}, {"phase": "1; DROP"}, {"phase": 1, "tenant": "other"}):
            assert client.post(PHASE, json=body, headers=bearer("boss")).status_code == 400, body
    assert Store(home).current("acme") == second
    assert not (home / "tenants" / "acme" / "phase.json").exists()
