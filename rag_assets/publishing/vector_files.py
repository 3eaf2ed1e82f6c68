"""The files of a generation's vectors: the vectors themselves, and the codes that bound their similarities.

Belongs here: writing both, and reading vectors to build from. Does not belong here: searching (`rag_serving.indexes`).
"""

from __future__ import annotations

import os
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
    facts = np.empty((3, count), np.float32)
    with (folder / CODES_FILE).open("wb") as file:
        header = {"descr": "|i1", "fortran_order": False, "shape": (dimension, count)}
        np.lib.format.write_array_header_1_0(file, header)
        file.flush()
        begin = file.tell()
        for start in range(0, count, _WRITTEN):
            part = slice(start, start + _WRITTEN)
            codes, facts[:, part] = _coded_blocks(vectors[part])
            let_go(vectors)
            for number, row in enumerate(codes):
                _write_at(file.fileno(), row.data, begin + number * count + start)
    with (folder / FACTS_FILE).open("wb") as file:
        np.save(file, facts, allow_pickle=False)


def _write_at(handle: int, data: memoryview, place: int) -> None:
    """Write all bytes at a place of an open file."""
    while len(data):
        written = os.pwrite(handle, data, place)
        data, place = data[written:], place + written


def _coded_blocks(vectors: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return codes [d, n] and facts [3, n] of vectors [n, d], some of which are coded at once."""
    count, dimension = vectors.shape
    codes, facts = np.empty((dimension, count), np.int8), np.empty((3, count), np.float32)
    for start in range(0, count, _BLOCK):
        part = slice(start, start + _BLOCK)
        codes[:, part], facts[:, part] = _coded(np.asarray(vectors[part], np.float32))
    return codes, facts


def _coded(vectors: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return codes [d, n] and facts [3, n] of vectors [n, d]; one array is used for every step."""
    largest = np.maximum(vectors.max(axis=1, initial=0), -vectors.min(axis=1, initial=0))
    scales = np.where(largest > 0, largest, 1).astype(np.float32) / np.float32(_LEVELS)
    steps = vectors / scales[:, None]
    np.rint(steps, out=steps)
    codes = steps.astype(np.int8)
    steps *= scales[:, None]
    lengths = _lengths(steps)
    np.subtract(vectors, steps, out=steps)
    return np.ascontiguousarray(codes.T), np.stack([scales, _lengths(steps), lengths]).astype(np.float32)


def _lengths(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths: NDArray[np.float32] = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return lengths
