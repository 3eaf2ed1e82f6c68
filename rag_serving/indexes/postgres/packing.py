"""Arrays and tables as the columns of the database hold them.

Belongs here: both directions, for the publisher and for readers. Does not belong here: statements (`reader`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_serving.indexes.remote.errors import RemoteDataError

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


def pack_numbers(numbers: NDArray[np.int32]) -> bytes:
    """Return 32-bit numbers, little endian."""
    return numbers.astype("<i4").tobytes()


def unpack_numbers(packed: bytes) -> NDArray[np.int32]:
    """Return the numbers of `pack_numbers`."""
    return np.frombuffer(packed, "<i4").astype(np.int32)


def pack_table(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream, compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpack_tables(packed: Iterable[bytes], schema: pa.Schema, order: Sequence[str]) -> pa.Table:
    """Return tables of one schema in one, by some of its columns, ascending.

    Raises:
        RemoteDataError: one cannot be read, or has other columns.
    """
    try:
        tables = [pa.ipc.open_stream(content).read_all() for content in packed]
    except (pa.ArrowException, OSError) as error:
        raise RemoteDataError("a catalog of the database cannot be read; publish the generation again") from error
    if any(not table.schema.equals(schema) for table in tables):
        raise RemoteDataError("a catalog of the database is of another version; publish the generation again")
    whole = pa.concat_tables(tables) if tables else schema.empty_table()
    return whole.sort_by([(name, "ascending") for name in order]).combine_chunks().replace_schema_metadata(None)


def term_hash(term: str) -> int:
    """Return the number that a term is found by: 64 bits with a sign."""
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)
