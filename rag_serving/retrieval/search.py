"""From words to candidates: a query is read, narrowed, searched, and what it asked for to the letter put first.

Belongs here: the order of these stages, which questions, searches and the bench share.
Does not belong here: what a stage does; what becomes of candidates (`pipeline`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rag_serving.indexes.protocols import Mask, ReaderView
from rag_serving.models.protocols import Embedder
from rag_serving.query.parsing import read_query
from rag_serving.query.vocabulary import Names
from rag_serving.records import Candidate, Filters, Query
from rag_serving.retrieval.boosts import boosted
from rag_serving.retrieval.fusion import min_max
from rag_serving.retrieval.hybrid import Retrieved, SearchOptions, gather
from rag_serving.retrieval.mmr import maximal_marginal_relevance
from rag_serving.tracing import StageTrace

NOTHING_READABLE = "who asks may read none of the published passages"
"""Also said where there is no passage at all: how many are hidden is told to nobody who may not read them."""
# Passages with a quoted phrase that are added where the indexes ranked others before them.
_ADDED = 20


@dataclass(frozen=True)
class Found:
    """What was understood, and what was found."""

    query: Query
    retrieved: Retrieved


@dataclass(frozen=True)
class _Corpus:
    """What the reader of a query may be told of words and names; `is_word` says what is never misspelt."""

    view: ReaderView
    is_word: Callable[[str], bool]

    @property
    def names(self) -> Names:
        return self.view.names

    def frequency(self, term: str) -> int:
        return self.view.frequency(term)

    def correction(self, word: str) -> str | None:
        return None if self.is_word(word) else self.view.correction(word)


def find(view: ReaderView, embedder: Embedder, text: str, options: SearchOptions) -> Found:
    """Return the k best chunks that a reader may see for a question or keywords, best first.

    The caller's filters and the operators in the text both narrow the search.

    Raises:
        RetrievalError: none of the asked indexes can answer.
    """
    attempt = StageTrace()
    settings = options.settings
    with attempt.part("query"):
        query = read_query(text, _Corpus(view, options.is_word), settings.spelling)
        among = narrowed(view, options.filters, query.filters)
        inside = narrowed(view, options.filters, query.filters, query.scope) if query.scope else None
    if not len(view):
        query = query.noting(NOTHING_READABLE)
    rows = among if inside is None else inside
    retrieved = gather(view, embedder, query, options, rows)
    if inside is not None and not retrieved.candidates:
        query = query.noting("nothing was found there, so everything was searched")
        retrieved = gather(view, embedder, query, options, among)
    if settings.mmr_lambda < 1 and options.mode == "hybrid":
        with attempt.part("diversify"):
            retrieved = replace(retrieved, candidates=_diverse(view, retrieved.candidates, settings.mmr_lambda))
    with attempt.part("prefer"):
        query, holders = _holders(view, query)
        added = [*_added(view, query, holders, inside if inside is not None else among, retrieved)]
        candidates = boosted([*retrieved.candidates, *added] if added else retrieved.candidates, query)
        candidates = candidates[: options.k] if added else candidates
    timings = {**attempt.timings_ms, **retrieved.timings_ms}
    return Found(query, replace(retrieved, candidates=candidates, timings_ms=timings))


def narrowed(view: ReaderView, *filters: Filters | None) -> Mask | None:
    """Return the rows that match all filters; None where there is no filter."""
    masks = [view.matching(wanted) for wanted in filters if wanted]
    return np.logical_and.reduce(masks) if masks else None


def _diverse(view: ReaderView, candidates: Sequence[Candidate], balance: float) -> tuple[Candidate, ...]:
    """Return all candidates in the order of maximal marginal relevance."""
    rows = [view.row_of(candidate.chunk.chunk_id) for candidate in candidates]
    vectors = view.vectors([row for row in rows if row is not None])
    relevance = min_max(np.array([candidate.score for candidate in candidates], dtype=np.float64)).tolist()
    order = maximal_marginal_relevance(relevance, vectors, len(candidates), balance)
    return tuple(candidates[place] for place in order)


def _holders(view: ReaderView, query: Query) -> tuple[Query, list[int]]:
    """Return the rows that hold a quoted phrase; a phrase without any is noted."""
    rows: set[int] = set()
    for phrase in query.phrases:
        found = view.holding(phrase).tolist()
        rows.update(found)
        if not found:
            query = query.noting(f"no passage holds the words “{phrase}”")
    return query, sorted(rows)


def _added(
    view: ReaderView, query: Query, holders: list[int], among: Mask | None, retrieved: Retrieved
) -> Iterator[Candidate]:
    """Yield passages with a quoted phrase that are not among the candidates, as if they were the last of them."""
    if not holders:
        return
    rows = view.mask(holders)
    have = {candidate.chunk.chunk_id for candidate in retrieved.candidates}
    last = min((candidate.score for candidate in retrieved.candidates), default=0.0)
    hits = view.lexical(query.terms, _ADDED, rows if among is None else rows & among)
    for hit, chunk in zip(hits, view.chunks([hit.row for hit in hits]), strict=True):
        if chunk.chunk_id not in have:
            yield Candidate(chunk, last, {"bm25": hit.score})
