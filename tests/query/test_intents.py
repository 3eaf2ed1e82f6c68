"""A question that asks two things is told from one that only has two parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.query.topics import intents_of


@pytest.mark.parametrize(
    ("question", "two"),
    [
        ("leave and expenses", ("leave", "expenses")),
        ("workspace & widgets", ("workspace", "widgets")),
        ("open notes + quick links", ("open notes", "quick links")),
        ("Explain notes and quick links.", ("Explain notes", "Explain quick links")),
        ("how do I add a link and archive a workspace?", ("how do I add a link", "how do I archive a workspace")),
        ("What is the difference between a guest and a member?", ("what is guest", "what is member")),
        ("notes vs. quick links", ("what is notes", "what is quick links")),
        (
            "what is a rollback and how do I hand in a receipt?",
            ("what is a rollback", "how do I hand in a receipt"),
        ),
    ],
)
def test_two_things_are_two_questions(question: str, two: tuple[str, str]) -> None:
    assert intents_of(question) == two


@pytest.mark.parametrize(
    "question",
    [
        "How long can a release be rolled back?",
        "What is a widget and how do I remove it?",  # the second part leans on the first
        "leave, expenses and rollback",
        "notes and notes",
        "May I restart a broker while partitions are under-replicated and no controller is elected?",
        "what happens if the plan is red and the vessel is alongside",
        "and",
        "",
        "a and " * 100,
    ],
)
def test_one_thing_stays_one_question(question: str) -> None:
    assert intents_of(question) is None


@given(st.text(alphabet="ab and+vs&,?.\n", max_size=320))
def test_any_text_can_be_read(text: str) -> None:
    found = intents_of(text)
    assert found is None or all(part.strip() for part in found)
