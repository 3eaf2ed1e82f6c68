"""Cells of Arrow columns as Python values and numpy arrays, read from the columns' own memory. A column may be in
several chunks, which are never joined if they are texts: all texts of a large generation do not fit the 32 bits of
Arrow's offsets. pyarrow's own conversions (`pa.array`, `pa.scalar`, `to_numpy`) import pandas, which takes as long as a
question; those here do not. A question needs some ten rows of a memory-mapped table. pyarrow's `take` and `to_pylist`
cost 25 µs a column before they have read one, and a chunk has twenty columns: together as much as searching does."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_serving.artifacts.contents import Hasher

_HASHED_ROWS = 65_536  # at once; the digest depends on it


def values_digest(table: pa.Table) -> str:
    """Return the SHA-256 of names, types and values, columns in the order of their names."""
    hasher = hashlib.sha256()
    for name in sorted(table.column_names):
        column = table[name]
        hasher.update(f"{name}\x1f{column.type}\x1f{len(column)}\x1e".encode())
        for start in range(0, len(column), _HASHED_ROWS):
            _add(hasher, combine_chunks(column.slice(start, _HASHED_ROWS)))
    return hasher.hexdigest()


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
    if len(array):
        width = array.type.bit_width // 8
        hasher.update(memoryview(array.buffers()[1])[array.offset * width : (array.offset + len(array)) * width])


def _text(array: pa.Array) -> memoryview:
    _, offsets, data = array.buffers()
    if not len(array) or data is None:
        return memoryview(b"")
    borders = memoryview(offsets).cast("B").cast("i")
    return memoryview(data)[borders[array.offset] : borders[array.offset + len(array)]]


Read = Callable[[Iterable[int]], list[Any]]
"""The values of some rows, in their order."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BLOCK = 16_384  # rows that are put in order at once: their texts are joined
_MILLISECONDS = pa.timestamp("ms", tz="UTC")


def strings(values: Iterable[str]) -> pa.StringArray:
    """Return texts as an Arrow array."""
    encoded = [value.encode() for value in values]
    borders = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(borders), pa.py_buffer(b"".join(encoded)))


