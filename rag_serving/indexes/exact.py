"""Exact search over a generation's vectors: what recall is measured against, and what answers when Chroma cannot.

Belongs here: `vectors.npy`, reading it memory-mapped, brute-force cosine similarity.
Does not belong here: ties and ranks (`hits`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes.hits import Hit, best

Vectors = NDArray[np.float32]
FILE = "vectors.npy"


class VectorsError(Exception):
    """The vectors of a folder cannot be read or are not what was expected."""


def save_vectors(folder: Path, vectors: Vectors) -> None:
    """Write L2-normalized vectors [n, d] into a folder, under their final name only when complete."""
    temporary = folder / f".{FILE}"
    with temporary.open("wb") as file:
        np.save(file, np.ascontiguousarray(vectors, dtype=np.float32), allow_pickle=False)
    temporary.replace(folder / FILE)


def load_vectors(folder: Path, rows: int, dimension: int) -> Vectors:
    """The vectors [rows, dimension] of a folder, memory-mapped.

    Raises:
        VectorsError: missing, truncated, or of another shape.
    """
    if not rows:
        return np.zeros((0, dimension), dtype=np.float32)
    path = folder / FILE
    try:
        vectors: Vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise VectorsError(f"{path} cannot be read ({error})") from error
    if vectors.shape != (rows, dimension) or vectors.dtype != np.float32:
        raise VectorsError(
            f"{path} holds {vectors.shape} of {vectors.dtype}, expected ({rows}, {dimension}) of float32"
        )
    return vectors


def similarities(vectors: Vectors, vector: Vectors, rows: NDArray[np.int64] | None = None) -> Vectors:
    """Cosine similarity of normalized `vectors` [n, d], or of some of their rows, to `vector` [d].

    Rounded to six decimals: equal vectors must tie, and BLAS sums in an order that depends on the row's position.
    """
    vector = np.asarray(vector, dtype=np.float32)
    if rows is None:
        scores = vectors @ vector
    elif len(rows) * 4 > len(vectors):
        scores = (vectors @ vector)[rows]
    else:
        scores = np.einsum("ij,j->i", vectors[rows], vector)  # waking BLAS threads costs more than a few rows
    rounded: Vectors = np.round(scores, 6)
    return rounded


def search(vectors: Vectors, vector: Vectors, k: int, rows: NDArray[np.int64] | None = None) -> list[Hit]:
    """The k most similar of `rows` (ascending; None: all), best first."""
    candidates = np.arange(len(vectors), dtype=np.int64) if rows is None else rows
    return best(candidates, similarities(vectors, vector, rows), k)
