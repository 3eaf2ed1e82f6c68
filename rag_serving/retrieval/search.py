"""From words to candidates: a query is read, narrowed, searched, and what it asked for to the letter put first.

Belongs here: the order of these stages, which questions, searches and the bench share.
Does not belong here: what a stage does; what becomes of candidates (`pipeline`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rag_serving.artifacts.columns import numbers_of
from rag_serving.config.sections import Retrieval
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.readable import Readable
from rag_serving.models.protocols import Embedder
from rag_serving.query.filters import matching_rows
from rag_serving.query.parsing import read_query
from rag_serving.records import Candidate, Filters, Query
from rag_serving.retrieval.boosts import prefer
from rag_serving.retrieval.fusion import min_max
from rag_serving.retrieval.hybrid import Mode, Retrieved, Rows, gather
from rag_serving.retrieval.mmr import maximal_marginal_relevance
from rag_serving.tracing import Attempt

NOTHING_READABLE = "who asks may read none of the published passages"
"""Also said where there is no passage at all: how many are hidden is told to nobody who may not read them."""
# Passages with a quoted phrase that are added where the indexes ranked others before them.
_ADDED = 20


@dataclass(frozen=True)
class Found:
    """What was understood, and what was found."""

    query: Query
    retrieved: Retrieved


def find(
    generation: Generation,
    embedder: Embedder,
    text: str,
    classes: frozenset[str],
    settings: Retrieval,
    mode: Mode = "hybrid",
    k: int = 100,
    filters: Filters | None = None,
    is_word: Callable[[str], bool] = lambda _: False,
    rm3: bool = False,
) -> Found:
    """The k best chunks of the given reader classes for a question or keywords, best first.

    `filters` are the caller's; operators in the text narrow further. `is_word` says what is never misspelt.

    Raises:
        RetrievalError: none of the asked indexes can answer.
    """
    attempt = Attempt()
    readable = Readable(generation, classes, is_word)
    with attempt.part("query"):
        query = read_query(text, readable, settings.spelling)
        among = narrowed(generation, classes, filters, query.filters)
        inside = narrowed(generation, classes, filters, query.filters, query.scope) if query.scope else None
    if not generation.readable(classes):
        query = query.noting(NOTHING_READABLE)
    rows = among if inside is None else inside
    retrieved = gather(generation, embedder, query, classes, settings, mode, k, rows, rm3)
    if inside is not None and not retrieved.candidates:
        query = query.noting("nothing was found there, so everything was searched")
        retrieved = gather(generation, embedder, query, classes, settings, mode, k, among, rm3)
    if settings.mmr_lambda < 1 and mode == "hybrid":
        with attempt.part("diversify"):
            retrieved = replace(retrieved, candidates=_diverse(generation, retrieved.candidates, settings.mmr_lambda))
    with attempt.part("prefer"):
        query, holders = _holders(readable, query)
        added = [*_added(generation, query, classes, holders, inside if inside is not None else among, retrieved)]
        candidates = prefer([*retrieved.candidates, *added] if added else retrieved.candidates, query)
        candidates = candidates[:k] if added else candidates
    timings = {**attempt.timings_ms, **retrieved.timings_ms}
    return Found(query, replace(retrieved, candidates=candidates, timings_ms=timings))


def narrowed(generation: Generation, classes: frozenset[str], *filters: Filters | None) -> Rows | None:
    """The rows that match all filters, and those whose text stands in a matching place that the caller may read."""
    places = generation.places.readable(classes)
    among: Rows | None = None
    for wanted in filter(None, filters):
        rows = matching_rows(generation.table, wanted)
        rows[numbers_of(places["row"])[matching_rows(places, wanted)]] = True
        among = rows if among is None else among & rows
    return among


def _diverse(generation: Generation, candidates: Sequence[Candidate], balance: float) -> tuple[Candidate, ...]:
    """All candidates in the order of maximal marginal relevance."""
    rows = [generation.row_of(candidate.chunk.chunk_id) for candidate in candidates]
    vectors = generation.vectors([row for row in rows if row is not None])
    relevance = min_max(np.array([candidate.score for candidate in candidates], dtype=np.float64)).tolist()
    order = maximal_marginal_relevance(relevance, vectors, len(candidates), balance)
    return tuple(candidates[place] for place in order)


def _holders(readable: Readable, query: Query) -> tuple[Query, list[int]]:
    """The rows that hold a quoted phrase; a phrase without any is noted."""
    rows: set[int] = set()
    for phrase in query.phrases:
        found = readable.holding(phrase).tolist()
        rows.update(found)
        if not found:
            query = query.noting(f"no passage holds the words “{phrase}”")
    return query, sorted(rows)


def _added(
    generation: Generation,
    query: Query,
    classes: frozenset[str],
    holders: list[int],
    among: Rows | None,
    retrieved: Retrieved,
) -> Iterator[Candidate]:
    """Passages with a quoted phrase that are not among the candidates, as if they were the last of them."""
    if not holders:
        return
    rows = np.zeros(len(generation), dtype=np.bool_)
    rows[holders] = True
    have = {candidate.chunk.chunk_id for candidate in retrieved.candidates}
    last = min((candidate.score for candidate in retrieved.candidates), default=0.0)
    for hit in generation.lexical_terms(query.terms, _ADDED, classes, rows if among is None else rows & among):
        chunk = generation.chunk(hit.row, classes)
        if chunk.chunk_id not in have:
            yield Candidate(chunk, last, {"bm25": hit.score})
