"""Every pattern of both packages and the plug-ins takes time in proportion to its text, whatever the text is.

Foreign text (pages, questions, selections, what models and servers write) meets these patterns while the interpreter's
lock is held: one that is quadratic stops everybody else's question. `CITELOCK_GROWTH=1` looks at longer texts.
"""

from __future__ import annotations

import os
import re

import pytest
from support import pattern_walk
from support.growth import SMALL, steepness

_SMALL = SMALL if os.environ.get("CITELOCK_GROWTH") == "1" else 400

# Patterns that are made of a local variable. Those of the first three are results of the walk all the same.
_MADE_AT_RUN_TIME = {
    "citelock_sites.sphinx": "a glob of at most four wildcards on names of files",
    "citelock_sites.sphinx_index": "the same",
    "rag_serving.text.question_types": "of a table of this module; its values are walked",
    "rag_serving.text.analyzer": "the same",
    "rag_serving.caching.answers": "the same",
    "rag_serving.text.orders": "in cached functions, whose results are walked",
    "rag_serving.text.small_talk": "the same",
    "rag_serving.sets.phrases": "the same",
    "evals.evaluation.gold_drafts": "a word of letters in a sentence of gold questions, which people wrote",
    "rag_serving.query.parsing": "escaped words of the configuration, and a quotation; its own test has it grow",
    "rag_serving.answering.clarifying": "an escaped word of a question between two characters",
    "rag_serving.retrieval.keyword.question": "escaped words of a question or of the configuration at word borders",
    "citelock_governance.privacy.national_ids": "in a cached function, whose results are walked",
    "rag_serving.sets.pages": "the escaped words of a query between two characters",
    "rag_serving.indexes.view": "a stem of letters, then letters",
    "rag_serving.sets.cells": "of a table of this module; its values are walked",
    "evals.bench.people": "the escaped words of a gold fact between two characters",
}


def _steepest(found: pattern_walk.Found) -> str | None:
    """Return how a pattern grows faster than its text, or None."""
    for name, call in pattern_walk.calls(found):
        for beginning, pump, ending in pattern_walk.hostile(found.pattern):

            def make(size: int, parts: tuple[str, str, str] = (beginning, pump, ending)) -> str:
                return parts[0] + (parts[1] * (size // len(parts[1]) + 1))[:size] + parts[2]

            def run(text: str, call: object = call, raw: bool = isinstance(found.pattern.pattern, bytes)) -> None:
                call(text.encode() if raw else text)  # type: ignore[operator]

            if growth := steepness(run, make, small=_SMALL):
                return f"{found.where}: {name} of {beginning!r} + {pump!r} * n: {growth:.1f} times as much a character"
    return None


def test_no_pattern_grows_faster_than_its_text() -> None:
    found, unknown = pattern_walk.patterns()
    assert len(found) > 200
    assert {place.partition(":")[0] for place in unknown} <= _MADE_AT_RUN_TIME.keys()
    assert [fault for each in found if (fault := _steepest(each))] == []


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+b",
        r"\s+$",
        *(pytest.param(pattern, marks=pytest.mark.nightly) for pattern in (r"<.*?>x", r"\w*\d\w*!", r"[ \t]*:")),
    ],
)
def test_a_pattern_that_backtracks_is_seen(pattern: str) -> None:
    assert _steepest(pattern_walk.Found("here", re.compile(pattern), {"search"}))


def test_code_that_is_quadratic_is_told_from_code_that_is_not() -> None:
    def linear(text: str) -> int:
        return sum(ord(character) for character in text for _ in range(4))

    def quadratic(text: str) -> int:
        return sum(hash(text[place:]) for place in range(0, len(text), 2))

    assert steepness(linear, "a".__mul__) is None
    assert (steepness(quadratic, "a".__mul__, small=4 * SMALL, cheap=0) or 0) > 3
