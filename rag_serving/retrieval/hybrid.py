"""Candidates of both indexes: each searched alone, what they found put together.

Belongs here: searching an index, which of its rows are candidates, the query's vector.
Does not belong here: who may read what (the view knows), fusing what the indexes say (`retrieval.fusion`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rag_serving.indexes.bm25 import best_of
from rag_serving.indexes.protocols import ReaderView, Vector
from rag_serving.models.protocols import Embedder, ModelError
from rag_serving.retrieval.ranking import Ranking
from rag_serving.retrieval.stage import SearchContext

Mode = Literal["hybrid", "dense", "lexical", "keyword_documents", "keyword_chunks"]
"""What passages are found by; the last two by words of titles, labels and text alone."""

DENSE_UNAVAILABLE, LEXICAL_UNAVAILABLE = "dense_unavailable", "lexical_unavailable"
COLUMNS = {"dense": "dense", "lexical": "bm25"}
"""The column of each index's scores; its ranks are in `dense_rank` and `lexical_rank`."""


class RetrievalError(Exception):
    """No index can answer; the message says why."""


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
class DenseSearch:
    """The k nearest rows by cosine similarity; columns `dense` and `dense_rank`."""

    k: int

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        if context.vector is None:
            return ranking
        hits = context.view.dense(context.vector, self.k, context.among)
        return ranking.joined(Ranking.of_hits("dense", "dense_rank", hits))


@dataclass(frozen=True)
class LexicalSearch:
    """The k best rows by BM25; columns `bm25` and `lexical_rank`."""

    k: int

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        scores, among = context.lexical_scores, context.among
        hits = best_of(scores if among is None else np.where(among, scores, np.float32(0)), self.k)
        return ranking.joined(Ranking.of_hits("bm25", "lexical_rank", hits))


@dataclass(frozen=True)
class Candidates:
    """The rows that an index found near enough, each scored by every index that answered, whichever found it."""

    mode: Mode
    cosine_floor: float

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        if not ranking.columns:
            message = "neither index can answer" if self.mode == "hybrid" else f"the {self.mode} index cannot answer"
            raise RetrievalError(message)
        near = ranking.column("dense") >= self.cosine_floor
        found = np.flatnonzero(near | ~np.isnan(ranking.column("lexical_rank")))
        order = found[np.argsort(ranking.rows[found])]
        columns = dict(ranking.take(order).columns)
        rows = ranking.rows[order]
        if "dense" in columns and context.vector is not None:
            columns["dense_rank"] = np.where(near[order], columns["dense_rank"], np.nan)
            columns["dense"] = context.view.similarities(context.vector, rows).astype(np.float64)
        if "bm25" in columns:
            columns["bm25"] = context.lexical_scores[rows].astype(np.float64)
        return Ranking(rows, columns)
