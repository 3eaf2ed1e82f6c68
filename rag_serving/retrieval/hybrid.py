"""Retrieval: the dense and the lexical ranking of a generation, fused.

Belongs here: asking both indexes, the query's vector, what is done where one of them cannot answer.
Does not belong here: who may read what (`access.principals` decides before), hygiene, reranking.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rag_serving.config.sections import Retrieval
from rag_serving.indexes.hits import Hit
from rag_serving.indexes.lexical import best_of
from rag_serving.indexes.protocols import Mask, ReaderView, Rows, Vector
from rag_serving.models.protocols import Embedder, ModelError
from rag_serving.records import Candidate, Filters, Query
from rag_serving.retrieval.fusion import reciprocal_rank_fusion, standard, weighted_sum
from rag_serving.retrieval.page_evidence import of_neighbours, of_page, of_parent
from rag_serving.retrieval.ranking import Ranked
from rag_serving.retrieval.rm3 import PASSAGES, expanded
from rag_serving.text.analyzer import analyze
from rag_serving.tracing import StageTrace

Mode = Literal["hybrid", "dense", "lexical"]
Scores = NDArray[np.float64]

_COMMON = 2.3  # idf of a term that a tenth of all passages hold: it expands no query
_INDEXES = frozenset({"dense", "bm25"})
_RANKING_OF = {"dense": "dense", "bm25": "lexical"}

DENSE_UNAVAILABLE, LEXICAL_UNAVAILABLE = "dense_unavailable", "lexical_unavailable"


class RetrievalError(Exception):
    """No index can answer; the message says why."""


@dataclass(frozen=True)
class Retrieved:
    """Fused candidates, best first, with what was degraded and how long each part took.

    `rankings`: the best rows of each index alone (`dense`, `lexical`), before the cosine floor, and `fused`.
    """

    candidates: Sequence[Candidate]
    vector: Vector | None
    degraded: tuple[str, ...]
    timings_ms: dict[str, float]
    rankings: Mapping[str, Sequence[Hit]] = field(default_factory=dict)


@dataclass(frozen=True)
class SearchOptions:
    """How passages are searched.

    Attributes:
        settings: weights, depths and floors.
        k: how many candidates are returned.
        rm3: whether the lexical query is expanded by what it finds first.
        filters: those of the caller.
        is_word: says which words are never misspelt, though no passage holds them.
    """

    settings: Retrieval
    mode: Mode = "hybrid"
    k: int = 100
    rm3: bool = False
    filters: Filters | None = None
    is_word: Callable[[str], bool] = lambda _: False


def gather(
    view: ReaderView, embedder: Embedder, query: Query, options: SearchOptions, among: Mask | None = None
) -> Retrieved:
    """Return the k best chunks that a reader may see, best first; `among` narrows both indexes to some rows.

    Scores of a candidate: `dense` (cosine similarity) and `bm25`, each asked of every candidate, whichever index found
    it; `fused`; and what its surroundings are worth: `page`, `parent`, `neighbours`, `document`. One index alone gives
    its own.

    Raises:
        RetrievalError: none of the asked indexes can answer.
    """
    attempt, mode = StageTrace(), options.mode
    vector: Vector | None = None
    asked: dict[str, _Asked] = {}
    if mode != "lexical":
        with attempt.part("embed", DENSE_UNAVAILABLE):
            vector = query_vector(view, embedder, query.text)
    if vector is not None:
        with attempt.part("dense", DENSE_UNAVAILABLE):
            asked["dense"] = _dense(view, vector, options.settings, among)
    if mode != "dense":
        with attempt.part("lexical", LEXICAL_UNAVAILABLE):
            asked["bm25"] = _lexical(view, query, options, among)
    if not asked:
        raise RetrievalError("neither index can answer" if mode == "hybrid" else f"the {mode} index cannot answer")
    with attempt.part("fuse"):
        rows, scores = _scored(view, asked, options.settings, mode)
        fused, candidates = _best(view, rows, scores, options.k)
    rankings = {_RANKING_OF[name]: index.hits for name, index in asked.items()} | {"fused": fused}
    return Retrieved(candidates, vector, tuple(attempt.flags), attempt.timings_ms, rankings)


def query_vector(view: ReaderView, embedder: Embedder, query: str) -> Vector:
    """Return the query's vector [d], if it can be compared with those of the generation.

    Raises:
        ModelError: the model does not answer, or is not the one that made the generation's vectors.
    """
    built = view.embedder
    if embedder.name != built.name:
        raise ModelError(
            f"the index was built with {built.name}, the configuration names {embedder.name}; run `citelock build`"
        )
    vector = embedder.embed_query(query)
    if vector.shape != (built.dimension,):
        raise ModelError(f"the model gave a vector of shape {vector.shape}, the index has {built.dimension} dimensions")
    return vector


@dataclass(frozen=True)
class _Asked:
    """What one index found, best first, which of it are candidates, and what the index says of any rows."""

    hits: Sequence[Hit]
    found: Sequence[int]
    scores: Callable[[Rows], NDArray[np.float32]]
    everywhere: NDArray[np.float32] | None = None  # [chunks], where they were computed anyway


def _dense(view: ReaderView, vector: Vector, settings: Retrieval, among: Mask | None) -> _Asked:
    hits = view.dense(vector, settings.dense_k, among)
    near = [hit.row for hit in hits if hit.score >= settings.cosine_floor]
    return _Asked(hits, near, lambda rows: view.similarities(vector, rows))


def _lexical(view: ReaderView, query: Query, options: SearchOptions, among: Mask | None) -> _Asked:
    scores = view.lexical_scores(query.terms)
    if options.rm3 and (best := best_of(scores, PASSAGES)):
        passages = [(hit.score, analyze(view.indexed_text(hit.row))) for hit in best]
        weights = view.term_weights({term for _, terms in passages for term in terms})
        terms = expanded(query.terms, passages, lambda term: weights[term] < _COMMON)
        scores = view.lexical_scores(terms)
    narrowed = scores if among is None else np.where(among, scores, np.float32(0))
    hits = best_of(narrowed, options.settings.lexical_k)
    return _Asked(hits, [hit.row for hit in hits], lambda rows: scores[rows], scores)


def _scored(
    view: ReaderView, asked: Mapping[str, _Asked], settings: Retrieval, mode: Mode
) -> tuple[Rows, dict[str, Scores]]:
    """Return the rows that any index found, ascending, and their scores by stage: those of the last stages add up."""
    rows = np.array(sorted({row for index in asked.values() for row in index.found}), dtype=np.int64)
    scores = {name: index.scores(rows).astype(np.float64) for name, index in asked.items()}
    if mode != "hybrid":
        return rows, scores
    fused = standard(_fused(rows, scores, [index.found for index in asked.values()], settings))
    lexical = asked["bm25"].everywhere if "bm25" in asked else None
    means = None if lexical is None else view.page_means(lexical, rows)
    return rows, {**scores, "fused": fused, **_page_evidence(view, rows, fused, means, settings)}


def _fused(rows: Rows, scores: Mapping[str, Scores], rankings: Sequence[Sequence[int]], settings: Retrieval) -> Scores:
    """Return one score [n] for each row."""
    if settings.fusion == "rrf":
        by_row = dict(reciprocal_rank_fusion(rankings, settings.rrf_k))
        return np.array([by_row[row] for row in rows.tolist()], dtype=np.float64)
    weights = {"dense": settings.dense_weight, "bm25": 1 - settings.dense_weight}
    return weighted_sum(scores, weights, settings.fusion)


def _page_evidence(
    view: ReaderView, rows: Rows, fused: Scores, page_means: Scores | None, settings: Retrieval
) -> dict[str, Scores]:
    """Return what is added to the fused score [n] of each row, by stage; a stage of no weight is left out."""
    worth: dict[str, Scores] = {}
    pages = view.pages(rows)
    if settings.page_weight:
        worth["page"] = settings.page_weight * of_page(fused, pages)
    if settings.document_weight and page_means is not None:
        worth["document"] = settings.document_weight * standard(page_means)
    if settings.parent_weight:
        so_far = fused + worth.get("page", 0.0)
        worth["parent"] = settings.parent_weight * of_parent(so_far, pages, view.parents(rows))
    if settings.neighbour_weight:
        worth["neighbours"] = settings.neighbour_weight * of_neighbours(fused, pages, view.positions(rows))
    return worth


def _best(view: ReaderView, rows: Rows, scores: Mapping[str, Scores], k: int) -> tuple[list[Hit], Ranked]:
    """Return the k best rows, and the same as candidates; equal scores stand in row order."""
    final = np.sum([values for stage, values in scores.items() if stage not in _INDEXES or len(scores) == 1], axis=0)
    order = np.argsort(-final, kind="stable")[:k]
    told = {stage: values[order].tolist() for stage, values in scores.items()}
    chosen, worth = rows[order].tolist(), final[order].tolist()
    return [*map(Hit, chosen, worth)], Ranked(chosen, worth, told, view.chunks)
