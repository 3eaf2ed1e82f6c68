"""Stages of a search by keywords.

Belongs here: rows from the keyword tier, how many of one document. Does not belong here: their scores (`scoring`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rag_serving.retrieval.ranking import Ranking
from rag_serving.retrieval.stage import SearchContext


@dataclass(frozen=True)
class KeywordSearch:
    """The first k rows by keywords; columns `keyword` and `keyword_rank`."""

    k: int

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        return context.keywords.ranking(self.k) if context.keywords else ranking


@dataclass(frozen=True)
class PerDocument:
    """At most so many rows of one document."""

    most: int

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        counts, kept = Counter[int](), list[int]()
        for at, page in enumerate(context.view.pages(ranking.rows).tolist()):
            counts[page] += 1
            if counts[page] <= self.most:
                kept.append(at)
        return ranking.take(kept)
