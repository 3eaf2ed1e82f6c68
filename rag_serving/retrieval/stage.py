"""A stage of retrieval, and what all stages of one search share.

Belongs here: what stages are written against, and steps that only order or cut. Does not belong here: which stages
there are (`stages`), what any of them knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes.bm25 import idf
from rag_serving.indexes.protocols import Mask, ReaderView, Vector
from rag_serving.records.queries import Query
from rag_serving.retrieval.keyword.search import KeywordRun
from rag_serving.retrieval.passages import Passages
from rag_serving.retrieval.ranking import SCORE, Ranking
from rag_serving.retrieval.rm3 import expanded_scores
from rag_serving.tracing import StageTrace


@dataclass(frozen=True)
class SearchContext:
    """What the stages of one search share. For one question, not for several threads.

    Attributes:
        among: the rows that filters leave; None without filters.
        holders: the rows that hold a quoted phrase.
        vector: the query's [d]; None where it is not searched by meaning.
        expands: whether RM3 expands the lexical query.
        keywords: the question as the keyword tier reads it, where only that searches.
    """

    view: ReaderView
    query: Query
    among: Mask | None = None
    holders: Mask | None = None
    vector: Vector | None = None
    expands: bool = False
    keywords: KeywordRun | None = None

    @cached_property
    def passages(self) -> Passages:
        """Return the chunks that were read so far."""
        return Passages(self.view)

    @cached_property
    def lexical_scores(self) -> NDArray[np.float32]:
        """Return the BM25 score [rows] of every row, by the expanded query where that is on."""
        scores = self.view.lexical_scores(self.query.terms)
        return expanded_scores(self.view, self.query.terms, scores) if self.expands else scores

    @cached_property
    def term_weights(self) -> dict[str, float]:
        """Return the inverse document frequency of the query's terms, in their order."""
        if self.keywords is None:
            return self.view.term_weights(self.query.terms)
        readable = self.view.keywords
        return {term: idf(readable.frequency(term), len(self.view)) for term in self.query.terms}


Run = Callable[[SearchContext, Ranking], Ranking]


@dataclass(frozen=True)
class Stage:
    """One step from ranking to ranking.

    Attributes:
        name: what timings and rankings call it.
        flag: raised where it fails, and the ranking stays as it was; without one its error is the search's.
        on: whether it runs.
    """

    name: str
    run: Run
    flag: str | None = None
    on: bool = True


def run_stages(
    stages: Iterable[Stage], context: SearchContext, ranking: Ranking, trace: StageTrace
) -> dict[str, Ranking]:
    """Return the ranking that each stage left, in the order of the stages."""
    rankings: dict[str, Ranking] = {}
    for stage in stages:
        if stage.on:
            with trace.part(stage.name, stage.flag):
                ranking = stage.run(context, ranking)
            rankings[stage.name] = ranking
    return rankings


@dataclass(frozen=True)
class First:
    """The first k rows."""

    k: int

    def __call__(self, _: SearchContext, ranking: Ranking) -> Ranking:
        return ranking.head(self.k)


def best_first(_: SearchContext, ranking: Ranking) -> Ranking:
    """Return the rows by their scores; equal ones keep their order."""
    return ranking.ordered_by(SCORE)


def in_turn(*runs: Run) -> Run:
    """Return several steps as one that fails where one of them does."""

    def run(context: SearchContext, ranking: Ranking) -> Ranking:
        for step in runs:
            ranking = step(context, ranking)
        return ranking

    return run
