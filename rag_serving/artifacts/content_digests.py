"""Digests of what a table says, whatever its layout in memory.

Belongs here: SHA-256 over the values of Arrow columns, block by block, without a Python object for each.
Does not belong here: which columns identify a generation (`rag_assets.publishing.arrange`), digests of files
(`digests`).
"""

from __future__ import annotations

import hashlib

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
            _add(hasher, _whole(column.slice(start, _BLOCK)))
    return hasher.hexdigest()


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _add(hasher: Hasher, array: pa.Array) -> None:
    """Hash an array's type, length, null positions, lengths of lists and texts, and values."""
    kind = array.type
    hasher.update(f"{kind}\x1f{len(array)}\x1f{array.null_count}\x1e".encode())
    if array.null_count:
        _add_numbers(hasher, pc.cast(pc.is_valid(array), pa.uint8()))
        array = array.drop_null()
    if pa.types.is_list(kind):
        _add_numbers(hasher, pc.list_value_length(array))
        _add(hasher, array.flatten())
    elif pa.types.is_struct(kind):
        for field in array.flatten():
            _add(hasher, field)
    elif pa.types.is_string(kind):
        _add_numbers(hasher, pc.binary_length(array))
        hasher.update(_text(array))
    elif pa.types.is_boolean(kind):
        _add_numbers(hasher, pc.cast(array, pa.uint8()))
    elif not pa.types.is_null(kind):
        _add_numbers(hasher, array)


def _add_numbers(hasher: Hasher, array: pa.Array) -> None:
    """Add the bytes of numbers without nulls."""
    if len(array):
        width = array.type.bit_width // 8
        hasher.update(memoryview(array.buffers()[1])[array.offset * width : (array.offset + len(array)) * width])


def _text(array: pa.Array) -> memoryview:
    """Return the bytes of texts without nulls, one after the other."""
    _, offsets, data = array.buffers()
    if not len(array) or data is None:
        return memoryview(b"")
    borders = memoryview(offsets).cast("B").cast("i")
    return memoryview(data)[borders[array.offset] : borders[array.offset + len(array)]]
