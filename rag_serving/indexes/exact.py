"""Exact search over a generation's vectors: what answers, and what the recall of Chroma is measured against.

Belongs here: the vectors in `vectors.npy` and their codes, of several parts as of one; cosine similarity row by row.
Does not belong here: bounds that spare most rows (`quantization`), ties and ranks (`hits`), which vectors belong to
which row (`window_map`), the rows of a part (`generation_parts`).

A row with a vector for each of its windows is as similar as the nearest of them. A vector in a part is read, and a
bound computed, as in one array: what a search finds is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_serving.artifacts.contents import array_of
from rag_serving.indexes.hits import Hit, best
from rag_serving.indexes.quantization import Bounds, Codes
from rag_serving.indexes.window_map import WindowMap

Vectors = NDArray[np.float32]


class JoinedVectors:
    """Arrays of vectors [n, d], one after the other; copied only on demand."""

    def __init__(self, parts: Sequence[Vectors]) -> None:
        """`parts`: at least one."""
        self.parts = tuple(parts)
        self._ends = np.cumsum([len(part) for part in parts])
        self._starts: list[int] = [0, *self._ends[:-1].tolist()]
        self.shape = (int(self._ends[-1]), parts[0].shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, places: int | slice | Sequence[int] | NDArray[np.int64]) -> Vectors:
        """Return a vector [d], or the vectors at some places [n, d]; those of a slice within one part are not
        copied."""
        if isinstance(places, slice):
            return self._run(*places.indices(len(self))[:2])
        numbers = np.asarray(places, np.int64)
        owners = np.searchsorted(self._ends, numbers, side="right")
        if numbers.ndim == 0:
            vector: Vectors = self.parts[int(owners)][int(numbers) - self._starts[int(owners)]]
            return vector
        found = np.empty((len(numbers), self.shape[1]), np.float32)
        for owner in np.flatnonzero(np.bincount(owners)).tolist():
            own = owners == owner
            found[own] = self.parts[owner][numbers[own] - self._starts[owner]]
        return found

    def _run(self, first: int, last: int) -> Vectors:
        """Return the vectors from one place to before another."""
        pieces = [
            part[max(first - start, 0) : last - start]
            for part, start in zip(self.parts, self._starts, strict=True)
            if start < last and first < start + len(part)
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate([self.parts[0][:0], *pieces])


class JoinedCodes:
    """The codes of arrays of vectors, one after the other. Safe to use from several threads."""

    def __init__(self, parts: Sequence[Codes]) -> None:
        self._parts = tuple(parts)

    def prepare(self) -> None:
        """Make the codes of every part ready to be searched; raises CodesError if one cannot be multiplied."""
        for part in self._parts:
            part.prepare()

    @property
    def is_prepared(self) -> bool:
        """Return whether the codes of every part are copied."""
        return all(part.is_prepared for part in self._parts)

    def bounds(self, vector: Vectors) -> Bounds:
        """Return lower and upper bounds [n] of the similarity of every row to `vector` [d]."""
        lower, upper = zip(*(part.bounds(vector) for part in self._parts), strict=True)
        return np.concatenate(lower), np.concatenate(upper)


FILE = "vectors.npy"
_FEW = 1024  # so many rows are sooner compared than bounded
_FEWER = 40  # so is one row in so many, because bounds come for all rows
_BLOCK = 65_536
_TINY = np.finfo(np.float32).tiny


class VectorsError(Exception):
    """The vectors of a folder cannot be read or are not what was expected."""


def vectors_of(data: memoryview, rows: int, dimension: int) -> Vectors:
    """Return the vectors [rows, dimension] in the bytes of `vectors.npy`, not copied.

    Raises:
        VectorsError: they are incomplete, or of another shape.
    """
    if not rows:
        return np.zeros((0, dimension), dtype=np.float32)
    try:
        vectors: Vectors = array_of(data)
    except ValueError as error:
        raise VectorsError(f"{FILE} cannot be read ({error})") from error
    if vectors.shape != (rows, dimension) or vectors.dtype != np.float32:
        raise VectorsError(
            f"{FILE} holds {vectors.shape} of {vectors.dtype}, expected ({rows}, {dimension}) of float32"
        )
    return vectors


class VectorTable(NamedTuple):
    """The L2-normalized vectors [vectors, d] of a generation, their quantized codes, and which belong to which row."""

    vectors: Vectors | JoinedVectors
    codes: Codes | JoinedCodes | None = None
    windows: WindowMap | None = None  # None: every row has one

    @property
    def rows(self) -> int:
        """Return how many rows have vectors."""
        return len(self.vectors) if self.windows is None else len(self.windows)

    @property
    def parts(self) -> tuple[Vectors, ...]:
        """Return the arrays that the vectors are stored in."""
        return self.vectors.parts if isinstance(self.vectors, JoinedVectors) else (self.vectors,)

    def mean(self, rows: NDArray[np.int64]) -> Vectors:
        """Return one vector for each of some rows [n, d]: the mean of its windows, of length one again."""
        if self.windows is None:
            return self.vectors[rows]
        places, starts = self.windows.places(rows)
        found = self.vectors[places]
        if not len(rows):
            return found
        means, several = found[starts], self.windows.counts[rows] > 1
        sums = np.add.reduceat(found, starts, axis=0)[several]
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        means[several] = np.where(lengths > 0, sums / np.maximum(lengths, _TINY), means[several])
        return means


def similarities(table: VectorTable, vector: Vectors, rows: NDArray[np.int64]) -> Vectors:
    """Return cosine similarity of some rows to `vector` [d]: of each its nearest vector's."""
    vector = np.asarray(vector, dtype=np.float32)
    if table.windows is None:
        return _cosines(table.vectors, vector, rows)
    scores = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        places, starts = table.windows.places(rows[part])
        np.maximum.reduceat(_cosines(table.vectors, vector, places), starts, out=scores[part])
    return scores


