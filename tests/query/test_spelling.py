from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.query.spelling import Speller
from rag_serving.text.analyzer import analyze

WORDS = """
retention retention retention consumer consumer lag broker brokers configuration configured partition replicated
rollback restart certificate harbour stern stern stars
"""


def corrected(word: str, words: Iterable[str] = WORDS.split(), hidden: Iterable[str] = ()) -> str | None:
    """The correction where some words are read, and the others only stand in the vocabulary."""
    read = list(words)
    terms = [term for one in read for term in analyze(one)]

    def written(stem: str) -> list[str]:
        return [one for one in read if stem in analyze(one)]

    speller = Speller({*terms, *(term for one in hidden for term in analyze(one))})
    return speller.correction(word, terms.count, written)


@pytest.mark.parametrize(
    ("word", "correction"),
    [
        ("retension", "retention"),  # another stem
        ("configuraton", "configuration"),  # the ending by which it is stemmed is broken
        ("cosnumer", "consumer"),  # transposed
        ("confguraton", "configuration"),  # two edits in a long word
        ("parttions", "partition"),  # one edit, and another inflection
        ("wich", "which"),
        ("ctern", "stern"),  # the first letter
        ("stert", "stern"),  # the more frequent
        ("lga", None),  # three letters
        ("brkr", None),  # two edits in a short word
        ("football", None),
        ("größe", None),
        ("x" * 31, None),
        ("", None),
    ],
)
def test_a_misspelt_word_is_read_as_the_nearest_word_of_the_pages(word: str, correction: str | None) -> None:
    assert corrected(word) == correction


def test_nothing_is_corrected_towards_what_may_not_be_read() -> None:
    assert corrected("sallary", [*WORDS.split(), "salary"]) == "salary"
    assert corrected("sallary", hidden=["salary"]) is None
    assert corrected("compensaton", hidden=["compensation"]) is None


@given(st.text(max_size=40))
def test_any_word_is_corrected_to_a_readable_word_or_not_at_all(word: str) -> None:
    found = corrected(word)
    assert found is None or found in WORDS.split() or not analyze(found)
