"""Digests of what a table says, whatever its layout in memory.

Belongs here: SHA-256 over the values of Arrow columns, block by block, without a Python object for each.
Does not belong here: which columns identify a generation (`arrange`, `lexical_writer`), digests of files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.artifacts.contents import Hasher

_BLOCK = 65_536  # rows; the digest depends on it


def values_digest(table: pa.Table) -> str:
    """Return the SHA-256 of names, types and values, columns in the order of their names."""
    hasher = hashlib.sha256()
    for name in sorted(table.column_names):
        column = table[name]
        hasher.update(f"{name}\x1f{column.type}\x1f{len(column)}\x1e".encode())
        for start in range(0, len(column), _BLOCK):
            for part in _values(_whole(column.slice(start, _BLOCK))):
                _add(hasher, part)
    return hasher.hexdigest()


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _values(array: pa.Array) -> Iterator[pa.Array]:
    """Yield arrays of numbers and one of texts that tell an array: which values are null, how long lists and texts are,
    and what is in them."""
    if array.null_count:
        yield pc.cast(pc.is_valid(array), pa.uint8())
        array = array.drop_null()
    kind = array.type
    if pa.types.is_list(kind):
        yield pc.list_value_length(array)
        yield from _values(array.flatten())
    elif pa.types.is_struct(kind):
        for field in array.flatten():
            yield from _values(field)
    elif pa.types.is_string(kind):
        yield pc.binary_length(array)
        yield array
    elif pa.types.is_boolean(kind):
        yield pc.cast(array, pa.uint8())
    elif not pa.types.is_null(kind):
        yield array.view(pa.int64()) if pa.types.is_timestamp(kind) else array


def _add(hasher: Hasher, array: pa.Array) -> None:
    """Add the bytes of an array without nulls, and how many there are."""
    if pa.types.is_string(array.type):
        _, offsets, data = array.buffers()
        content = memoryview(b"")
        if len(array):
            borders = memoryview(offsets).cast("B").cast("i")
            content = memoryview(data or b"")[borders[array.offset] : borders[array.offset + len(array)]]
    else:
        width = array.type.bit_width // 8
        content = memoryview(array.buffers()[1] or b"")[array.offset * width : (array.offset + len(array)) * width]
    hasher.update(len(content).to_bytes(8, "little"))
    hasher.update(content)
