from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.fuse import reciprocal_rank_fusion

RANKINGS = st.lists(st.lists(st.integers(0, 30), unique=True, max_size=20), max_size=4)


def test_scores_follow_the_paper() -> None:
    assert reciprocal_rank_fusion([["a", "b"], ["b", "c"]], k=60) == [
        ("b", pytest.approx(1 / 62 + 1 / 61)),
        ("a", pytest.approx(1 / 61)),
        ("c", pytest.approx(1 / 62)),
    ]


@given(RANKINGS)
def test_each_item_appears_once_and_none_is_lost(rankings: list[list[int]]) -> None:
    fused = [item for item, _ in reciprocal_rank_fusion(rankings)]
    assert len(fused) == len(set(fused))
    assert set(fused) == {item for ranking in rankings for item in ranking}


@given(RANKINGS)
def test_the_order_of_rankings_does_not_change_scores(rankings: list[list[int]]) -> None:
    forward, backward = dict(reciprocal_rank_fusion(rankings)), dict(reciprocal_rank_fusion(rankings[::-1]))
    assert forward == pytest.approx(backward)


@given(st.lists(st.integers(), unique=True, max_size=20))
def test_one_ranking_keeps_its_order(ranking: list[int]) -> None:
    assert [item for item, _ in reciprocal_rank_fusion([ranking])] == ranking


@given(RANKINGS, st.integers(1, 200))
def test_an_item_that_is_nowhere_worse_is_not_ranked_lower(rankings: list[list[int]], k: int) -> None:
    scores = dict(reciprocal_rank_fusion(rankings, k))
    worst = 10**6
    ranks = {item: [ranking.index(item) if item in ranking else worst for ranking in rankings] for item in scores}
    for one in scores:
        for two in scores:
            if all(a <= b for a, b in zip(ranks[one], ranks[two], strict=True)):
                assert scores[one] >= scores[two] - 1e-12
