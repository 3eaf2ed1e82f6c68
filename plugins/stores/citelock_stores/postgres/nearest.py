"""The nearest vectors of a generation: exact where few rows may be read, else by HNSW and compared again.

Belongs here: statements and settings of the search by similarity. Does not belong here: fusion with words.

An HNSW index holds all rows of a generation; row policies drop those that are hidden while it is walked, and the walk
goes on until there are enough (`hnsw.iterative_scan`). Where a caller may read few of the rows, or filters leave few,
all of them are compared instead. Scores are computed here from the stored vectors, as for a generation on disk.

A filter does not steer the walk, which would end among the first rows that pass, however near they are. The thousand
nearest rows are asked for, and those that pass are the nearest of the filter's where there are enough. Else what the
filter leaves is far from the question, and is compared row by row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from citelock_stores.postgres.generations import StoredGeneration
from citelock_stores.postgres.packing import unpack_vectors, vector_text
from citelock_stores.remote.protocol import Nearest, Rows, Vector
from rag_serving.config.index import Index

_SPARE = 16  # candidates beyond k whose order the database, with other rounding, may see otherwise
_MOST_CANDIDATES = 1000  # pgvector's limit of hnsw.ef_search
_WALKED = 1000  # rows that a walk is worth: candidates that are looked at, each some times as dear as a comparison
_WHERE = "tenant_id = %s AND placement = %s AND generation = %s AND embedding IS NOT NULL"
_AMONG = ' AND "row" = ANY(%s::int[])'
_IN_BITMAP = ' AND get_bit(%s::bytea, "row") = 1'


class Read(Protocol):
    """Run a statement in the reader's name, with settings of its transaction."""

    def __call__(
        self, statement: str, values: Sequence[object], local: Mapping[str, str] | None = None
    ) -> list[tuple[Any, ...]]: ...


class _Filter(NamedTuple):
    """A condition that some rows fulfil, and its value."""

    condition: str
    value: object


class NearestSearch:
    """Searches one generation by similarity in one reader's name."""

    def __init__(self, stored: StoredGeneration, settings: Index, read: Read) -> None:
        self._stored, self._settings, self._read = stored, settings, read

    def nearest(self, vector: Vector, k: int, readable: int, among: Rows | None = None) -> Nearest:
        """Return the k nearest chunks of `readable` ones, of those in `among`, best first."""
        available = readable if among is None else min(readable, len(among))
        if k <= 0 or not available:
            return _none()
        if among is not None and len(among) >= self._stored.chunks:  # names every row there is
            among = None
        by_index = self._stored.ann != "none" and available >= self._fewest(among is not None)
        rows = None
        if among is not None:
            rows = _Filter(_IN_BITMAP, self._bitmap(among)) if by_index else _Filter(_AMONG, among.tolist())
        best: dict[int, float] = {}
        for table in ["document_chunks", *(["chunk_windows"] if self._stored.windows else [])]:
            for row, score in self._of_table(table, vector, (k, available), rows, by_index):
                best[row] = max(score, best.get(row, -np.inf))
        return _best(best, k)

    def _fewest(self, is_filtered: bool) -> int:
        """Return from how many rows on the index is walked. A walk costs as much as _WALKED / share comparisons, where
        a filter leaves that share of all rows."""
        few = self._settings.ann_chunks
        return min(few, math.isqrt(_WALKED * self._stored.chunks)) if is_filtered else few

    def _bitmap(self, rows: Rows) -> bytes:
        """Return a bit for each chunk, set for some: many numbers, one by one, take much longer to send and to read."""
        bits = np.zeros(self._stored.chunks, np.bool_)
        bits[rows[(rows >= 0) & (rows < len(bits))]] = True
        return np.packbits(bits, bitorder="little").tobytes()

    def _of_table(
        self, table: str, vector: Vector, size: tuple[int, int], among: _Filter | None, by_index: bool
    ) -> list[tuple[int, float]]:
        """Return rows of a table with their similarities: the nearest of k different ones at least, `size`: k, and how
        many there may be."""
        k, available = size
        if by_index and among:
            found = self._passing(table, vector, among)
            if len({row for row, _ in found}) >= min(k, available):
                return self._scored(found, vector)
            by_index = False
        limit = (2 if by_index else 1) * k + _SPARE
        while True:
            found = self._candidates(table, vector, limit, among, by_index)
            different = len({row for row, _ in found})
            if len(found) < limit or different >= min(k, available):
                return self._scored(found, vector)
            limit *= 2  # several windows of one chunk stand among the nearest

    def _candidates(
        self, table: str, vector: Vector, limit: int, among: _Filter | None, by_index: bool
    ) -> list[tuple[int, bytes]]:
        statement = (
            f'SELECT "row", vector_send(embedding) FROM citelock.{table} WHERE {_WHERE}'
            f"{among.condition if among else ''} ORDER BY {self._distance(by_index)} LIMIT %s"
        )
        values = [*self._stored.key, *([among.value] if among else []), vector_text(vector), limit]
        candidates = max(self._settings.ef_search, limit)
        found: list[Any] = self._read(statement, values, self._walk(candidates) if by_index else None)
        return found

    def _passing(self, table: str, vector: Vector, among: _Filter) -> list[tuple[int, bytes]]:
        """Return those of the nearest rows that pass a filter by a bitmap."""
        statement = (
            f'SELECT "row", CASE WHEN true{among.condition} THEN vector_send(embedding) END FROM citelock.{table} '
            f"WHERE {_WHERE} ORDER BY {self._distance(True)} LIMIT %s"
        )
        values = [among.value, *self._stored.key, vector_text(vector), _MOST_CANDIDATES]
        found: list[Any] = self._read(statement, values, self._walk(_MOST_CANDIDATES))
        return [(row, packed) for row, packed in found if packed is not None]

    def _distance(self, by_index: bool) -> str:
        """Return the distance of a row to a vector, in the words that the index is made for or in full precision."""
        kind, dimension = self._stored.ann, self._stored.dimension
        return (
            f"(embedding::{kind}({dimension})) <=> %s::{kind}({dimension})" if by_index else "embedding <=> %s::vector"
        )

    def _walk(self, candidates: int) -> dict[str, str]:
        """Return the settings of a walk through the index: on until there are enough, whatever policies drop."""
        return {
            "hnsw.ef_search": str(min(_MOST_CANDIDATES, candidates)),
            "hnsw.iterative_scan": "relaxed_order",
            "hnsw.max_scan_tuples": str(max(20_000, self._stored.chunks)),
            "enable_seqscan": "off",  # estimates know nothing of values: no statistics are kept of them
            "enable_sort": "off",
        }

    def _scored(self, found: list[tuple[int, bytes]], vector: Vector) -> list[tuple[int, float]]:
        if not found:
            return []
        vectors = unpack_vectors([packed for _, packed in found], self._stored.dimension)
        scores = vectors @ np.asarray(vector, np.float32)
        return list(zip([row for row, _ in found], scores.tolist(), strict=True))


def _best(scores: Mapping[int, float], k: int) -> Nearest:
    """Return the k best rows, equal ones in row order."""
    rows = np.fromiter(scores.keys(), np.int64, len(scores))
    values = np.fromiter(scores.values(), np.float32, len(scores))
    order = np.lexsort((rows, -values))[:k]
    return Nearest(rows[order], values[order])


def _none() -> Nearest:
    return Nearest(np.zeros(0, np.int64), np.zeros(0, np.float32))
