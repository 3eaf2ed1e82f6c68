"""Sessions over HTTP: questions named with one lean on those before it; nobody sees anybody else's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.api_client import bearer, client_of
from support.command_line import run, write_config
from support.wiki import PASSAGES, publish

HR = {"tenant": "acme", "groups": ["hr"]}
TOKENS = {
    "ann": {**HR, "user": "ann"}, "bob": {"tenant": "acme", "user": "bob"}, "o": {"tenant": "other", "user": "ann"},
    "left": {"tenant": "acme", "user": "ann"},
}  # fmt: skip
SALARY = "What salary bonus does the broker team earn in December?"
LOGS = "How long does each broker keep logs?"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    publish(tmp_path)
    return tmp_path


@pytest.fixture
def client(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
    more: dict[str, Any] = {"serving": {"auth": "tokens"}, "tenants": {"acme": {}, "other": {}}}
    with client_of(home, sessions={"store_days": 90}, **more) as opened:
        yield opened


def begun(client: TestClient, token: str = "ann") -> str:
    response = client.post("/v1/sessions", headers=bearer(token))
    assert response.status_code == 201
    return str(response.json()["session_id"])


def ask(client: TestClient, question: str, token: str = "ann", **more: Any) -> dict[str, Any]:
    response = client.post("/v1/ask", json={"question": question, **more}, headers=bearer(token))
    assert response.status_code in (200, 503), response.text
    found: dict[str, Any] = response.json()
    return found


def session(client: TestClient, identifier: str, token: str = "ann") -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/v1/sessions/{identifier}", headers=bearer(token)).json()
    return found


def test_a_question_of_a_session_leans_on_those_before_it(client: TestClient) -> None:
    identifier = begun(client)
    first = ask(client, LOGS, session_id=identifier)
    assert (first["session_id"], first["understood"]) == (identifier, None)
    second = ask(client, "and how are they kept longer?", session_id=identifier)
    assert second["understood"].startswith("how are they kept longer: ")
    assert "session_id" not in ask(client, LOGS)
    (listed,) = client.get("/v1/sessions", headers=bearer("ann")).json()["sessions"]
    assert (listed["session_id"], listed["title"], listed["questions"]) == (identifier, LOGS, 2)
    turns = session(client, identifier)["turns"]
    assert [turn["question"] for turn in turns] == [LOGS, "and how are they kept longer?"]
    assert turns[0]["answer"] == first["answer"]
    assert turns[0]["sources"][0]["chunk_id"] == first["citations"][0]["chunk_id"]
    assert turns[0]["receipt_id"] == first["receipt_id"]


def test_chat_clients_name_a_session_too(client: TestClient) -> None:
    identifier = begun(client)
    body = {"messages": [{"role": "user", "content": LOGS}], "session_id": identifier}
    made = client.post("/v1/chat/completions", json=body, headers=bearer("ann")).json()
    assert made["citelock"]["session_id"] == identifier
    made = client.post("/v1/responses", json={"input": "why?", "session_id": identifier}, headers=bearer("ann")).json()
    assert made["citelock"]["understood"].startswith("why: ")
    assert len(session(client, identifier)["turns"]) == 2


def test_a_session_of_somebody_else_is_unknown(client: TestClient) -> None:
    identifier = begun(client)
    ask(client, SALARY, session_id=identifier)
    for token in ("bob", "o"):
        answer = ask(client, "and in December?", token, session_id=identifier)
        assert answer["understood"] is None
        assert "session_unknown" in answer["flags"]
        assert "session_id" not in answer
        for method in ("GET", "DELETE"):
            theirs = client.request(method, f"/v1/sessions/{identifier}", headers=bearer(token))
            never = client.request(method, "/v1/sessions/none", headers=bearer(token))
            assert (theirs.status_code, theirs.json()) == (never.status_code, never.json())
            assert theirs.status_code == 404
        assert client.get("/v1/sessions", headers=bearer(token)).json() == {"sessions": []}
    assert len(session(client, identifier)["turns"]) == 1


def test_an_answer_is_withheld_from_who_may_no_longer_read_its_pages(client: TestClient) -> None:
    identifier = begun(client)
    told = ask(client, SALARY, session_id=identifier)
    assert "4,000" in told["answer"]
    (turn,) = session(client, identifier, "left")["turns"]
    assert (turn["question"], turn["answer"], turn["sources"], turn["withheld"]) == (SALARY, None, [], True)
    follow = ask(client, "and in December?", "left", session_id=identifier, explain=True)
    told_now = repr({**follow, "understood": None})
    assert "4,000" not in told_now
    assert "Compensation" not in told_now


def test_a_page_that_is_hidden_later_is_carried_no_further(client: TestClient, home: Path) -> None:
    identifier = begun(client, "bob")
    ask(client, LOGS, "bob", session_id=identifier)
    publish(home, [passage if passage.page_id != "12" else _hidden(passage) for passage in PASSAGES])
    answer = ask(client, "and how are they kept longer?", "bob", session_id=identifier, explain=True)
    assert "log.retention.hours" not in repr(answer)
    assert all(citation["page_id"] != "12" for citation in answer["citations"])
    assert session(client, identifier, "bob")["turns"][0]["withheld"]


def _hidden(passage: Any) -> Any:
    from dataclasses import replace

    return replace(passage, readers="group:hr")


def test_a_session_is_deleted_by_its_user_and_by_the_command(client: TestClient, home: Path, tmp_path: Path) -> None:
    identifier, other = begun(client), begun(client)
    ask(client, LOGS, session_id=identifier)
    assert client.delete(f"/v1/sessions/{identifier}", headers=bearer("ann")).status_code == 204
    assert client.get(f"/v1/sessions/{identifier}", headers=bearer("ann")).status_code == 404
    code, out, _ = run("forget", "--user", "ann", "--config", write_config(tmp_path, home), "--json")
    assert (code, json.loads(out)["sessions"]) == (0, 1)
    assert client.get(f"/v1/sessions/{other}", headers=bearer("ann")).status_code == 404


def test_a_selection_is_kept_with_its_text(client: TestClient) -> None:
    identifier = begun(client)
    text = "The gate opens at six in the morning."
    ask(client, "When does the gate open?", mode="selected_text", context=text, session_id=identifier)
    (turn,) = session(client, identifier)["turns"]
    assert (turn["mode"], turn["context_text"], turn["withheld"]) == ("selected_text", text, False)


def test_a_store_that_fails_costs_a_flag_and_no_question(client: TestClient, home: Path) -> None:
    identifier = begun(client)
    client.app.state.service.pipelines["acme"].sessions.close()  # type: ignore[attr-defined]
    for file in home.glob("serving.db*"):
        file.unlink()
    (home / "serving.db").write_bytes(b"no database" * 1000)
    answer = ask(client, LOGS, session_id=identifier)
    assert answer["status"] == "answered"
    assert "session_unavailable" in answer["flags"]
    response = client.get(f"/v1/sessions/{identifier}", headers=bearer("ann"))
    assert (response.status_code, response.json()["code"]) == (503, "UNAVAILABLE")


def test_no_session_is_kept_where_sessions_are_not_stored(wiki_home: Path) -> None:
    with client_of(wiki_home) as client:
        assert client.post("/v1/sessions").status_code == 501
        answer = client.post("/v1/ask", json={"question": LOGS, "session_id": "x"}).json()
        assert answer["status"] == "answered"
        assert "session_unknown" in answer["flags"]
