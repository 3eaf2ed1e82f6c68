"""Maximal marginal relevance: relevant passages that do not repeat each other.

Belongs here: choosing by relevance against novelty. Does not belong here: relevance itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag_serving.retrieval.normalization import min_max
from rag_serving.retrieval.ranking import Ranking
from rag_serving.retrieval.stage import SearchContext


@dataclass(frozen=True)
class Diversity:
    """All candidates in the order of maximal marginal relevance; their scores stay."""

    balance: float

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        relevance, vectors = min_max(ranking.score).tolist(), context.view.vectors(ranking.rows.tolist())
        return ranking.take(maximal_marginal_relevance(relevance, vectors, len(ranking), self.balance))


def maximal_marginal_relevance(
    relevance: Sequence[float], vectors: NDArray[np.float32], count: int, balance: float = 0.5
) -> list[int]:
    """Positions of up to `count` items, chosen one by one for `balance * relevance - (1 - balance) * max similarity`.

    Carbonell and Goldstein, "The Use of MMR, Diversity-Based Reranking", SIGIR 1998. `relevance` should lie in
    [0, 1] and `vectors` [n, d] be L2-normalized, so that both terms have one scale. Ties go to the earlier item.
    """
    if len(relevance) != len(vectors):
        raise ValueError(f"{len(relevance)} relevance scores do not fit {len(vectors)} vectors")
    gain = balance * np.asarray(relevance, dtype=np.float64)
    nearest = np.zeros(len(gain))
    open_ = np.ones(len(gain), dtype=bool)
    chosen: list[int] = []
    while open_.any() and len(chosen) < count:
        best = int(np.argmax(np.where(open_, gain - (1 - balance) * nearest, -np.inf)))
        chosen.append(best)
        open_[best] = False
        nearest = np.maximum(nearest, vectors @ vectors[best])
    return chosen
