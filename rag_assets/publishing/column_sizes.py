"""How much a column of a chunk table may hold: Arrow counts the bytes of texts in 32 bits.

Belongs here: finding a column that is too large for a file of a generation. Does not belong here: what the builder does
about it (`arrange`).

Sizes are read from the offsets of texts and lists; the texts themselves are not read.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

MOST = 2**31 - 1
"""Bytes of texts, or members of lists, that one column can hold."""


def oversized_column(table: pa.Table, most: int = MOST) -> str | None:
    """Return the name of a column with more bytes of texts, or more members of lists, than `most`; None if all fit."""
    return next((name for name in table.column_names if _size(table[name].chunks) > most), None)


def _size(parts: Sequence[pa.Array]) -> int:
    """Return the largest number that the offsets of a column have to hold, its parts put together."""
    kind = parts[0].type if parts else pa.null()
    if pa.types.is_string(kind):
        return sum(pc.sum(pc.cast(pc.binary_length(part), pa.int64())).as_py() or 0 for part in parts)
    if pa.types.is_list(kind):
        members = [part.flatten() for part in parts]
        return max(sum(map(len, members)), _size(members))
    if pa.types.is_struct(kind):
        fields = [part.flatten() for part in parts]
        return max((_size(own) for own in zip(*fields, strict=True)), default=0)
    return 0
