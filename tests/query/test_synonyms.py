"""Words of a question that the pages call otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.query.parsing import with_synonyms

SYNONYMS = {"shortcuts": "quick links", "start screen": "home", "screen": "display", " ": "nothing", "C++": "cpp"}


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("Where are my Shortcuts?", "Where are my quick links?"),
        ("the start  screen", "the start  display"),
        ("the Start Screen, please", "the home, please"),
        ("my shortcutsbar", "my shortcutsbar"),
        ('find "shortcuts" among shortcuts', 'find "shortcuts" among quick links'),
        ("a C++ build", "a cpp build"),
        ("", ""),
    ],
)
def test_what_is_read(typed: str, read: str) -> None:
    assert with_synonyms(typed, SYNONYMS)[0] == read


def test_what_was_replaced_is_told() -> None:
    assert with_synonyms("Shortcuts on the start screen", SYNONYMS)[1] == {
        "Shortcuts": "quick links",
        "start screen": "home",
    }


@given(st.text(max_size=200))
def test_a_text_without_synonyms_stays(text: str) -> None:
    assert with_synonyms(text, {}) == (text, {})
    kept, replaced = with_synonyms(text, {"zzqx": "y"})
    assert replaced or kept == text


def test_long_texts_take_time_in_proportion() -> None:
    from support.growth import steepness

    for part in ('"', "start ", "shortcuts", 'a" "'):
        assert steepness(lambda text: with_synonyms(text, SYNONYMS), lambda size, part=part: part * size) is None
