"""Comparing what Qdrant holds of a generation with its files.

Belongs here: the requests. Does not belong here: what is compared (`point_checks`), sending the points
(`qdrant_upload`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from citelock_stores.publishing.point_checks import NEAREST, Counts, PointChecks, some_of
from citelock_stores.publishing.qdrant_points import QdrantPoints
from citelock_stores.qdrant import filters
from citelock_stores.qdrant.layout import DENSE, SPARSE, WINDOWS
from citelock_stores.remote.point_ids import number_of
from citelock_stores.remote.protocol import PostingKind
from citelock_stores.remote.repeated_requests import RepeatedRequests
from rag_serving.config.loading import Config

Search = tuple[str, Any, int]
"""The named vectors, what is searched for in them, and how many are wanted."""


class QdrantChecks(PointChecks):
    """Compares one generation in one collection."""

    def __init__(self, requests: RepeatedRequests[Any], collection: str, points: QdrantPoints, config: Config) -> None:
        super().__init__(collection, points, config.indexing)
        self._requests, self._ef, self._qdrant_points = requests, config.index.ef_search, points
        self._name = points.manifest.tenant, points.manifest.id

    def _count(self, kind: str) -> int:
        narrowed = filters.unread(*self._name, kind)
        answer = self._requests.ask(lambda client: client.count(self.collection, count_filter=narrowed, exact=True))
        return int(answer.count)

    def _nearest(self, queries: NDArray[np.float32]) -> Sequence[Sequence[int]]:
        from qdrant_client.models import SearchParams

        using = WINDOWS if self._points.has_windows else DENSE
        searches = [(using, query.tolist(), NEAREST) for query in queries]
        answers = self._searched(searches, SearchParams(hnsw_ef=self._ef))
        return [[number_of(point.id) for point in answer] for answer in answers]

    def _terms(self, kind: PostingKind) -> Iterator[tuple[str, Counts, Counts]]:
        from qdrant_client.models import SparseVector

        counts, chunks = self._qdrant_points.term_counts[kind], self._points.chunks
        terms = some_of(len(counts.terms))
        searches = [(SPARSE[kind], SparseVector(indices=[term], values=[1.0]), chunks) for term in terms]
        answers = self._searched(searches, None) if searches else []
        owners = np.repeat(np.arange(chunks), np.diff(counts.starts))
        for term, answer in zip(terms, answers, strict=True):
            which = counts.numbers == term
            sent = dict(zip(owners[which].tolist(), counts.counts[which].tolist(), strict=True))
            yield counts.terms[term], {number_of(point.id): round(point.score) for point in answer}, sent

    def _searched(self, searches: list[Search], params: Any) -> list[list[Any]]:
        from qdrant_client.models import QueryRequest

        narrowed = filters.unread(*self._name, "chunk")
        batch = [
            QueryRequest(query=query, using=using, filter=narrowed, limit=limit, params=params, with_payload=False)
            for using, query, limit in searches
        ]
        responses = self._requests.ask(lambda client: client.query_batch_points(self.collection, requests=batch))
        return [list(response.points) for response in responses]
