"""A question that only names something is told from one that asks for something about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.query.topics import names_nothing, topic_of


@pytest.mark.parametrize(
    ("question", "text", "frame"),
    [
        ("rollback", "rollback", "bare"),
        ("Rollback?", "Rollback", "bare"),
        ("quick links", "quick links", "bare"),
        ("the berth plan", "berth plan", "bare"),
        ("what is home", "home", "defined"),
        ("What's a rehandle?", "rehandle", "defined"),
        ("what does TEU mean?", "TEU", "defined"),
        ("explain home", "home", "told"),
        ("Tell me more about the panels.", "panels", "told"),
        ("can you explain quick links please", "quick links please", "told"),
    ],
)
def test_what_is_named_is_read_out_of_its_frame(question: str, text: str, frame: str) -> None:
    found = topic_of(question)
    assert found
    assert (found.text, found.frame) == (text, frame)


@pytest.mark.parametrize(
    "question",
    [
        "how do I roll back a plan?",
        "where are my shortcuts?",
        "is home the first screen",
        "a rollback is cancelled after ten minutes",
        "days of leave that are left from last year",
        "explain it",
        "the thing",
        "what is this?",
        "",
        "?!",
        "home " * 100,
    ],
)
def test_what_asks_for_something_or_names_nothing_has_no_topic(question: str) -> None:
    assert topic_of(question) is None


@pytest.mark.parametrize(("question", "is_so"), [("the thing", True), ("it", True), ("home", False), ("", False)])
def test_words_that_name_nothing_are_known(question: str, is_so: bool) -> None:
    assert names_nothing(question) is is_so


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    found = topic_of(text)
    assert found is None or (found.terms and found.text in " ".join(text.split()))
