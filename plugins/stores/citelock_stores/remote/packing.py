"""Numbers, tables, terms and bytes in the form in which several databases hold them.

Belongs here: both directions, for publishers and for readers. Does not belong here: forms of one database alone
(`postgres.packing`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_serving.indexes.databases import RemoteDataError


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


def text_of(content: bytes) -> str:
    """Return bytes as JSON can hold them."""
    return base64.b64encode(content).decode("ascii")


def bytes_of(text: str) -> bytes:
    """Return the bytes of a text.

    Raises:
        RemoteDataError: it is no base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise RemoteDataError(
            f"bytes in the database are damaged ({error}); run `citelock generations repair`"
        ) from error
