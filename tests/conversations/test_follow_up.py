"""Questions that lean on the one before are completed; whole ones are left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.conversations.reading import asked_of, carried, joined

ROLLBACK = "How do I roll back a release?"
LEAVE = "How many days of leave do I get?"
DOG = "May I bring my dog?"


def completed(question: str, earlier: list[str]) -> str | None:
    """Return the question completed from those before it, oldest first."""
    asked = ""
    for text in earlier:
        asked = carried(text.strip(), asked)
    return joined(question, asked)


@pytest.mark.parametrize(
    ("question", "earlier", "understood"),
    [
        ("and how long does it take?", [ROLLBACK], "how long does it take: roll back a release?"),
        ("what about contractors?", [LEAVE], "How many days of leave do I get: contractors?"),
        ("and for contractors?", [LEAVE], "How many days of leave do I get: for contractors?"),
        ("in Trondheim?", [DOG], "May I bring my dog: in Trondheim?"),
        ("why?", [DOG], "why: bring my dog?"),
        ("Who approves it?", ["Can I get a second monitor?"], "Who approves it: second monitor?"),
        ("show me the steps", [ROLLBACK], "steps: roll back a release?"),
        ("tell me more", [ROLLBACK], "How do I roll back a release?"),
        ("how does it work?", [ROLLBACK], "how does it work: roll back a release?"),
        ("What is the deadline?", [LEAVE], "What is the deadline: days of leave?"),
        (
            "can they be carried over to the next year?",
            [LEAVE],
            "can they be carried over to the next year: days of leave?",
        ),
        (
            "how much without asking anybody?",
            ["Who signs a receipt?"],
            "how much without asking anybody: signs a receipt?",
        ),
        (
            "Does the new staging cluster need it?",
            [ROLLBACK],
            "Does the new staging cluster need it: roll back a release?",
        ),
        ("und in Busan?", ["Darf ich meinen Hund mitbringen?"], "Darf ich meinen Hund mitbringen: in Busan?"),
    ],
)
def test_what_is_missing_is_taken_from_the_question_before(question: str, earlier: list[str], understood: str) -> None:
    assert completed(question, earlier) == understood


def test_another_case_of_a_case_is_asked_of_the_same_question() -> None:
    assert completed("and in Busan?", [DOG, "and in Trondheim?"]) == "May I bring my dog: in Busan?"
    assert completed("why?", [DOG, "thanks", "and in Trondheim?"]) == "why: bring my dog?"


@pytest.mark.parametrize(
    "question",
    [
        "How long can a release be rolled back?",
        "Is it ok to eat lunch with a client and charge it?",
        "rollback",
        "thanks",
        "Who is on call?",
        "Is there a shuttle from the station to the harbour?",
        "Are there rooms for guests this week?",
        "What is it called when a ship is unloaded and nobody pays for it?",
        "And what happens to the database schema?",
        "",
    ],
)
def test_a_question_that_stands_alone_is_left_alone(question: str) -> None:
    assert completed(question, [LEAVE]) is None
    assert completed(question, []) is None


@pytest.mark.parametrize(
    ("question", "subject", "understood"),
    [
        ("and how long does it take?", "Rolling Back", "how long does it take: Rolling Back?"),
        ("show me the steps", "Rolling Back", "steps: Rolling Back?"),
        ("tell me more", "Rolling Back", None),
    ],
)
def test_what_leans_is_asked_of_a_page(question: str, subject: str, understood: str | None) -> None:
    assert asked_of(question, subject) == understood


@given(st.text(max_size=200), st.lists(st.text(max_size=400), max_size=8))
def test_any_text_is_completed_within_bounds_or_left_alone(question: str, earlier: list[str]) -> None:
    understood = completed(question, earlier)
    if understood is not None:
        assert len(understood) <= len(question) + 310
        assert understood.endswith("?")
