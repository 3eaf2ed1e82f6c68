"""One generation in OpenSearch, read in the name of one principal.

Belongs here: tables from documents, the nearest chunks. Does not belong here: the filter (`filters`), packed postings
(`packed_postings`), which generation it is (`store`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from citelock_stores.opensearch import filters
from citelock_stores.opensearch.layout import MOST, ROW, VECTOR, DocumentKind
from citelock_stores.opensearch.packed_postings import unpack_postings
from citelock_stores.opensearch.readable_documents import ReadableDocuments, Source
from citelock_stores.remote.nearest import Found, k_nearest, nearest_of
from citelock_stores.remote.packing import bytes_of, term_hash, unpack_tables
from citelock_stores.remote.payloads import table_of
from citelock_stores.remote.protocol import Nearest, PostingKind, Postings, Rows, Vector, WindowVectors
from citelock_stores.remote.search_settings import SearchSettings
from citelock_stores.remote.tables import (
    REMOTE_CHUNKS,
    REMOTE_ORIGINALS,
    REMOTE_PLACES,
    REMOTE_SEALS,
    REMOTE_SENTENCES,
    REMOTE_TERMS,
    REMOTE_TEXTS,
    TEXT_COLUMNS,
)
from rag_serving.indexes import exact
from rag_serving.indexes.databases import RemoteDataError
from rag_serving.indexes.exact import VectorTable

_NAMED = 2000  # rows that a request names one by one; of more the best are asked for until enough are among them
_PART = 50_000  # rows that a request names where not even MOST hits have enough of them
_EF_FOR_EACH = 8  # candidates for each chunk that is asked for, as for Qdrant's graphs
_ERROR = 2e-6  # cosines by which the order of the server may differ


class OpenSearchReader:
    """What some reader classes of a generation open; a `RemoteReader`. Safe to use from several threads."""

    def __init__(self, documents: ReadableDocuments, settings: SearchSettings) -> None:
        self._documents, self._settings = documents, settings
        self._vectors: DocumentKind = "window" if settings.windows else "chunk"

    def classes(self) -> frozenset[str]:
        return self._documents.classes

    def chunks(self) -> pa.Table:
        return self._table("chunks", REMOTE_CHUNKS.columns, ["row"])

    def places(self) -> pa.Table:
        return self._table("places", REMOTE_PLACES.columns, ["row", "place"])

    def originals(self) -> pa.Table:
        return self._table("originals", REMOTE_ORIGINALS.columns, ["page_id"])

    def original(self, sha256: str) -> bytes:
        named = [filters.with_value("sha256", sha256)]
        pieces = [bytes_of(source.get("bytes", "")) for source in self._documents.every("piece", ["bytes"], named)]
        if not pieces:
            raise RemoteDataError("the file of a page is not in the OpenSearch server, or may not be read")
        return b"".join(pieces)

    def seals(self) -> pa.Table:
        return self._table("seals", REMOTE_SEALS.columns, ["readers", "part"])

    def texts(self, rows: Sequence[int]) -> pa.Table:
        return table_of(REMOTE_TEXTS, [*self._documents.of_rows("chunk", rows, TEXT_COLUMNS)])

    def sentences(self, rows: Sequence[int]) -> pa.Table:
        sources = self._documents.of_rows("chunk", rows, ["records"])
        return table_of(REMOTE_SENTENCES, [source for source in sources if "records" in source])

    def vectors(self, rows: Sequence[int]) -> WindowVectors:
        of_rows = defaultdict[int, list[NDArray[np.float32]]](list)
        for source in self._documents.of_rows(self._vectors, rows, [VECTOR]):
            of_rows[source[ROW]].append(self._vector(source))
        if missing := [row for row in rows if row not in of_rows]:
            raise RemoteDataError(f"{len(missing)} chunks have no vector in the OpenSearch server that may be read")
        found = [vector for row in rows for vector in of_rows[row]]
        counts = np.array([len(of_rows[row]) for row in rows], np.int64)
        return WindowVectors(counts, self._matrix(found))

    def nearest(self, vector: Vector, k: int, among: Rows | None = None) -> Nearest:
        query = np.ascontiguousarray(vector, np.float32)
        if k <= 0 or not self._documents.classes or (among is not None and not len(among)):
            return nearest_of([], 0)
        if among is None or len(among) <= _NAMED:
            return self._of(query, k, None if among is None else among)
        found = k_nearest(lambda asked: self._search(query, asked, None), k, among, MOST)
        if found is not None:
            return found
        parts = [self._of(query, k, among[start : start + _PART]) for start in range(0, len(among), _PART)]
        hits = [hit for part in parts for hit in zip(part.rows.tolist(), part.scores.tolist(), strict=True)]
        return nearest_of(hits, k)

    def postings(self, kind: PostingKind, terms: Sequence[str]) -> Mapping[str, Postings]:
        if not terms:
            return {}
        conditions = [
            filters.with_value("posting", kind),
            filters.with_any("keys", sorted({term_hash(term) for term in terms})),
        ]
        sources = self._documents.every("posting", ["packed"], conditions)
        return unpack_postings((source.get("packed", "") for source in sources), terms)

    def vocabulary(self, kind: PostingKind) -> pa.Table:
        table = self._table(kind, REMOTE_TERMS.columns, ["term"])
        summed = table.group_by("term", use_threads=False).aggregate([("chunks", "sum")])
        columns = [summed["term"], summed["chunks_sum"]]
        return pa.table(columns, schema=REMOTE_TERMS.columns).combine_chunks()

    def _table(self, block: str, schema: pa.Schema, order: Sequence[str]) -> pa.Table:
        sources = self._documents.every("block", ["packed"], [filters.with_value("block", block)])
        return unpack_tables([bytes_of(source.get("packed", "")) for source in sources], schema, order)

    def _of(self, query: Vector, k: int, rows: Rows | None) -> Nearest:
        """Return the k nearest of some rows, or of all; at most MOST documents are looked at."""
        named = None if rows is None else rows.tolist()
        found = k_nearest(lambda asked: self._search(query, asked, named), k, None, MOST)
        return nearest_of(self._search(query, MOST, named).hits, k) if found is None else found

    def _search(self, query: Vector, limit: int, rows: Sequence[int] | None) -> Found:
        """Return the nearest chunks by their own vectors. Where a graph finds too few, all are compared."""
        limit, values = min(limit, MOST), query.tolist()
        ef = None if self._settings.ef is None or rows is not None else max(self._settings.ef, _EF_FOR_EACH * limit)
        sources = self._documents.nearest(self._vectors, values, limit, ef, rows)
        if len(sources) < limit and ef is not None:
            sources = self._documents.nearest(self._vectors, values, limit, None, rows)
        scores = self._cosines(query, sources)
        best: dict[int, float] = {}
        for source, score in zip(sources, scores.tolist(), strict=True):
            best[source[ROW]] = max(score, best.get(source[ROW], -np.inf))
        lowest = float(scores.min()) + _ERROR if len(scores) else 0.0
        return Found([*best.items()], len(sources) < limit, lowest)

    def _cosines(self, query: Vector, sources: Sequence[Source]) -> NDArray[np.float32]:
        table = VectorTable(self._matrix([self._vector(source) for source in sources]))
        return exact.similarities(table, query, np.arange(len(sources), dtype=np.int64))

    def _matrix(self, vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        empty = np.zeros((0, self._settings.dimension), np.float32)
        return np.concatenate([empty, *(vector[None] for vector in vectors)])

    def _vector(self, source: Source) -> NDArray[np.float32]:
        """Return a vector [d].

        Raises:
            RemoteDataError: it is of another dimension.
        """
        content = bytes_of(source.get(VECTOR, ""))
        if len(content) != 4 * self._settings.dimension or not isinstance(source.get(ROW), int):
            raise RemoteDataError(
                "a chunk's vector in the OpenSearch server is damaged; run `citelock generations repair`"
            )
        return np.frombuffer(content, "<f4").astype(np.float32)
