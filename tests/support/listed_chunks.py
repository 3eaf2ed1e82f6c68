"""A ranking over chunks that a test lists, for the stages that look at text alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np

from rag_serving.indexes.view import Mask, ReaderView, Rows
from rag_serving.records.passages import Candidate, Chunk
from rag_serving.records.queries import Query
from rag_serving.retrieval.ranking import SCORE, Ranking
from rag_serving.retrieval.stage import SearchContext


class ListedChunks:
    """What stages before the lock ask of a view; notes which rows were read, call by call."""

    def __init__(self, chunks: Sequence[Chunk], weights: Mapping[str, float] | None = None) -> None:
        self._chunks, self._weights = chunks, dict(weights or {})
        self.read: list[list[int]] = []

    def chunks(self, rows: Sequence[int]) -> list[Chunk]:
        self.read.append(list(rows))
        return [self._chunks[row] for row in rows]

    def chunk_ids(self, rows: Sequence[int]) -> list[str]:
        return [self._chunks[row].chunk_id for row in rows]

    def boilerplate(self, rows: Rows) -> Mask:
        return np.array([self._chunks[row].is_boilerplate for row in rows], dtype=np.bool_)

    def labels(self, rows: Rows) -> list[tuple[str, ...]]:
        return [self._chunks[row].labels for row in rows]

    def term_weights(self, _: Iterable[str]) -> dict[str, float]:
        return self._weights


def searching(view: ListedChunks, text: str, **query: object) -> SearchContext:
    """What the stages of a search for a text over listed chunks share."""
    return SearchContext(cast(ReaderView, view), Query(text, text, {}, **query))  # type: ignore[arg-type]


def ranked(scores: Sequence[float]) -> Ranking:
    """The first rows with these scores, in this order."""
    return Ranking(np.arange(len(scores)), {SCORE: np.array(scores, dtype=np.float64)})


def candidates(context: SearchContext, ranking: Ranking) -> list[Candidate]:
    """The rows of a ranking as candidates."""
    return list(context.passages.candidates(ranking))
