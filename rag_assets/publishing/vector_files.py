"""The files of a generation's vectors: the vectors themselves, and the codes that bound their similarities.

Belongs here: writing both, and reading vectors to build from. Does not belong here: searching (`rag_serving.indexes`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rag_serving.artifacts.contents import let_go, map_file
from rag_serving.indexes.exact import FILE, Vectors, VectorsError, vectors_of
from rag_serving.indexes.quantization import CODES_FILE, FACTS_FILE

_LEVELS = 127
_BLOCK = 1024  # vectors that are coded at once: what is computed of them stays in the processor's cache
_WRITTEN = 65_536  # vectors after which the memory of mapped ones is let go


def save_vectors(folder: Path, vectors: Vectors) -> None:
    """Write L2-normalized vectors [n, d] into a folder, under their final name only when complete."""
    temporary = folder / f".{FILE}"
    with temporary.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": vectors.shape}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(vectors), _WRITTEN):
            file.write(np.ascontiguousarray(vectors[start : start + _WRITTEN], dtype="<f4").data)
            let_go(vectors)
    temporary.replace(folder / FILE)


def load_vectors(folder: Path, rows: int, dimension: int) -> Vectors:
    """Return the vectors [rows, dimension] of a folder, memory-mapped.

    Raises:
        VectorsError: missing, truncated, or of another shape.
    """
    path = folder / FILE
    try:
        return vectors_of(map_file(path) if rows else memoryview(b""), rows, dimension)
    except OSError as error:
        raise VectorsError(f"{path} cannot be read ({error})") from error


def save_codes(folder: Path, vectors: NDArray[np.float32]) -> None:
    """Write the codes [d, n] of vectors [n, d], and per row its scale, its error and its code's length [3, n]."""
    count, dimension = vectors.shape
    if not count:
        return
    codes = np.lib.format.open_memmap(folder / CODES_FILE, "w+", np.int8, (dimension, count))
    facts = np.empty((3, count), np.float32)
    for start in range(0, count, _BLOCK):
        part = slice(start, start + _BLOCK)
        codes[:, part], facts[:, part] = _coded(np.asarray(vectors[part], np.float32))
        if not start % _WRITTEN:
            let_go(vectors)
    codes.flush()
    with (folder / FACTS_FILE).open("wb") as file:
        np.save(file, facts, allow_pickle=False)


def _coded(vectors: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Codes [d, n] and facts [3, n] of vectors [n, d]."""
    largest = np.abs(vectors).max(axis=1)
    scales = np.where(largest > 0, largest, 1).astype(np.float32) / np.float32(_LEVELS)
    codes = np.rint(vectors / scales[:, None]).astype(np.int8)
    decoded = codes * scales[:, None]
    errors, lengths = np.linalg.norm(vectors - decoded, axis=1), np.linalg.norm(decoded, axis=1)
    return np.ascontiguousarray(codes.T), np.stack([scales, errors, lengths]).astype(np.float32)
