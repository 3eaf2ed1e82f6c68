"""Retrieval metrics, one function each.

Belongs here: formulas over one query's ranking and its judgements.
Does not belong here: running queries, averaging over them (`bench`).

A ranking is document ids, best first, without repetition. Judgements are grades by document id; a grade above zero is
relevant. A query without a relevant document has no value in any of these metrics and must be left out before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2

Judgements = Mapping[str, int]


def recall_at_k(ranking: Sequence[str], judgements: Judgements, k: int) -> float:
    """Share of the relevant documents that are among the first k: |relevant ∩ top k| / |relevant|.

    Manning, Raghavan & Schütze, Introduction to Information Retrieval, section 8.3; `recall_k` of trec_eval.
    """
    relevant = {document for document, grade in judgements.items() if grade > 0}
    return len(relevant.intersection(ranking[:k])) / len(relevant)


def ndcg_at_k(ranking: Sequence[str], judgements: Judgements, k: int) -> float:
    """Discounted cumulative gain over that of the best possible ranking: Σ grade_i / log2(i + 1), i = 1 … k.

    Järvelin & Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 20 (2002), with the linear gain of
    `ndcg_cut_k` of trec_eval, which BEIR reports. Grades below zero gain nothing.
    """
    gains = [max(0, judgements.get(document, 0)) for document in ranking[:k]]
    ideal = sorted((grade for grade in judgements.values() if grade > 0), reverse=True)[:k]
    return _discounted(gains) / _discounted(ideal)


def mrr_at_k(ranking: Sequence[str], judgements: Judgements, k: int) -> float:
    """1 / rank of the first relevant document among the first k, 0 where there is none.

    Voorhees, The TREC-8 question answering track report (1999), cut at k as MS MARCO does.
    """
    for rank, document in enumerate(ranking[:k], start=1):
        if judgements.get(document, 0) > 0:
            return 1 / rank
    return 0.0


def average_precision(ranking: Sequence[str], judgements: Judgements) -> float:
    """Mean over the relevant documents of the precision at their ranks, 0 for those not found; its mean is MAP.

    Manning, Raghavan & Schütze, Introduction to Information Retrieval, section 8.4; `map` of trec_eval.
    """
    relevant = {document for document, grade in judgements.items() if grade > 0}
    ranks = [rank for rank, document in enumerate(ranking, start=1) if document in relevant]
    return sum(found / rank for found, rank in enumerate(ranks, start=1)) / len(relevant)


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1))