def _cosines(vectors: Vectors | JoinedVectors, vector: Vectors, places: NDArray[np.int64]) -> Vectors:
    """Return the cosine similarity of the vectors at some places to `vector` [d].

    Each is summed alone: equal vectors get equal scores at every place, which BLAS does not guarantee. Nor does this
    start BLAS's threads, which would compete when several questions are answered.
    """
    scores = np.empty(len(places), np.float32)
    for start in range(0, len(places), _BLOCK):
        part = slice(start, start + _BLOCK)
        np.einsum("ij,j->i", vectors[places[part]], vector, out=scores[part])
    return scores


def search(table: VectorTable, vector: Vectors, k: int, rows: NDArray[np.int64] | None = None) -> list[Hit]:
    """Return the k most similar of `rows` (ascending; None: all), best first.

    With the vectors' codes most rows are left out by their bounds; the result is the same to the last bit.
    """
    rows = np.arange(table.rows, dtype=np.int64) if rows is None else rows
    if table.codes and k > 0 and len(rows) > max(k, _FEW, table.rows // _FEWER):
        rows = rows[_possible(_bounds(table.codes, table.windows, vector), rows, k)]
    return best(rows, similarities(table, vector, rows), k)


def _bounds(codes: Codes | JoinedCodes, windows: WindowMap | None, vector: Vectors) -> Bounds:
    """Return bounds of the similarity of every row: the largest of its windows is between the largest of their
    bounds."""
    lower, upper = codes.bounds(vector)
    return (lower, upper) if windows is None else (windows.best(lower), windows.best(upper))


def _possible(bounds: Bounds, rows: NDArray[np.int64], k: int) -> NDArray[np.bool_]:
    """Return which of the rows may be among the k best."""
    lower, upper = bounds if len(rows) == len(bounds[0]) else (bounds[0][rows], bounds[1][rows])
    possible: NDArray[np.bool_] = upper >= np.partition(lower, len(lower) - k)[len(lower) - k]
    return possible
