"""Exact search over a generation's vectors: what answers, and what the recall of Chroma is measured against.

Belongs here: the vectors in `vectors.npy`, cosine similarity row by row.
Does not belong here: vectors in parts (`joined`), bounds that spare most rows (`quantization`), ties and ranks
(`hits`), which vectors belong to which row (`window_map`).

A row with a vector for each of its windows is as similar as the nearest of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_serving.artifacts.arrays import array_of
from rag_serving.indexes.hits import Hit, best
from rag_serving.indexes.joined import JoinedCodes, JoinedVectors
from rag_serving.indexes.quantization import Bounds, Codes
from rag_serving.indexes.window_map import WindowMap

Vectors = NDArray[np.float32]
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
    """Return cosine similarity of the vectors at some places to `vector` [d].

    Each is summed alone: equal vectors get equal scores wherever they stand, which BLAS does not promise. Nor does
    this start BLAS's threads, which would be in each other's way where several questions are answered.
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
    """Return between what the similarity of every row lies: the largest lies between the largest of the bounds."""
    lower, upper = codes.bounds(vector)
    return (lower, upper) if windows is None else (windows.best(lower), windows.best(upper))


def _possible(bounds: Bounds, rows: NDArray[np.int64], k: int) -> NDArray[np.bool_]:
    """Return which of the rows may be among the k best."""
    lower, upper = bounds if len(rows) == len(bounds[0]) else (bounds[0][rows], bounds[1][rows])
    possible: NDArray[np.bool_] = upper >= np.partition(lower, len(lower) - k)[len(lower) - k]
    return possible
