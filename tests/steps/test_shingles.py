"""Shingles, their Jaccard similarity, and what two texts must share to the letter."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.steps.dedup import jaccard, literals_of, shingles_of, words_of

WORDS = st.lists(st.sampled_from(["the", "old", "primary", "is", "fenced", "first", "größe"]), max_size=12)


def plain_shingles(words: list[str]) -> set[tuple[str, ...]]:
    """The definition, as sets of tuples."""
    return set(zip(words, words[1:], words[2:], strict=False)) if len(words) > 2 else {tuple(words)} - {()}


@given(st.lists(WORDS, min_size=2, max_size=5))
def test_similarity_is_that_of_sets_of_word_triples(texts: list[list[str]]) -> None:
    for words, own in zip(texts, shingles_of(texts).sets(), strict=True):
        for others, theirs in zip(texts, shingles_of(texts).sets(), strict=True):
            one, two = plain_shingles(words), plain_shingles(others)
            assert jaccard(own, theirs) == (len(one & two) / len(one | two) if one | two else 0.0)


def test_case_typography_and_marks_are_folded_away() -> None:
    assert words_of("**Fence** the “Old” ﬁle!") == words_of("fence the old file") == ["fence", "the", "old", "file"]


def test_white_space_and_punctuation_are_no_literals() -> None:
    assert literals_of("Wait 5 minutes, then (7).") == literals_of("wait  5 minutes then 7")


def test_white_space_at_the_ends_of_lines_of_code_and_its_language_are_no_literals() -> None:
    assert literals_of("Run:\n\n```java\na = b  \n```") == literals_of("run\n\n```\na = b\n```")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("| retries | 5 |", "| retries | 6 |"),
        ("| a | 1 |\n| b | 2 |", "| a | 2 |\n| b | 1 |"),
        ("acks=-1", "acks=1"),
        ("Set it to 1.5 s", "Set it to 15 s"),
        ("x < y", "x > y"),
        ("You must restart it.", "You must not restart it."),
        ("You can restart it.", "You can’t restart it."),
        ("enabled by default", "disabled by default"),
        ("flag: true", "flag: false"),
        ("Run it before the backup.", "Run it after the backup."),
        ("version v2.8", "version v3.8"),
        ("set log.dirs here", "set LOG.DIRS here"),
        ("set MAX_HEAP here", "set max_heap here"),
        ("call the acksAll method", "call the acksall method"),
        ("```\nkey: Value\n```", "```\nkey: value\n```"),
        ("```\nf(a, b)\n```", "```\nf(a b)\n```"),
        ("```\nif x:\n  y\n```", "```\nif x:\ny\n```"),
        ("end()\n```\n\nWords.", "end();\n```\n\nWords."),
    ],
)
def test_a_changed_number_sign_or_turning_word_changes_the_literals(one: str, other: str) -> None:
    assert literals_of(one) != literals_of(other)


@pytest.mark.parametrize("text", ["a-" * 100_000, "a" * 200_000, "`" * 200_000, "```\n" * 50_000, "a.B_" * 50_000])
def test_literals_of_a_long_text_are_found_in_time(text: str) -> None:
    started = time.process_time()
    literals_of(text)
    assert time.process_time() - started < 2
