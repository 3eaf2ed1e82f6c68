from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rag_serving.retrieval.hybrid import Method, reciprocal_rank_fusion, weighted_sum
from rag_serving.retrieval.ranking import min_max, standard

RANKINGS = st.lists(st.lists(st.integers(0, 30), unique=True, max_size=20), min_size=1, max_size=4)


def fused(rankings: Sequence[Sequence[int]], k: int = 60) -> dict[int, float]:
    """Scores by item of some rankings."""
    items = sorted({item for ranking in rankings for item in ranking})
    ranks = [[ranking.index(item) + 1.0 if item in ranking else math.nan for item in items] for ranking in rankings]
    return dict(zip(items, reciprocal_rank_fusion(map(np.array, ranks), k).tolist(), strict=True))


def test_scores_follow_the_paper() -> None:
    assert fused([[1, 2], [2, 3]]) == pytest.approx({2: 1 / 62 + 1 / 61, 1: 1 / 61, 3: 1 / 62})


@given(RANKINGS)
def test_the_order_of_rankings_does_not_change_scores(rankings: list[list[int]]) -> None:
    assert fused(rankings) == pytest.approx(fused(rankings[::-1]))


@given(st.lists(st.integers(), unique=True, max_size=20))
def test_one_ranking_keeps_its_order(ranking: list[int]) -> None:
    scores = fused([ranking])
    assert sorted(scores, key=lambda item: -scores[item]) == ranking


@given(RANKINGS, st.integers(1, 200))
def test_an_item_that_is_nowhere_worse_is_not_ranked_lower(rankings: list[list[int]], k: int) -> None:
    scores = fused(rankings, k)
    worst = 10**6
    ranks = {item: [ranking.index(item) if item in ranking else worst for ranking in rankings] for item in scores}
    for one in scores:
        for two in scores:
            if all(a <= b for a, b in zip(ranks[one], ranks[two], strict=True)):
                assert scores[one] >= scores[two] - 1e-12


SCORES = st.lists(st.floats(-100, 100), min_size=1, max_size=20).map(np.array)


@given(SCORES, st.sampled_from(["zscore", "minmax"]))
def test_one_index_keeps_its_order(scores: NDArray[np.float64], method: Method) -> None:
    fused = weighted_sum({"dense": scores}, {"dense": 0.3, "bm25": 0.7}, method)
    for better, worse in pairwise(np.argsort(-scores)):
        assert fused[better] >= fused[worse]


def test_what_one_index_finds_far_better_outweighs_many_places_in_the_other() -> None:
    """Ranks cannot tell; scores can."""
    dense, bm25 = np.array([0.52, 0.51, 0.50]), np.array([1.0, 0.9, 9.0])
    assert int(np.argmax(weighted_sum({"dense": dense, "bm25": bm25}, {"dense": 0.4, "bm25": 0.6}))) == 2


def test_scores_without_any_difference_say_nothing() -> None:
    for normalize in (standard, min_max):
        assert normalize(np.array([0.3, 0.3])).tolist() == [0, 0]
        assert normalize(np.zeros(0)).tolist() == []


def test_normalized_scores_have_one_scale() -> None:
    values = standard(np.array([1.0, 2.0, 6.0]))
    assert (values.mean(), values.std()) == (pytest.approx(0), pytest.approx(1))
    assert min_max(np.array([1.0, 2.0, 6.0])).tolist() == [0, 0.2, 1]
