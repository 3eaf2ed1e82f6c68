"""Vectors as the columns of the database hold them.

Belongs here: both directions, for the publisher and for readers. Does not belong here: statements (`reader`), what
other databases hold in the same form (`remote.packing`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes.databases import RemoteDataError

_VECTOR_HEADER = 4  # bytes of vector_send before the components: dimension and an unused number, 16 bits each


def pack_vectors(vectors: NDArray[np.float32]) -> list[bytes]:
    """Return vectors [n, d] as pgvector's binary form, one each."""
    header = np.array([vectors.shape[1], 0], ">u2").tobytes()
    return [header + row.tobytes() for row in vectors.astype(">f4")]


def unpack_vectors(packed: Sequence[bytes], dimension: int) -> NDArray[np.float32]:
    """Return vectors [n, d] of pgvector's binary form.

    Raises:
        RemoteDataError: one has another dimension.
    """
    size = _VECTOR_HEADER + 4 * dimension
    if any(len(vector) != size for vector in packed):
        raise RemoteDataError("a stored vector has another dimension than its generation; publish it again")
    joined = np.frombuffer(b"".join(packed), np.uint8).reshape(len(packed), size)[:, _VECTOR_HEADER:]
    return np.ascontiguousarray(joined).view(">f4").astype(np.float32)


def vector_text(vector: NDArray[np.float32]) -> str:
    """Return one vector [d] as pgvector reads it from text, to the last bit."""
    return "[" + ",".join(f"{value:.9g}" for value in vector.tolist()) + "]"
