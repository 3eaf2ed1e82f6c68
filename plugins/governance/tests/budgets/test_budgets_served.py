"""Who asks beyond a budget is told so, by every door, and when to come back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.api_client import LOCAL, QUESTION, client_of, completion_chunks, events_in
from support.stand_in_chat import MODEL, StandInChat, served
from support.wiki import RESTART, configuration, embedder

from rag_serving.access.principals import Principal
from rag_serving.api.app import create_app
from rag_serving.ask import Pipeline
from rag_serving.cli.main import app
from rag_serving.hooks import BudgetError, open_budgets

MESSAGES = [{"role": "user", "content": QUESTION["question"]}]


@pytest.fixture
def spent(wiki_home: Path) -> Iterator[TestClient]:
    with client_of(wiki_home, budgets={"questions_per_minute": 0}) as client:
        yield client


def test_a_question_beyond_the_budget_is_refused_with_the_time_to_come_back(spent: TestClient) -> None:
    response = spent.post("/v1/ask", json=QUESTION)
    body = response.json()
    assert (response.status_code, body["code"]) == (429, "BUDGET_EXCEEDED")
    assert 1 <= int(response.headers["retry-after"]) <= 60
    assert body["message"].startswith("the budget of 0 questions a minute is spent; it begins anew at ")
    assert spent.post("/v1/search", json={"query": "brokers"}).status_code == 200  # no question, and no model


def test_selected_text_and_books_are_questions_too(spent: TestClient) -> None:
    selected = {**QUESTION, "mode": "selected_text", "context": RESTART}
    assert spent.post("/v1/ask", json=selected).status_code == 429


def test_clients_of_openai_get_its_error(spent: TestClient) -> None:
    for path, body in (
        ("/v1/chat/completions", {"model": "citelock", "messages": MESSAGES}),
        ("/v1/responses", {"model": "citelock", "input": QUESTION["question"]}),
    ):
        response = spent.post(path, json=body)
        assert response.status_code == 429, response.text
        error = response.json()["error"]
        assert (error["type"], error["code"]) == ("rate_limit_error", "insufficient_quota")


def test_a_stream_ends_with_the_error(spent: TestClient) -> None:
    text = spent.post("/v1/ask", json={**QUESTION, "stream": True}).text
    name, data = events_in(text)[-1]
    assert (name, data["code"]) == ("error", "BUDGET_EXCEEDED")
    chunks = completion_chunks(
        spent.post("/v1/chat/completions", json={"model": "citelock", "messages": MESSAGES, "stream": True}).text
    )
    assert "insufficient_quota" in json.dumps(chunks)


def test_a_budget_that_is_nearly_spent_is_told_beside_the_answer(wiki_home: Path) -> None:
    with client_of(wiki_home, budgets={"questions_per_minute": {"soft": 1}}) as client:
        answer = client.post("/v1/ask", json=QUESTION).json()
    assert (answer["status"], answer["flags"]) == ("answered", ["budget_nearly_spent"])


def test_uploads_of_a_day_end_and_what_is_not_taken_is_not_counted(tmp_path: Path) -> None:
    config = configuration(
        tmp_path, sources={"uploads": {"kind": "files", "tenant": "acme"}}, budgets={"documents_per_day": 1}
    )
    with TestClient(create_app(config), "http://127.0.0.1:8088", client=LOCAL) as client:

        def put(name: str, content: bytes) -> Any:
            return client.post("/v1/documents", files={"file": (name, content)})

        assert put("a.exe", b"MZ\x00\x01").status_code == 415
        assert put("a.md", b"# A\n\nOne.\n").status_code == 202
        refused = put("b.md", b"# B\n\nTwo.\n")
    assert (refused.status_code, refused.json()["code"]) == (429, "BUDGET_EXCEEDED")
    assert int(refused.headers["retry-after"]) <= 86_400


def test_tokens_of_a_model_are_counted_and_end_before_it_is_asked_again(wiki_home: Path) -> None:
    claim = json.dumps({"claims": [{"text": RESTART.split(". ")[1], "index": 1, "quote": RESTART.split(". ")[1]}]})
    with served(StandInChat(lambda _: [claim])) as server:
        prices = {MODEL: {"input": 1e6, "output": 1e6}}
        generation = {
            "provider": "openai",
            "style": "prose",
            "model": MODEL,
            "base_url": f"{server.url}/v1",
            "prices": prices,
        }
        config = configuration(wiki_home, generation=generation, budgets={"cost_per_day": {"soft": 1, "hard": 2}})
        pipeline = Pipeline.open(config, "acme", embedder())
        pipeline.log.budget = open_budgets(config, ["acme"])["acme"]
        pipeline.log.budget.tenant = "acme-tokens"
        first = pipeline.ask(Principal("acme"), QUESTION["question"])
        asked = len(server.requests)
        assert first.usage
        assert first.usage.cost > 2
        with pytest.raises(BudgetError, match=r"a cost of 2\.00 a day is spent"):
            pipeline.ask(Principal("acme"), QUESTION["question"])
        assert len(server.requests) == asked
        assert pipeline.log.budget.used()["cost"] == pytest.approx(first.usage.cost)
        pipeline.close()


def test_a_terminal_says_it_in_one_line(wiki_home: Path, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    file = tmp_path / "app.yaml"
    file.write_text(f"home: {wiki_home}\ntenants: {{acme: {{}}}}\nbudgets: {{questions_per_minute: 0}}\n")
    result = CliRunner().invoke(app, ["ask", QUESTION["question"], "--config", str(file)])
    assert result.exit_code == 1
    assert "the budget of 0 questions a minute is spent" in result.output
