"""Retrieval: the dense and the lexical ranking of a generation, fused.

Belongs here: asking both indexes, the query's vector, what is done where one of them cannot answer.
Does not belong here: who may read what (`access` decides before), hygiene, reranking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rag_serving.attempts import Attempt
from rag_serving.fuse import reciprocal_rank_fusion
from rag_serving.generation import Generation
from rag_serving.indexes.hits import Hit
from rag_serving.models.protocols import Embedder, ModelError
from rag_serving.records import Candidate, Query
from rag_serving.settings import Retrieval

Mode = Literal["hybrid", "dense", "lexical"]
Vector = NDArray[np.float32]
Rows = NDArray[np.bool_]

DENSE_UNAVAILABLE, LEXICAL_UNAVAILABLE = "dense_unavailable", "lexical_unavailable"


class RetrievalError(Exception):
    """No index can answer; the message says why."""


@dataclass(frozen=True)
class Retrieved:
    """Fused candidates, best first, with what was degraded and how long each part took."""

    candidates: tuple[Candidate, ...]
    vector: Vector | None
    degraded: tuple[str, ...]
    timings_ms: dict[str, float]


def retrieve(
    generation: Generation,
    embedder: Embedder,
    query: Query,
    classes: frozenset[str],
    settings: Retrieval,
    mode: Mode = "hybrid",
    k: int = 100,
) -> list[Candidate]:
    """The k best chunks of the given reader classes, best first, with the score of every stage."""
    return list(gather(generation, embedder, query, classes, settings, mode, k).candidates)


def gather(
    generation: Generation,
    embedder: Embedder,
    query: Query,
    classes: frozenset[str],
    settings: Retrieval,
    mode: Mode = "hybrid",
    k: int = 100,
    among: Rows | None = None,
) -> Retrieved:
    """`retrieve` with what was learnt on the way; `among` [chunks] narrows both indexes to some rows.

    Scores of a candidate: `dense` (cosine similarity), `bm25`, `rrf`; an index that did not find it gives none.

    Raises:
        RetrievalError: none of the asked indexes can answer.
    """
    attempt = Attempt()
    vector: Vector | None = None
    dense: list[Hit] = []
    lexical: list[Hit] = []
    if mode != "lexical":
        with attempt.part("embed", DENSE_UNAVAILABLE):
            vector = query_vector(generation, embedder, query.text)
    if vector is not None:
        with attempt.part("dense", DENSE_UNAVAILABLE):
            found = generation.dense(vector, settings.dense_k, classes, among)
            dense = [hit for hit in found if hit.score >= settings.cosine_floor]
    if mode != "dense":
        with attempt.part("lexical", LEXICAL_UNAVAILABLE):
            lexical = generation.lexical_terms(query.terms, settings.lexical_k, classes, among)
    if len(attempt.flags) == (2 if mode == "hybrid" else 1):
        raise RetrievalError("neither index can answer" if mode == "hybrid" else f"the {mode} index cannot answer")
    with attempt.part("fuse"):
        candidates = _fused(generation, dense, lexical, classes, settings.rrf_k, k)
    return Retrieved(candidates, vector, tuple(attempt.flags), attempt.timings_ms)


def query_vector(generation: Generation, embedder: Embedder, query: str) -> Vector:
    """The query's vector [d], if it can be compared with those of the generation.

    Raises:
        ModelError: the model does not answer, or is not the one that made the generation's vectors.
    """
    built = generation.manifest.embedder
    if embedder.name != built.name:
        raise ModelError(
            f"the index was built with {built.name}, the configuration names {embedder.name}; run `citelock build`"
        )
    vector = embedder.embed_query(query)
    if vector.shape != (built.dimension,):
        raise ModelError(f"the model gave a vector of shape {vector.shape}, the index has {built.dimension} dimensions")
    return vector


def _fused(
    generation: Generation, dense: list[Hit], lexical: list[Hit], classes: frozenset[str], rrf_k: int, k: int
) -> tuple[Candidate, ...]:
    """The k best rows of both rankings as candidates; the same as one ranking where the other is empty."""
    rankings = [[hit.row for hit in hits] for hits in (dense, lexical)]
    scores: dict[int, dict[str, float]] = {}
    for stage, hits in (("dense", dense), ("bm25", lexical)):
        for hit in hits:
            scores.setdefault(hit.row, {})[stage] = hit.score
    fused = reciprocal_rank_fusion(rankings, rrf_k)[:k]
    chunks = generation.chunks([row for row, _ in fused], classes)
    return tuple(
        Candidate(chunk, score, {**scores[row], "rrf": score})
        for chunk, (row, score) in zip(chunks, fused, strict=True)
    )
