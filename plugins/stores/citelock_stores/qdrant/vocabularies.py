"""Vocabularies as the payloads of points have them.

Belongs here: packing and unpacking. Does not belong here: which terms there are (`postings`, the writer).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from citelock_stores.remote.packing import bytes_of, text_of
from rag_serving.indexes.databases import RemoteDataError

_PACKED = pa.schema([("term", pa.string()), ("number", pa.int32()), ("chunks", pa.int64())])


class PackedTerms(NamedTuple):
    """Terms of one reader class in code point order, the number of each, and how many chunks of the class have it."""

    terms: pa.Array
    numbers: pa.Array
    chunks: pa.Array


def pack_terms(terms: Sequence[str], numbers: Sequence[int], chunks: Sequence[int]) -> str:
    """Return terms with their numbers and chunks in a few characters."""
    arrays = [pa.array(values, field.type) for values, field in zip((terms, numbers, chunks), _PACKED, strict=True)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _PACKED, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_batch(pa.record_batch(arrays, schema=_PACKED))
    return text_of(sink.getvalue().to_pybytes())


def unpack_terms(packed: str) -> PackedTerms:
    """Return what was packed.

    Raises:
        RemoteDataError: it is damaged.
    """
    try:
        table = pa.ipc.open_stream(bytes_of(packed)).read_all()
        if table.schema != _PACKED or any(column.null_count for column in table.columns):
            raise ValueError("other columns")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RemoteDataError(
            f"a vocabulary in the Qdrant server is damaged ({error}); run `citelock generations repair`"
        ) from error
    return PackedTerms(*(column.combine_chunks() for column in table.columns))
