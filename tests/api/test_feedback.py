"""Readers' verdicts: who may judge which answer, what is kept, and the gold questions that are drafted from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from support.api_client import QUESTION, TOKENS, bearer, client_of
from support.wiki import publish
from typer.testing import CliRunner

from evals.evaluation.gold import read_gold
from evals.evaluation.gold_drafts import complaints, complaints_to_yaml
from rag_serving.cli.main import app


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    publish(folder)
    return folder


@pytest.fixture
def client(home: Path) -> Iterator[TestClient]:
    with client_of(home) as opened:
        yield opened


@pytest.fixture
def secured(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("CITELOCK_TOKENS", TOKENS)
    with client_of(home, tenants={"acme": {}, "other": {}}, serving={"auth": "tokens"}) as opened:
        yield opened


def asked(client: TestClient, question: dict[str, str] = QUESTION, **more: Any) -> str:
    return str(client.post("/v1/ask", json=question, **more).json()["receipt_id"])


def metric(client: TestClient, name: str, **more: Any) -> dict[str, float]:
    """The series of a metric: value by labels."""
    lines = [line for line in client.get("/metrics", **more).text.splitlines() if line.startswith(name)]
    return {line.rsplit(" ", 1)[0].removeprefix(name): float(line.rsplit(" ", 1)[1]) for line in lines}


def test_a_verdict_on_an_answer_is_accepted_and_counted(client: TestClient) -> None:
    body = {"receipt_id": asked(client), "verdict": "wrong_citation", "citation": 1, "comment": "another product"}
    response = client.post("/v1/feedback", json=body)
    assert (response.status_code, response.json()) == (202, {"status": "accepted"})
    assert metric(client, "citelock_feedback") == {'{tenant="acme",verdict="wrong_citation"}': 1.0}


@pytest.mark.parametrize(
    ("change", "status", "told"),
    [
        ({"receipt_id": "0" * 32}, 404, "no such receipt"),
        ({"receipt_id": "0" * 65}, 400, "receipt_id"),
        ({"verdict": "bad"}, 400, "verdict"),
        ({"citation": 9}, 400, "only [1]"),
        ({"citation": 0}, 400, "citation"),
        ({"comment": "x" * 2001}, 400, "comment"),
        ({"mood": "angry"}, 400, "mood"),
    ],
)
def test_a_verdict_that_cannot_be_is_refused(
    client: TestClient, change: dict[str, Any], status: int, told: str
) -> None:
    response = client.post("/v1/feedback", json={"receipt_id": asked(client), "verdict": "helpful", **change})
    assert response.status_code == status
    assert told in response.json()["message"]


def test_only_who_may_see_the_answer_may_judge_it(secured: TestClient) -> None:
    salaries = {"question": "What bonus does the broker team earn in December?"}
    body = {"receipt_id": asked(secured, salaries, headers=bearer("hr")), "verdict": "helpful"}

    def status(**more: Any) -> int:
        return secured.post("/v1/feedback", json=body, **more).status_code

    assert status(headers=bearer("hr")) == 202
    assert status(headers=bearer("all")) == 404  # may not read the page
    assert status(headers=bearer("o")) == 404  # of another tenant
    assert status() == 401


def test_a_tenant_sees_figures_of_its_own_questions_alone(secured: TestClient) -> None:
    asked(secured, headers=bearer("all"))
    assert metric(secured, "citelock_questions_total", headers=bearer("all"))
    assert "acme" not in secured.get("/metrics", headers=bearer("o")).text


def test_metrics_of_questions_are_told_without_the_database(client: TestClient) -> None:
    asked(client)
    asked(client, {"question": "What is the capital of Mongolia?"})
    client.post("/v1/search", json={"query": "lag"})
    assert metric(client, "citelock_questions_total") == {
        '{kind="ask",outcome="told",status="answered",tenant="acme"}': 1.0,
        '{kind="ask",outcome="none",status="not_found",tenant="acme"}': 1.0,
        '{kind="search",outcome="",status="found",tenant="acme"}': 1.0,
    }
    claims = metric(client, "citelock_claims_total")
    assert claims == metric(client, "citelock_verified_claims_total")
    assert claims['{tenant="acme"}'] > 0
    assert metric(client, "citelock_degraded_questions_total") == {'{tenant="acme"}': 0.0}
    assert metric(client, "citelock_stage_seconds_count")['{stage="total",tenant="acme"}'] == 3
    assert 0 < metric(client, "citelock_stage_seconds_sum")['{stage="total",tenant="acme"}'] < 60
    waiting = metric(client, "citelock_telemetry_waiting")  # first: what waits may be written meanwhile
    rows = metric(client, "citelock_telemetry_rows_total")
    assert sum(rows.values()) + sum(waiting.values()) >= 3
    assert rows['{fate="dropped",tenant="acme"}'] == 0


def test_without_telemetry_feedback_is_refused_and_questions_are_answered(home: Path) -> None:
    with client_of(home, telemetry={"enabled": False}) as client:
        response = client.post("/v1/feedback", json={"receipt_id": asked(client), "verdict": "helpful"})
        assert (response.status_code, response.json()["code"]) == (501, "FEEDBACK_OFF")
        assert "citelock_telemetry" not in "".join(metric(client, "citelock_telemetry"))


def test_bad_answers_become_drafts_of_gold_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path / "home")
    content = {"home": str(tmp_path / "home"), "tenants": {"acme": {}}, "telemetry": {"store_questions": True}}
    (tmp_path / "app.yaml").write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setenv("CITELOCK_CONFIG", str(tmp_path / "app.yaml"))
    run = CliRunner().invoke
    receipt = json.loads(run(app, ["ask", QUESTION["question"], "--json"]).stdout)["receipt_id"]
    assert run(app, ["feedback", receipt, "helpful"]).exit_code == 0
    made = run(app, ["feedback", receipt, "not_helpful", "--citation", "1", "--comment", "too\nshort: # really"])
    assert (made.exit_code, made.stdout) == (0, "Thank you: kept.\n")
    assert run(app, ["feedback", receipt, "not_helpful", "--citation", "7"]).exit_code == 2
    drafted = run(app, ["gold", "from-feedback"]).stdout
    (entry,) = yaml.safe_load(drafted)["questions"]
    assert (entry["question"], entry["page"], entry["quote"]) == (QUESTION["question"], "11", "")
    assert "https://wiki.example/pages/11#Restarting-a-broker" in drafted
    (tmp_path / "gold.yaml").write_text(drafted.replace('quote: ""', 'quote: "must not restart"'), encoding="utf-8")
    assert read_gold(tmp_path / "gold.yaml").questions[0].pages == {"11"}


@pytest.mark.parametrize("gates", [{}, {"min_confidence": 1.0, "min_closest": 0.0}])
def test_what_is_reported_as_missing_becomes_a_draft_though_no_question_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gates: dict[str, float]
) -> None:
    publish(tmp_path / "home")
    content = {"home": str(tmp_path / "home"), "tenants": {"acme": {}}}
    (tmp_path / "app.yaml").write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setenv("CITELOCK_CONFIG", str(tmp_path / "app.yaml"))
    question, complained = "How much is the parking fee in Oslo?", "Who may park a broker?"
    with client_of(tmp_path / "home", gates=gates) as client:
        answer = client.post("/v1/ask", json={"question": question}).json()
        assert answer["outcome"] in ("none", "closest")
        report = {"receipt_id": answer["receipt_id"], "verdict": "missing", "comment": "It was 40 kr: write it down."}
        assert client.post("/v1/feedback", json=report).status_code == 202
        other = {"receipt_id": asked(client, {"question": complained}), "verdict": "not_helpful"}
        assert client.post("/v1/feedback", json=other).status_code == 202
    drafted = CliRunner().invoke(app, ["gold", "from-feedback"])
    (entry,) = yaml.safe_load(drafted.stdout)["questions"]
    assert (entry["question"], entry["page"], entry["answerable"]) == (question, "", True)
    assert '# "reader: It was 40 kr: write it down."' in drafted.stdout
    assert complained not in drafted.stdout, "who did not report it as missing asked for nothing to be kept"
    assert "1 more without their question's text" in drafted.stderr


def test_a_question_whose_text_was_not_kept_is_counted_and_not_drafted() -> None:
    feedback = [{"receipt_id": "r", "verdict": "missing", "comment": None}]
    asked = [{"receipt_id": "r", "question": None, "status": "not_found"}]
    assert complaints(feedback, asked, {}) == ([], 1)
    assert yaml.safe_load(complaints_to_yaml("acme", [])) == {"tenant": "acme", "questions": []}


def test_no_reader_can_write_into_the_draft_what_is_not_a_comment() -> None:
    feedback = [{"receipt_id": "r", "verdict": "missing", "comment": "x\n  - id: evil\u2028y\x85z"}]
    asked = [{"receipt_id": "r", "question": 'a"\nb', "status": "not_found"}]
    drafted, _ = complaints(feedback, asked, {})
    (entry,) = yaml.safe_load(complaints_to_yaml("acme", drafted))["questions"]
    assert (entry["question"], entry["page"]) == ('a"\nb', "")
