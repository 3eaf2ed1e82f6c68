"""What people type into an app's help box, asked of the sample's documentation: answered, asked back, or no page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click import unstyle
from fastapi.testclient import TestClient
from support.api_client import ADDRESS, LOCAL
from support.clarified import clarified

from rag_serving.access.principals import Principal
from rag_serving.api.app import create_app
from rag_serving.ask import Pipeline
from rag_serving.cli.printing import answer_lines
from rag_serving.config.loading import load_config
from rag_serving.records.answers import Answer
from rag_serving.retrieval.hybrid import Mode

ANYBODY = Principal("port")


KEYWORDS: tuple[Mode, ...] = ("keyword_documents", "keyword_chunks")


@pytest.fixture(scope="module", params=KEYWORDS)
def by_keywords(request: pytest.FixtureRequest, published_documents: Path) -> Iterator[Pipeline]:
    opened = Pipeline.open(load_config(published_documents / "app.yaml"), "port")
    opened.mode = request.param
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def pipeline(published_documents: Path) -> Iterator[Pipeline]:
    opened = Pipeline.open(load_config(published_documents / "app.yaml"), "port")
    yield opened
    opened.close()


def titles(answer: Answer) -> list[str]:
    return [citation.heading_path[0] for citation in answer.citations]


@pytest.mark.parametrize(
    ("question", "title", "said"),
    [
        ("explain workspace", "Workspace", "A workspace holds what a team works on together"),
        ("what is home", "Home", "Home is the screen that you land on after signing in."),
        ("wrkspace", "Workspace", "A workspace holds what a team works on together"),
        ("rollback", "Rollback", "A rollback makes an earlier version of a plan the current one."),
        ("explain notes", "Notes", "Notes is the widget for short texts"),
        ("what is quick links", "Quick Links", "Quick Links is the widget for addresses"),
        ("limits", "Expenses", "Up to 50 euros need no approval."),
        ("return home", "Return Home", "Return Home leaves the workspace"),
    ],
)
def test_what_is_named_is_introduced(pipeline: Pipeline, question: str, title: str, said: str) -> None:
    answer = pipeline.ask(ANYBODY, question)
    assert (answer.outcome, set(titles(answer))) == ("told", {title})
    assert answer.answer.startswith(said)


NOTHING = [
    "explain calendar",
    "explain bananas",
    "bananas",
    "can you explain football?",
    "explain football league",
    "can you explain the company calendar?",
    "how do I do it",
    "the thing",
]


@pytest.mark.parametrize("question", NOTHING)
def test_what_no_page_is_about_is_asked_back(pipeline: Pipeline, question: str) -> None:
    answer = pipeline.ask(ANYBODY, question)
    assert (answer.status, answer.answer, answer.citations) == ("clarify", "Which part should I explain?", ())


def test_a_name_of_several_pages_is_asked_back_for(pipeline: Pipeline) -> None:
    answer = pipeline.ask(ANYBODY, "home", explain=True)
    assert answer.status == "clarify"
    assert any(unstyle(line).startswith("decided: ambiguous: 2 pages are called so") for line in answer_lines(answer))
    assert answer.answer.startswith("Do you mean Home (")
    assert ") or Return Home (" in answer.answer
    assert answer.clarification
    assert [(each.label, each.kind, each.query) for each in answer.clarification.options] == [
        ("Home", "meaning", "What is Home?"),
        ("Return Home", "meaning", "What is Return Home?"),
    ]
    assert answer.why
    assert answer.why["decision"]["action"] == "ambiguous"
    for option in answer.clarification.options:
        meant = pipeline.ask(ANYBODY, option.query or "")
        assert (meant.outcome, set(titles(meant))) == ("told", {option.label})


def test_a_word_that_only_stands_in_a_text_is_asked_back_for(pipeline: Pipeline) -> None:
    answer = pipeline.ask(ANYBODY, "tell me about panels")
    assert (answer.status, answer.answer) == ("clarify", "I think you mean Widgets. Is that right?")
    assert "https://docs.harbourline.example/desk/concepts/widgets" in clarified(answer)


@pytest.mark.parametrize(
    ("question", "both"),
    [
        ("workspace and widgets", ["Workspace", "Widgets"]),
        ("leave and expenses", ["Leave", "Expenses"]),
        ("open notes + quick links", ["Notes", "Quick Links"]),
        ("what is a rollback and how do I hand in a receipt?", ["Rollback", "Expenses"]),
    ],
)
def test_two_things_are_both_told(pipeline: Pipeline, question: str, both: list[str]) -> None:
    answer = pipeline.ask(ANYBODY, question)
    assert (answer.outcome, titles(answer)) == ("told", both)
    assert [citation.verification for citation in answer.citations] == ["exact", "exact"]
    assert clarified(answer).startswith("Which one should I go deeper on?")
    assert answer.receipt_id
    assert not pipeline.proof(answer.receipt_id).faults


def test_one_page_that_tells_both_answers_alone(pipeline: Pipeline) -> None:
    answer = pipeline.ask(ANYBODY, "whats the difference between a guest and a member")
    assert titles(answer)[0] == "Workspace"
    assert "go deeper" not in clarified(answer)


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("explain workspace", "Workspace"),
        ("what is home", "Home"),
        ("wrkspace", "Workspace"),
        ("explain notes", "Notes"),
        ("what is quick links", "Quick Links"),
    ],
)
def test_keywords_alone_introduce_what_is_named(by_keywords: Pipeline, question: str, title: str) -> None:
    answer = by_keywords.ask(ANYBODY, question)
    assert (answer.outcome, set(titles(answer))) == ("told", {title})
    assert answer.citations[0].heading_path == (title,)


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("explain calendar", "Which part should I explain?"),
        ("how do I do it", "Which part should I explain?"),
        ("the thing", "Which part should I explain?"),
        ("home", "Do you mean Return Home (actions) or Home (concepts)?"),
        ("tell me about panels", "I think you mean Widgets. Is that right?"),
    ],
)
def test_keywords_alone_ask_back(by_keywords: Pipeline, question: str, told: str) -> None:
    answer = by_keywords.ask(ANYBODY, question)
    assert (answer.status, answer.answer, answer.citations) == ("clarify", told, ())


@pytest.mark.parametrize(
    ("question", "both"),
    [("workspace and widgets", ["Workspace", "Widgets"]), ("open notes + quick links", ["Notes", "Quick Links"])],
)
def test_keywords_alone_tell_both_of_two_things(by_keywords: Pipeline, question: str, both: list[str]) -> None:
    answer = by_keywords.ask(ANYBODY, question)
    assert (answer.outcome, titles(answer)) == ("told", both)
    assert clarified(answer).startswith("Which one should I go deeper on?")


@pytest.mark.parametrize("phase", [1, 2, 3])
def test_a_question_is_narrowed_to_a_category(published_documents: Path, phase: int) -> None:
    config = load_config(published_documents / "app.yaml")
    config = config.model_copy(update={"retrieval": config.retrieval.model_copy(update={"phase": phase})})
    with TestClient(create_app(config), ADDRESS, client=LOCAL) as client:
        counts = {one["name"]: one["count"] for one in client.get("/v1/filters").json()["categories"]}
        assert {"actions", "concepts", "widgets"} <= counts.keys()
        for category, title in (("concepts", "Home"), ("actions", "Return Home")):
            asked = {"question": "What is home?", "filters": {"category": category}, "explain": True}
            answer = client.post("/v1/ask", json=asked).json()
            assert {one["category"] for one in answer["evidence"]} == {category}
            found = client.post("/v1/search", json={"query": "home", "filters": {"category": [category]}}).json()
            assert title in {one["title"] for one in found["results"]}
        nothing = client.post("/v1/search", json={"query": "home", "filters": {"category": "none"}}).json()
        assert nothing["results"] == []
