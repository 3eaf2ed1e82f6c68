"""Reranking by a cross-encoder.

Belongs here: what the model reads of a passage, which of them it ranks. Does not belong here: the wire
(`models.reranker_client`), what stands in for it (`retrieval.lexical_reranker`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rag_serving.records.passages import Chunk
from rag_serving.retrieval.ranking import Ranking
from rag_serving.retrieval.stage import SearchContext

RERANKER_DOWN = "reranker_unavailable"
RERANK = "rerank"
"""The column of its scores."""


class RerankerClient(Protocol):
    """A cross-encoder behind HTTP; `models.reranker_client.RemoteReranker` is one."""

    def rank(self, query: str, passages: Sequence[tuple[str, str]], top_n: int) -> list[tuple[str, float]]: ...


@dataclass(frozen=True)
class CrossEncoderStage:
    """Of the first `pool` rows the `top_n` best by a cross-encoder; column `rerank`. Fails where the model does."""

    sidecar: RerankerClient
    top_n: int
    pool: int

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        pool = ranking.head(self.pool)
        chunks = context.passages.read(pool.rows)
        at = {chunk.chunk_id: place for place, chunk in enumerate(chunks)}
        passages = [(chunk.chunk_id, passage_text(chunk)) for chunk in chunks]
        ranked = self.sidecar.rank(context.query.text, passages, self.top_n) if passages else []
        scores = np.array([score for _, score in ranked], dtype=np.float64)
        return pool.take([at[chunk_id] for chunk_id, _ in ranked]).scored(RERANK, scores)


def passage_text(chunk: Chunk) -> str:
    """Return what the model reads: the heading path above the text, because a passage often does not name its
    subject."""
    return f"{' > '.join(chunk.heading_path)}\n{chunk.text}" if chunk.heading_path else chunk.text