def indices(rows: NDArray[np.int64] | Sequence[int]) -> pa.Int64Array:
    """Return row numbers as an Arrow array."""
    numbers = np.ascontiguousarray(rows, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def numbers_of(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """Return a column of integers without nulls as a read-only array [rows]."""
    numbers: NDArray[np.int64] = np.from_dlpack(pc.cast(_whole(column), pa.int64()))  # type: ignore[assignment]
    return numbers


def mask_of(column: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return a column of truth values as a read-only mask [rows]; a null is False."""
    flat = _whole(column)
    known = pc.and_kleene(flat, pc.is_valid(flat)) if flat.null_count else flat
    return np.from_dlpack(pc.cast(known, pa.uint8())).view(np.bool_)


def rows_in(column: pa.Array | pa.ChunkedArray, values: Iterable[str]) -> NDArray[np.bool_]:
    """Return which rows of a column of texts are one of some values, as a read-only mask [rows]."""
    return mask_of(pc.is_in(column, value_set=strings(values)))


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def reader(column: pa.Array | pa.ChunkedArray) -> Read:
    """Return a function that reads rows of a column, the same as `column.take(rows).to_pylist()`."""
    if isinstance(column, pa.ChunkedArray):
        return _chunks(column)
    kind = column.type
    if column.null_count == len(column):
        return lambda rows: [None for _ in rows]
    if column.null_count:
        return lambda rows: [column[row].as_py() for row in rows]
    if kind == pa.string():
        return _strings(column)
    if kind == pa.list_(pa.string()):
        return _lists(column)
    if kind == pa.bool_():
        bits = _numbers(pc.cast(column, pa.int32()))
        return lambda rows: [bits[row] == 1 for row in rows]
    numbers = _numbers(column.view(pa.int64()) if kind == _MILLISECONDS else column)
    if kind == _MILLISECONDS:
        return lambda rows: [_EPOCH + timedelta(milliseconds=numbers[row]) for row in rows]
    return lambda rows: [numbers[row] for row in rows]


def _chunks(column: pa.ChunkedArray) -> Read:
    if column.num_chunks == 1:
        return reader(column.chunk(0))
    reads, ends = [reader(chunk) for chunk in column.chunks], np.cumsum([len(chunk) for chunk in column.chunks])
    starts = [0, *ends.tolist()]

    def read(rows: Iterable[int]) -> list[Any]:
        places = [(bisect_right(starts, row) - 1, row) for row in rows]
        return [reads[number]((row - starts[number],))[0] for number, row in places]

    return read


def _strings(column: pa.Array) -> Read:
    """`column`: strings without nulls."""
    _, offsets, data = column.buffers()
    borders = _view(offsets, pa.int32(), column.offset, len(column) + 1)
    text = memoryview(data or b"")
    return lambda rows: [str(text[borders[row] : borders[row + 1]], "utf-8") for row in rows]


def _lists(column: pa.Array) -> Read:
    """`column`: lists without nulls among them."""
    borders, items = _numbers(column.offsets), reader(column.values)
    return lambda rows: [items(range(borders[row], borders[row + 1])) for row in rows]


def _numbers(column: pa.Array) -> memoryview[int]:
    """`column`: numbers without nulls."""
    return _view(column.buffers()[1], column.type, column.offset, len(column))


def _view(buffer: pa.Buffer, kind: pa.DataType, start: int, count: int) -> memoryview[int]:
    """Return some numbers of a buffer; indexing it is twice as fast as indexing a numpy array."""
    width = kind.bit_width // 8
    cells = memoryview(buffer).cast("B")[start * width : (start + count) * width]
    return cells.cast("i") if kind == pa.int32() else cells.cast("q")


def combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece, copied only if it is in several."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def dictionary_encode(column: pa.ChunkedArray) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Return the distinct values of a column without nulls, and the number of its value for every row. Not by
    `to_numpy`, which takes half a second to import pandas if that is installed."""
    encoded = column.dictionary_encode().chunks  # they share a dictionary
    if not encoded:
        return (), np.zeros(0, np.int32)
    numbers: list[NDArray[np.int32]] = [np.from_dlpack(chunk.indices) for chunk in encoded]  # type: ignore[misc]
    return tuple(encoded[-1].dictionary.to_pylist()), numbers[0] if len(numbers) == 1 else np.concatenate(numbers)


def members_of(lists: pa.ChunkedArray) -> pa.Table:
    """Return the members of a column of lists of structs, each with the `row` of its list, ascending."""
    kind = lists.type.value_type
    batches = [pa.RecordBatch.from_struct_array(chunk.flatten()) for chunk in lists.chunks]
    members = pa.Table.from_batches(batches, pa.schema([kind.field(number) for number in range(kind.num_fields)]))
    return members.append_column("row", pc.list_parent_indices(lists))


def take_rows(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """Return some rows of a table, in their order; unlike `Table.take` without joining the chunks of its columns."""
    batches = table.to_batches()
    if len(batches) < 2:
        return table.take(indices(rows))
    is_ascending = bool(np.all(rows[1:] >= rows[:-1]))
    ordered = rows if is_ascending else np.sort(rows)
    ends = np.cumsum([len(batch) for batch in batches])
    borders = [0, *np.searchsorted(ordered, ends).tolist()]
    found = pa.Table.from_batches(
        [
            batch.take(indices(ordered[first:last] - (end - len(batch))))
            for batch, end, (first, last) in zip(batches, ends.tolist(), pairwise(borders), strict=True)
            if first < last
        ],
        table.schema,
    )
    return found if is_ascending else found.combine_chunks().take(indices(np.argsort(np.argsort(rows, kind="stable"))))


def sort_rows(table: pa.Table, *columns: str) -> pa.Table:
    """Return the rows of a table in the order of some columns, ascending."""
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in columns])
    return reordered(table, numbers_of(order)).combine_chunks()


def reordered(table: pa.Table, order: NDArray[np.int64]) -> pa.Table:
    """Return all rows of a table in another order, in chunks if it has several."""
    if all(column.num_chunks < 2 for column in table.columns):
        return table.take(indices(order))
    blocks = (order[start : start + _BLOCK] for start in range(0, len(order), _BLOCK))
    return pa.concat_tables([table.slice(0, 0), *(take_rows(table, block) for block in blocks)])
