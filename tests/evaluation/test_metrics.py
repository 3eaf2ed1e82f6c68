"""Metrics against worked examples and independent implementations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.evaluation.metrics import average_precision, mrr_at_k, ndcg_at_k, recall_at_k

DOCUMENTS = [f"d{n}" for n in range(12)]
rankings = st.permutations(DOCUMENTS).flatmap(lambda order: st.integers(0, 12).map(lambda n: order[:n]))
judgements = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 3), min_size=1).filter(
    lambda judged: max(judged.values()) > 0
)
cutoffs = st.integers(1, 15)


def test_a_worked_example() -> None:
    ranking, judged = ["a", "x", "b", "c"], {"a": 3, "b": 2, "c": 0, "d": 1}
    assert recall_at_k(ranking, judged, 2) == pytest.approx(1 / 3)
    assert recall_at_k(ranking, judged, 10) == pytest.approx(2 / 3)
    assert mrr_at_k(["x", "b"], judged, 10) == 0.5
    assert mrr_at_k(["x", "b"], judged, 1) == 0
    # DCG = 3/1 + 2/2 = 4; ideal = 3/1 + 2/1.5850 + 1/2 = 4.7619
    assert ndcg_at_k(ranking, judged, 10) == pytest.approx(0.8400, abs=1e-4)


@given(rankings, judgements, cutoffs)
def test_recall_agrees_with_counting_one_by_one(ranking: list[str], judged: dict[str, int], k: int) -> None:
    hits = total = 0
    for document, grade in judged.items():
        if grade > 0:
            total += 1
            hits += document in ranking and ranking.index(document) < k
    assert recall_at_k(ranking, judged, k) == pytest.approx(hits / total)


@given(rankings, judgements, cutoffs)
def test_ndcg_agrees_with_vectors_of_gains(ranking: list[str], judged: dict[str, int], k: int) -> None:
    discounts = 1 / np.log2(np.arange(2, k + 2))
    gains = np.zeros(k)
    for place, document in enumerate(ranking[:k]):
        gains[place] = max(judged.get(document, 0), 0)
    best = np.zeros(k)
    ordered = np.sort(np.clip(list(judged.values()), 0, None))[::-1][:k]
    best[: len(ordered)] = ordered
    assert ndcg_at_k(ranking, judged, k) == pytest.approx((gains @ discounts) / (best @ discounts))


@given(rankings, judgements, cutoffs)
def test_mrr_agrees_with_the_smallest_rank(ranking: list[str], judged: dict[str, int], k: int) -> None:
    ranks = [ranking.index(document) + 1 for document, grade in judged.items() if grade > 0 and document in ranking]
    best = min(ranks, default=k + 1)
    assert mrr_at_k(ranking, judged, k) == pytest.approx(1 / best if best <= k else 0)


@given(judgements)
def test_the_ideal_ranking_is_worth_one(judged: dict[str, int]) -> None:
    ideal = sorted(judged, key=lambda document: -judged[document])
    assert ndcg_at_k(ideal, judged, 10) == pytest.approx(1)
    assert recall_at_k(ideal, judged, 12) == 1
    assert mrr_at_k(ideal, judged, 1) == 1


def test_average_precision_of_a_worked_example() -> None:
    # found at ranks 1 and 3, one of three relevant never: (1/1 + 2/3 + 0) / 3
    assert average_precision(["a", "x", "b"], {"a": 1, "b": 2, "c": 1, "x": 0}) == pytest.approx(5 / 9)


@given(rankings.filter(bool), judgements)
def test_every_metric_equals_trec_eval(ranking: list[str], judged: dict[str, int]) -> None:
    import pytrec_eval

    measures = {"recall.5", "ndcg_cut.10", "recip_rank", "map"}
    run = {document: float(len(ranking) - place) for place, document in enumerate(ranking)}
    # trec_eval knows no grade below zero in `map`; both count it as not relevant
    grades = {document: max(grade, 0) for document, grade in judged.items()}
    theirs = pytrec_eval.RelevanceEvaluator({"q": grades}, measures).evaluate({"q": run})["q"]
    assert recall_at_k(ranking, judged, 5) == pytest.approx(theirs["recall_5"], abs=1e-9)
    assert ndcg_at_k(ranking, judged, 10) == pytest.approx(theirs["ndcg_cut_10"], abs=1e-9)
    assert mrr_at_k(ranking, judged, len(ranking)) == pytest.approx(theirs["recip_rank"], abs=1e-9)
    assert average_precision(ranking, judged) == pytest.approx(theirs["map"], abs=1e-9)
