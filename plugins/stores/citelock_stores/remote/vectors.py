"""Dense search by the database, and the vectors of chunks and sentences that it hands out.

Belongs here: from the database's rows to a catalog's, cosines of what was fetched.
Does not belong here: the search itself (the backends), cosines (`indexes.exact`, `indexes.sentence_vectors`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from citelock_stores.remote.protocol import RemoteReader
from citelock_stores.remote.rows import RowNumbers
from rag_serving.indexes import exact
from rag_serving.indexes.databases import RemoteDataError
from rag_serving.indexes.exact import VectorTable
from rag_serving.indexes.hits import Hit, best
from rag_serving.indexes.parts import Mask, Rows, Vector
from rag_serving.indexes.readable_rows import Readable
from rag_serving.indexes.sentence_vectors import SentenceVectors, record_type
from rag_serving.indexes.window_map import WindowMap


class RemoteDense:
    """The vectors of a catalog's chunks. Safe to use from several threads."""

    problems: tuple[str, ...] = ()

    def __init__(self, reader: RemoteReader, numbers: RowNumbers) -> None:
        self._reader, self._numbers = reader, numbers

    def search(
        self, vector: Vector, k: int, _: frozenset[str], readable: Readable, among: Mask | None = None
    ) -> list[Hit]:
        """Return the k nearest rows by cosine similarity to `vector` [d], best first, of those in `among`."""
        mask = readable.limits if among is None else readable.mask & among
        rows = readable.rows if mask is None else np.flatnonzero(mask)
        k = min(k, len(rows))
        if k <= 0:
            return []
        vector = np.ascontiguousarray(vector, np.float32)
        asked = k + len(self._numbers.refused)
        found = self._reader.nearest(vector, asked, None if mask is None else self._numbers.outward(rows))
        used = self._numbers.used(found.rows)
        return best(self._numbers.inward(found.rows[used]), np.asarray(found.scores, np.float32)[used], k)

    def similarities(self, vector: Vector, rows: Rows) -> NDArray[np.float32]:
        """Return the cosine similarity [n] of some rows to `vector` [d], of each its nearest vector's."""
        return exact.similarities(self._table(rows), vector, np.arange(len(rows), dtype=np.int64))

    def mean(self, rows: Rows) -> NDArray[np.float32]:
        """Return one L2-normalized vector for each of some rows [n, d]: the mean of its windows."""
        return self._table(rows).mean(np.arange(len(rows), dtype=np.int64))

    def close(self) -> None:
        """Hold nothing: connections are the store's."""

    def _table(self, rows: Rows) -> VectorTable:
        """Return the vectors of some rows, as if there were no others."""
        if not len(rows):
            return VectorTable(np.zeros((0, 0), np.float32))
        counts, vectors = self._reader.vectors(self._numbers.outward(rows).tolist())
        if len(counts) != len(rows) or int(counts.sum()) != len(vectors) or counts.min() < 1:
            raise RemoteDataError("the database lacks vectors of a passage that it lists; publish the pages again")
        return VectorTable(np.ascontiguousarray(vectors, np.float32), None, WindowMap(np.asarray(counts, np.int64)))


class RemoteSentences:
    """The sentence vectors of a catalog's chunks. Safe to use from several threads."""

    def __init__(self, reader: RemoteReader, numbers: RowNumbers, dimension: int) -> None:
        self._reader, self._numbers, self._kind = reader, numbers, record_type(dimension)

    def similarities(self, vector: Vector, chunks: Sequence[int], texts: Sequence[str]) -> list[float | None]:
        """Return the cosine similarity to `vector` [d] of texts that are sentences of some rows; None for others."""
        return self._of(chunks).similarities(vector, range(len(chunks)), texts)

    def best(self, vector: Vector, chunks: Sequence[int]) -> NDArray[np.float64]:
        """Return the similarity to `vector` [d] of each row's heading path and nearest sentence [n, 2]; NaN where no
        vector is stored."""
        return self._of(chunks).best(vector, range(len(chunks)))

    def _of(self, rows: Sequence[int]) -> SentenceVectors:
        """Return the sentence vectors of some rows, numbered by their place among these."""
        numbers = self._numbers.outward(list(rows)).tolist()
        table = self._reader.sentences(sorted(set(numbers))) if numbers else None
        stored: dict[int, bytes] = {}
        if table is not None:
            stored = dict(zip(table["row"].to_pylist(), table["records"].to_pylist(), strict=True))
        if not stored.keys() <= set(numbers) or any(len(found) % self._kind.itemsize for found in stored.values()):
            raise RemoteDataError("sentence vectors of the database are damaged; publish the pages again")
        records = [np.frombuffer(stored.get(number, b""), self._kind) for number in numbers]
        borders = np.cumsum([0, *map(len, records)]).astype(np.int64)
        whole = np.concatenate(records) if records else np.zeros(0, self._kind)
        return SentenceVectors(whole, borders, np.arange(len(whole), dtype=np.int64))
