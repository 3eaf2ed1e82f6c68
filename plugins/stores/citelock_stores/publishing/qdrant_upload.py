"""Sending the points of a generation to Qdrant.

Belongs here: making the collection and its indexes, the requests. Does not belong here: batches (`upload`), the points
(`qdrant_points`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from citelock_stores.publishing.qdrant_points import QdrantPoints
from citelock_stores.publishing.upload import LISTED, NumberedPoint, Upload
from citelock_stores.qdrant import filters
from citelock_stores.qdrant.layout import (
    BOOK_FIELDS,
    DENSE,
    HNSW_EF_CONSTRUCT,
    HNSW_M,
    KEYWORD_FIELDS,
    SPARSE,
    WINDOWS,
)
from citelock_stores.remote.point_ids import number_of, point_id
from citelock_stores.remote.repeated_requests import RepeatedRequests
from citelock_stores.remote.stored import TENANT
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import RemoteDataError

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.models import CollectionInfo


class QdrantUpload(Upload):
    """One generation on its way to its collection."""

    def __init__(self, requests: RepeatedRequests[Any], collection: str, points: QdrantPoints, config: Config) -> None:
        super().__init__(requests, collection, points, config)
        self._is_book = points.is_book

    def _ensure_collection(self) -> None:
        if not self._requests.ask(lambda client: client.collection_exists(self.collection)):
            try:
                self._requests.ask(self._create)
            except RemoteDataError:  # another publisher, or an earlier try of ours, made it meanwhile
                if not self._requests.ask(lambda client: client.collection_exists(self.collection)):
                    raise
        info = self._requests.ask(lambda client: client.get_collection(self.collection))
        dimension, found = self._points.manifest.embedder.dimension, _dimension(info)
        if found != dimension:
            raise RemoteDataError(
                f"collection {self.collection} has vectors of {found} dimensions, generation {self._name[1]} of "
                f"{dimension}; give index.collection another name"
            )
        self._index_fields(frozenset(info.payload_schema))

    def _create(self, client: QdrantClient) -> bool:
        from qdrant_client import models

        size, cosine = self._points.manifest.embedder.dimension, models.Distance.COSINE
        several = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        return client.create_collection(
            self.collection,
            vectors_config={
                DENSE: models.VectorParams(size=size, distance=cosine),
                WINDOWS: models.VectorParams(size=size, distance=cosine, multivector_config=several),
            },
            sparse_vectors_config={name: models.SparseVectorParams() for name in SPARSE.values()},
            hnsw_config=models.HnswConfigDiff(m=HNSW_M, ef_construct=HNSW_EF_CONSTRUCT),
            on_disk_payload=True,
        )

    def _index_fields(self, indexed: frozenset[str]) -> None:
        from qdrant_client.models import KeywordIndexParams, KeywordIndexType

        schemas: dict[str, Any] = {TENANT: KeywordIndexParams(type=KeywordIndexType.KEYWORD, is_tenant=True)}
        schemas |= dict.fromkeys(KEYWORD_FIELDS, "keyword")
        if self._is_book:
            schemas |= BOOK_FIELDS
        for field, schema in schemas.items():
            if field not in indexed:
                self._requests.ask(
                    lambda client, name=field, kind=schema: client.create_payload_index(  # type: ignore[misc]
                        self.collection, name, field_schema=kind, wait=True
                    )
                )

    def _present(self, kind: str) -> set[int]:
        """Return the numbers of the points of a kind that are there."""
        narrowed, numbers, offset = filters.unread(*self._name, kind), set[int](), None
        while True:
            records, offset = self._requests.ask(
                lambda client, start=offset: client.scroll(  # type: ignore[misc]
                    self.collection, scroll_filter=narrowed, limit=LISTED, offset=start, with_payload=False
                )
            )
            numbers |= {number_of(record.id) for record in records}
            if offset is None:
                return numbers

    def _put(self, kind: str, points: Sequence[NumberedPoint]) -> None:
        from qdrant_client.models import PointStruct

        batch = [
            PointStruct(id=point_id(*self._name, kind, number), payload=point.payload, vector=point.vectors)
            for number, point in points
        ]
        self._requests.ask(lambda client: client.upsert(self.collection, points=batch, wait=True))

    def _finish(self, began: float) -> None:
        """Wait until the server has indexed what it was sent; searches are right before, only slower."""
        pause_s = 0.02
        while time.monotonic() - began < self._patience_s:
            if self._requests.ask(lambda client: client.get_collection(self.collection)).status != "yellow":
                return
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)


def _dimension(info: CollectionInfo) -> int | None:
    """Return the dimension of a collection's vectors; None where it has none of that name."""
    vectors = info.config.params.vectors
    params = vectors.get(DENSE) if isinstance(vectors, dict) else None
    return params.size if params else None
