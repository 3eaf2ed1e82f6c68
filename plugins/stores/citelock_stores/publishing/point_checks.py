"""Comparing what a server holds of a generation with its files, before it is published.

Belongs here: counts, sample queries against exact search, sample terms. Does not belong here: the requests
(`qdrant_checks`), sending the points (`upload`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from citelock_stores.publishing.generation_points import GenerationPoints
from citelock_stores.remote.protocol import PostingKind
from rag_serving.config.indexing import Indexing
from rag_serving.indexes import exact
from rag_serving.indexes.databases import RemoteDataError

PROBES, NEAREST = 16, 10
SAME = 1e-5  # difference of cosines that count as equal

Counts = Mapping[int, int]
"""How often chunks have a term, by row."""


class PointChecks(ABC):
    """Compares one generation in one collection."""

    def __init__(self, collection: str, points: GenerationPoints, settings: Indexing) -> None:
        self.collection, self._points, self._settings = collection, points, settings

    @abstractmethod
    def _count(self, kind: str) -> int:
        """Return how many points of a kind are there."""

    @abstractmethod
    def _nearest(self, queries: NDArray[np.float32]) -> Sequence[Sequence[int]]:
        """Return the rows of the ten chunks nearest to each of some vectors [n, d], as the graph finds them."""

    @abstractmethod
    def _terms(self, kind: PostingKind) -> Iterator[tuple[str, Counts, Counts]]:
        """Yield some terms: what the server has of each, and what the files have."""

    def check(self) -> float:
        """Return recall@10 of sample queries, 0 to 1: every kind of point is there as often as it should be, and chunks
        are found by their vectors and terms.

        Raises:
            RemoteDataError: something is missing, or recall is below `indexing.min_ann_recall`.
        """
        where = f"collection {self.collection} is not as generation {self._points.manifest.id} was sent"
        for kind, expected in self._points.counts.items():
            if (found := self._count(kind)) != expected:
                raise RemoteDataError(
                    f"{where}: {found} of {expected} points of kind {kind}; `citelock generations repair` sends it "
                    "again"
                )
        if not self._points.chunks:
            return 1.0
        for term, there, sent in (each for name in ("lexical", "keyword") for each in self._terms(name)):
            if there != sent:
                raise RemoteDataError(
                    f"{where}: chunks with {term!r} differ; `citelock generations repair` sends it again"
                )
        recall, least = self._recall(), self._settings.min_ann_recall
        if recall < least:
            raise RemoteDataError(
                f"{where}: recall@10 of sample queries is {recall:.3f}, indexing.min_ann_recall {least}"
            )
        return recall

    def _recall(self) -> float:
        """Return the share of the nearest chunks that searches find; one as near as the last of them is as good."""
        table, chunks = self._points.files.vectors, self._points.chunks
        rows = np.unique(np.linspace(0, chunks - 1, PROBES).astype(np.int64))
        queries = table.mean(rows)
        hits = 0
        for query, answer in zip(queries, self._nearest(queries), strict=True):
            nearest = exact.search(table, query, NEAREST)
            similarities = exact.similarities(table, query, np.array(answer, np.int64))
            hits += min(len(nearest), int(np.count_nonzero(similarities >= nearest[-1].score - SAME)))
        return hits / (len(rows) * min(NEAREST, chunks))


def some_of(count: int) -> list[int]:
    """Return the numbers of some of so many terms, evenly spread."""
    return sorted({round(number) for number in np.linspace(0, count - 1, PROBES)}) if count else []
