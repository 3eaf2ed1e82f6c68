"""No question gets the answer of another one; CITELOCK_CACHE_PAIRS is how many pairs are tried."""

from __future__ import annotations

import os

import pytest
from support.wiki import embedder

from evals.bench.semantic_cache import QuestionPair, false_pairs, outcomes, questions, rates, true_pairs

PAIRS = int(os.environ.get("CITELOCK_CACHE_PAIRS") or 300)


@pytest.fixture(scope="module")
def asked() -> list[str]:
    return questions()


def test_no_pair_that_differs_in_what_counts_meets(asked: list[str]) -> None:
    found = outcomes(false_pairs(asked, PAIRS), embedder())
    told = rates(found)
    assert told["pairs"] >= 0.9 * PAIRS
    assert set(told["kinds"]) == {"name", "number", "opposite", "order", "thing"}
    assert [each.pair for each in found if each.is_hit] == []
    assert told["by_vectors_alone"]["0.8"] > 0.5  # without the guard most would meet


def test_other_wordings_meet(asked: list[str]) -> None:
    told = rates(outcomes(true_pairs(asked, PAIRS), embedder()))
    assert told["hit_rate"] > 0.6
    assert told["cosine_of_hits"]["p0"] >= 0.8


def test_a_pair_that_meets_is_counted() -> None:
    pairs = [QuestionPair("thanks", "How long is a token valid?", "how long is a token valid? Thanks!")]
    assert rates(outcomes(pairs, embedder()))["hits"] == 1
