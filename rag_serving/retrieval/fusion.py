"""Fusion: what several indexes say of the same candidates becomes one score.

Belongs here: fusion of ranks and of scores. Does not belong here: where they come from (`retrieval.hybrid`).

Scores say how much better one candidate is, ranks only that it is. So scores are fused by default, each brought to
mean 0 and deviation 1 over the candidates first; ranks are what is left where scores of the indexes mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rag_serving.config.sections import Retrieval
from rag_serving.retrieval.normalization import min_max, standard
from rag_serving.retrieval.ranking import RANK_SUFFIX, SCORE, Ranking, Scores
from rag_serving.retrieval.stage import SearchContext

Method = Literal["zscore", "minmax", "rrf"]


@dataclass(frozen=True)
class Fusion:
    """One score of what both indexes say, or of what the only one says that answered; column `fused`."""

    settings: Retrieval

    def __call__(self, _: SearchContext, ranking: Ranking) -> Ranking:
        fused = standard(self._fused(ranking))
        return Ranking(ranking.rows, {**ranking.columns, "fused": fused, SCORE: fused})

    def _fused(self, ranking: Ranking) -> Scores:
        if self.settings.fusion == "rrf":
            ranks = (values for name, values in ranking.columns.items() if name.endswith(RANK_SUFFIX))
            return reciprocal_rank_fusion(ranks, self.settings.rrf_k)
        weights = {"dense": self.settings.dense_weight, "bm25": 1 - self.settings.dense_weight}
        scores = {name: ranking.columns[name] for name in weights if name in ranking.columns}
        return weighted_sum(scores, weights, self.settings.fusion)


@dataclass(frozen=True)
class SingleIndex:
    """The scores of one index as they are."""

    column: str

    def __call__(self, _: SearchContext, ranking: Ranking) -> Ranking:
        return ranking.with_scores(SCORE, ranking.column(self.column))


def reciprocal_rank_fusion(ranks: Iterable[Scores], k: int = 60) -> Scores:
    """Return the sum [n] of 1 / (k + rank) over the ranks [n] in each index, counted from 1; NaN: not found by it.

    Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
    Methods", SIGIR 2009.
    """
    shares = [np.nan_to_num(1.0 / (k + values), nan=0.0) for values in ranks]
    total: Scores = np.sum(shares, axis=0)
    return total


def weighted_sum(scores: Mapping[str, Scores], weights: Mapping[str, float], method: Method = "zscore") -> Scores:
    """Return the weighted mean [n] of the normalized scores [n] of every index, which all score the same n candidates.

    Fox and Shaw, "Combination of Multiple Searches", TREC-2 (1994), CombSUM; normalized as compared by Montague and
    Aslam, "Relevance Score Normalization for Metasearch", CIKM 2001.
    """
    normalize = min_max if method == "minmax" else standard
    total = sum(weights[index] for index in scores)
    shares = [weights[index] / total * normalize(values) for index, values in scores.items()]
    mean: Scores = np.sum(shares, axis=0)
    return mean
