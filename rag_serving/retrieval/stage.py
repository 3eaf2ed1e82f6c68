"""A stage of retrieval, and what all stages of one search share. RM3: Abdul-Jaleel et al., "UMass at TREC 2004: Novelty
and HARD". The relevance model is estimated from the best passages, each weighted by its score; its strongest terms are
mixed with the query as it was written. Passages that the reader may not see are not among the best, and no term comes
from them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes.lexical import best_of, idf
from rag_serving.indexes.view import Mask, ReaderView, Vector
from rag_serving.records.queries import Query
from rag_serving.retrieval.keyword.search import KeywordRun
from rag_serving.retrieval.ranking import SCORE, Passages, Ranking
from rag_serving.text.analyzer import analyze
from rag_serving.tracing import StageTrace


@dataclass(frozen=True)
class SearchContext:
    """The state shared by the stages of one search. For one question, not for several threads."""

    view: ReaderView
    query: Query
    among: Mask | None = None  # the rows that pass the filters; None without filters
    holders: Mask | None = None  # the rows with a quoted phrase
    vector: Vector | None = None  # the query's [d]; None without a search by meaning
    expands: bool = False  # whether RM3 expands the lexical query
    keywords: KeywordRun | None = None  # the question as the keyword tier reads it, if only that searches

    @cached_property
    def passages(self) -> Passages:
        """Return the chunks that were read so far."""
        return Passages(self.view)

    @cached_property
    def lexical_scores(self) -> NDArray[np.float32]:
        """Return the BM25 score [rows] of every row, by the expanded query if that is on."""
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
    """One step from ranking to ranking. `flag`: raised if it fails, and the ranking stays unchanged; without one its
    error is the search's."""

    name: str  # its name in timings and rankings
    run: Run
    flag: str | None = None
    on: bool = True  # whether it runs


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


PASSAGES = 10  # passages that the model is estimated from
TERMS, ORIGINAL = 40, 0.7  # terms that are taken from it, and what the query's own weigh beside them
_COMMON = 2.3  # idf of a term that a tenth of all passages contain: it expands no query


def expanded_scores(view: ReaderView, terms: Mapping[str, float], scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the BM25 score [rows] of every row by the expanded query; `scores` [rows] are those of the query."""
    best = best_of(scores, PASSAGES)
    if not best:
        return scores
    passages = [(hit.score, analyze(view.indexed_text(hit.row))) for hit in best]
    weights = view.term_weights({term for _, passage in passages for term in passage})
    return view.lexical_scores(expanded(terms, passages, lambda term: weights[term] < _COMMON))


def expanded(
    query: Mapping[str, float],
    passages: Sequence[tuple[float, Sequence[str]]],
    is_common: Callable[[str], bool] = lambda _: False,
) -> dict[str, float]:
    """Weights by term that sum to 1: `ORIGINAL` of them the query's, the others of the `TERMS` strongest. `passages`
    are scores above 0 and analyzed terms; a common term is never taken from them."""
    total = sum(score for score, terms in passages if terms)
    model: defaultdict[str, float] = defaultdict(float)
    for score, terms in passages:
        for term, frequency in Counter(terms).items():
            model[term] += score / total * frequency / len(terms)
    strongest = sorted(model, key=lambda term: (-model[term], term))
    taken = [term for term in strongest[: 2 * TERMS] if not is_common(term)][:TERMS]
    if not taken:
        return dict(query)
    weights = {term: ORIGINAL * weight / sum(query.values()) for term, weight in query.items()}
    rest = (1 - ORIGINAL) / sum(model[term] for term in taken)
    for term in taken:
        weights[term] = weights.get(term, 0.0) + rest * model[term]
    return weights
