"""One generation in Qdrant, read in the name of one principal.

Belongs here: tables from points, the nearest chunks. Does not belong here: the filter (`filters`), postings
(`postings`), which generation it is (`store`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from citelock_stores.qdrant import filters
from citelock_stores.qdrant.layout import DENSE, WINDOWS
from citelock_stores.qdrant.postings import PostingLists
from citelock_stores.qdrant.readable_points import ReadablePoints, Search
from citelock_stores.remote.nearest import Found, k_nearest, nearest_of
from citelock_stores.remote.packing import bytes_of
from citelock_stores.remote.payloads import table_of
from citelock_stores.remote.point_ids import number_of
from citelock_stores.remote.protocol import Nearest, PostingKind, Postings, Rows, Vector, WindowVectors
from citelock_stores.remote.search_settings import SearchSettings
from citelock_stores.remote.tables import (
    REMOTE_CHUNKS,
    REMOTE_ORIGINALS,
    REMOTE_PLACES,
    REMOTE_SEALS,
    REMOTE_SENTENCES,
    REMOTE_TEXTS,
)
from rag_serving.indexes.databases import RemoteDataError

_NAMED = 2000  # rows that a request names one by one; of more the best are asked for until enough are among them
_EF_FOR_EACH = 8  # candidates for each chunk that is asked for: recall@80 0.99, at four 0.97 (20,000 x 384, a filter)


class QdrantReader:
    """What some reader classes of a generation open; a `RemoteReader`. Safe to use from several threads."""

    def __init__(self, points: ReadablePoints, postings: PostingLists, settings: SearchSettings) -> None:
        self._points, self._postings, self._settings = points, postings, settings
        self._vector = WINDOWS if settings.windows else DENSE

    def classes(self) -> frozenset[str]:
        return self._points.classes

    def chunks(self) -> pa.Table:
        payloads = [point.payload or {} for point in self._points.scroll("chunk", REMOTE_CHUNKS.columns.names)]
        return table_of(REMOTE_CHUNKS, payloads).sort_by("row")

    def places(self) -> pa.Table:
        payloads = [point.payload or {} for point in self._points.scroll("place", REMOTE_PLACES.columns.names)]
        return table_of(REMOTE_PLACES, payloads).sort_by([("row", "ascending"), ("place", "ascending")])

    def originals(self) -> pa.Table:
        payloads = [point.payload or {} for point in self._points.scroll("original", REMOTE_ORIGINALS.columns.names)]
        return table_of(REMOTE_ORIGINALS, payloads).sort_by("page_id")

    def original(self, sha256: str) -> bytes:
        named = [filters.with_value("sha256", sha256)]
        if not any(True for _ in self._points.scroll("original", ["sha256"], named)):
            raise RemoteDataError("the file of a page is not in the Qdrant server, or may not be read")
        pieces = [point.payload or {} for point in self._points.scroll("piece", ["bytes"], named)]
        return b"".join(bytes_of(piece.get("bytes", "")) for piece in pieces)

    def seals(self) -> pa.Table:
        payloads = [point.payload or {} for point in self._points.scroll("seal", REMOTE_SEALS.columns.names)]
        return table_of(REMOTE_SEALS, payloads).sort_by([("readers", "ascending"), ("part", "ascending")])

    def texts(self, rows: Sequence[int]) -> pa.Table:
        points = self._points.of_rows(rows, REMOTE_TEXTS.columns.names)
        return table_of(REMOTE_TEXTS, [point.payload or {} for point in points])

    def sentences(self, rows: Sequence[int]) -> pa.Table:
        points = self._points.of_rows(rows, REMOTE_SENTENCES.columns.names)
        payloads = [point.payload or {} for point in points]
        return table_of(REMOTE_SENTENCES, [payload for payload in payloads if "records" in payload])

    def vectors(self, rows: Sequence[int]) -> WindowVectors:
        of_rows = {
            number_of(point.id): self._matrix(point.vector) for point in self._points.of_rows(rows, [], self._vector)
        }
        if missing := [row for row in rows if row not in of_rows]:
            raise RemoteDataError(f"{len(missing)} chunks have no vector in the Qdrant server that may be read")
        matrices = [of_rows[row] for row in rows]
        empty = np.zeros((0, self._settings.dimension), np.float32)
        counts = np.array([len(matrix) for matrix in matrices], np.int64)
        return WindowVectors(counts, np.concatenate([empty, *matrices]))

    def nearest(self, vector: Vector, k: int, among: Rows | None = None) -> Nearest:
        query = np.asarray(vector, np.float32).tolist()
        if k <= 0 or not self._points.classes or (among is not None and not len(among)):
            return nearest_of([], 0)
        named = among.tolist() if among is not None and len(among) <= _NAMED else None
        found = k_nearest(lambda asked: self._search(query, asked, named), k, among if named is None else None)
        assert found  # a search gives as many as it is asked for
        return found

    def postings(self, kind: PostingKind, terms: Sequence[str]) -> dict[str, Postings]:
        return self._postings.of(self._points, kind, terms)

    def vocabulary(self, kind: PostingKind) -> pa.Table:
        return self._postings.vocabulary(self._points, kind)

    def _search(self, query: list[float], limit: int, rows: Sequence[int] | None) -> Found:
        """Return the nearest chunks. Where a graph finds too few, all are compared."""
        from qdrant_client.models import SearchParams

        ef = self._settings.ef
        exactly = SearchParams(exact=True)
        params = exactly if ef is None or rows is not None else SearchParams(hnsw_ef=max(ef, _EF_FOR_EACH * limit))
        points = self._points.nearest(Search(self._vector, query, limit), params, rows)
        if len(points) < limit and params is not exactly:
            points = self._points.nearest(Search(self._vector, query, limit), exactly, rows)
        hits = [(number_of(point.id), point.score) for point in points]
        return Found(hits, len(hits) < limit, hits[-1][1] if hits else 0.0)

    def _matrix(self, vectors: Any) -> NDArray[np.float32]:
        """Return the vectors [n, d] of one chunk.

        Raises:
            RemoteDataError: it has none, or of another shape.
        """
        values = vectors.get(self._vector) if isinstance(vectors, dict) else None
        try:
            matrix: NDArray[np.float32] = np.array(values, np.float32, ndmin=2)
        except (TypeError, ValueError):
            matrix = np.zeros((0, 0), np.float32)
        if matrix.ndim != 2 or not len(matrix) or matrix.shape[1] != self._settings.dimension:
            raise RemoteDataError("a chunk's vector in the Qdrant server is damaged; run `citelock generations repair`")
        return matrix
