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
_FEW = 256
_ROUGHNESS = 1e-5


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


def similarities(vectors: Vectors, vector: Vectors, rows: NDArray[np.int64]) -> Vectors:
    """Cosine similarity of some rows of normalized `vectors` [n, d] to `vector` [d].

    Each row is summed alone: equal vectors get equal scores wherever they stand, which BLAS does not promise. For a few
    rows it is also faster than waking BLAS's threads.
    """
    scores: Vectors = np.einsum("ij,j->i", vectors[rows], np.asarray(vector, dtype=np.float32))
    return scores


def search(vectors: Vectors, vector: Vectors, k: int, rows: NDArray[np.int64] | None = None) -> list[Hit]:
    """The k most similar of `rows` (ascending; None: all), best first."""
    rows = np.arange(len(vectors), dtype=np.int64) if rows is None else rows
    if len(rows) > max(k, _FEW):
        rough = _rough(vectors, np.asarray(vector, dtype=np.float32), rows)
        kth = np.partition(rough, len(rows) - k)[len(rows) - k] if k else np.inf
        rows = rows[rough >= kth - _ROUGHNESS]
    return best(rows, similarities(vectors, vector, rows), k)


def _rough(vectors: Vectors, vector: Vectors, rows: NDArray[np.int64]) -> Vectors:
    """The same similarities as BLAS computes them, right to about the sixth decimal."""
    if len(rows) * 4 > len(vectors):
        everything: Vectors = vectors @ vector
        return everything[rows]
    some: Vectors = vectors[rows] @ vector
    return some
