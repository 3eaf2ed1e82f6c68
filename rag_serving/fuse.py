"""Reciprocal rank fusion: several rankings become one.

Belongs here: fusion of ranked lists. Does not belong here: where the lists come from (`retrieve`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)


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
