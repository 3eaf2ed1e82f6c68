"""Cells of Arrow columns as Python values, read from the columns' own memory.

Belongs here: the types of GENERATION_CHUNKS. Does not belong here: which rows are read (`generation`).

What a question shows is some ten rows of a memory-mapped table. pyarrow's `take` and `to_pylist` cost 25 µs a column
before they have read one, and a chunk has twenty columns: together as much as searching does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Read = Callable[[Iterable[int]], list[Any]]
"""The values of some rows, in their order."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS = pa.timestamp("ms", tz="UTC")


def reader(column: pa.Array) -> Read:
    """What reads rows of a column, the same as `column.take(rows).to_pylist()`."""
    kind = column.type
    if column.null_count or not len(column):
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
    """Some numbers of a buffer; indexing it is twice as fast as indexing a numpy array."""
    width = kind.bit_width // 8
    cells = memoryview(buffer).cast("B")[start * width : (start + count) * width]
    return cells.cast("i") if kind == pa.int32() else cells.cast("q")
