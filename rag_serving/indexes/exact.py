"""Exact search over a generation's vectors: what answers, and what the recall of Chroma is measured against.

Belongs here: the vectors in `vectors.npy`, cosine similarity row by row.
Does not belong here: bounds that spare most rows (`quantization`), ties and ranks (`hits`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rag_serving.artifacts.contents import array_of
from rag_serving.indexes.hits import Hit, best
from rag_serving.indexes.quantization import Bounds, Codes

Vectors = NDArray[np.float32]
FILE = "vectors.npy"
_FEW = 1024  # so many rows are sooner compared than bounded
_FEWER = 40  # so is one row in so many, because bounds come for all rows
_BLOCK = 65_536


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


def similarities(vectors: Vectors, vector: Vectors, rows: NDArray[np.int64]) -> Vectors:
    """Return cosine similarity of some rows of normalized `vectors` [n, d] to `vector` [d].

    Each row is summed alone: equal vectors get equal scores wherever they stand, which BLAS does not promise. Nor does
    this start BLAS's threads, which would be in each other's way where several questions are answered.
    """
    vector = np.asarray(vector, dtype=np.float32)
    scores = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        np.einsum("ij,j->i", vectors[rows[part]], vector, out=scores[part])
    return scores


def search(
    vectors: Vectors, vector: Vectors, k: int, rows: NDArray[np.int64] | None = None, codes: Codes | None = None
) -> list[Hit]:
    """Return the k most similar of `rows` (ascending; None: all), best first.

    With the vectors' codes most rows are left out by their bounds; the result is the same to the last bit.
    """
    rows = np.arange(len(vectors), dtype=np.int64) if rows is None else rows
    if codes and k > 0 and len(rows) > max(k, _FEW, len(vectors) // _FEWER):
        rows = rows[_possible(codes.bounds(vector), rows, k)]
    return best(rows, similarities(vectors, vector, rows), k)


def _possible(bounds: Bounds, rows: NDArray[np.int64], k: int) -> NDArray[np.bool_]:
    """Return which of the rows may be among the k best."""
    lower, upper = bounds if len(rows) == len(bounds[0]) else (bounds[0][rows], bounds[1][rows])
    possible: NDArray[np.bool_] = upper >= np.partition(lower, len(lower) - k)[len(lower) - k]
    return possible
