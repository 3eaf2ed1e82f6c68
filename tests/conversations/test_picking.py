"""Options are picked by number, place or label; anything else is a question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.conversations.reading import is_pick, may_pick, picked
from rag_serving.records.decisions import ClarificationOption

OPTIONS = (
    ClarificationOption("Leave and Public Holidays", "page", query="Leave and Public Holidays"),
    ClarificationOption("Expenses", "page", query="What are expenses?"),
    ClarificationOption("Expense limits abroad", "page", url="https://wiki.example/9"),
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("yes", 0), ("Yes, please", 0), ("the first one", 0), ("1", 0), ("#1", 0), ("the former", 0), ("ja", 0),
        ("2", 1), ("the second one", 1), ("option two", 1), ("2nd", 1), ("no, the other one", 1), ("das zweite", 1),
        ("the last one", 2), ("3.", 2), ("the latter", 2),
        ("expenses", 1), ("I mean Expenses", 1), ("what are expenses?", 1), ("holidays", 0), ("the abroad one", None),
        ("limits", 2),
    ],
)  # fmt: skip
def test_an_option_is_picked(text: str, number: int | None) -> None:
    assert picked(text, OPTIONS) == (None if number is None else OPTIONS[number])


@pytest.mark.parametrize("text", ["no", "4", "0", "99", "the fourth one", "expense", "How long is it?", "", "  "])
def test_what_names_no_option_or_several_picks_none(text: str) -> None:
    assert picked(text, OPTIONS) is None


def test_only_forms_are_picks_by_themselves() -> None:
    assert is_pick("the second one")
    assert not is_pick("expenses")
    assert not is_pick("yes, but how long is it?")


def test_a_label_may_pick_where_the_answer_before_held_it() -> None:
    assert may_pick("Expenses", "Do you mean Expenses or Leave?")
    assert may_pick("expenses", "")
    assert not may_pick("expenses", "Run the command.")
    assert not may_pick("word " * 30, "")


@given(st.text(max_size=300), st.integers(0, 3))
def test_any_text_picks_one_option_or_none(text: str, count: int) -> None:
    assert picked(text, OPTIONS[:count]) in (None, *OPTIONS[:count])
