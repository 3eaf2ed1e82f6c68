"""Fusion: what several indexes say of the same candidates becomes one score.

Belongs here: fusion of ranks and of scores. Does not belong here: where they come from (`retrieval.hybrid`).

Scores say how much better one candidate is, ranks only that it is. So scores are fused by default, each brought to
mean 0 and deviation 1 over the candidates first; ranks are what is left where scores of the indexes mean nothing.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item", bound=Hashable)
Method = Literal["zscore", "minmax", "rrf"]
Scores = NDArray[np.float64]

_EPSILON = np.finfo(np.float32).eps  # below it scores are equal


def reciprocal_rank_fusion(rankings: Iterable[Sequence[Item]], k: int = 60) -> list[tuple[Item, float]]:
    """Items by the sum of 1 / (k + rank), ranks counted from 1; best first, ties in order of first appearance.

    Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
    Methods", SIGIR 2009. A ranking must not name an item twice.
    """
    scores: dict[Item, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + 1.0 / (k + rank)
    return sorted(scores.items(), key=lambda pair: -pair[1])


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


def standard(scores: Scores) -> Scores:
    """Standard scores [n]: mean 0, deviation 1; all 0 where all are equal."""
    centred: Scores = scores - scores.sum() / max(len(scores), 1)
    deviation = math.sqrt((centred * centred).sum() / max(len(scores), 1))
    return centred / deviation if deviation > _EPSILON else np.zeros(len(scores))


def min_max(scores: Scores) -> Scores:
    """Return scores [n] brought to 0 … 1; all 0 where all are equal."""
    if not len(scores) or not np.ptp(scores) > _EPSILON:
        return np.zeros(len(scores))
    scaled: Scores = (scores - scores.min()) / np.ptp(scores)
    return scaled
