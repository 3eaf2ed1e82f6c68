"""The rows of a chunk table that an earlier one has with the same content, whose results can be reused.

Belongs here: comparing columns of two tables. Does not belong here: the origin of the earlier table (`build`), the
reused results (`lexical_writer`, `keyword_writer`).

Cells are compared, not their digests, so that nothing rests on a column that something else filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_assets.publishing.posting_lists import Numbers
from rag_serving.artifacts.columns import combine_chunks, indices, mask_of, numbers_of, take_rows

_BLOCK = 65_536  # rows whose cells are compared at once
_PLACE = ("source", "page_id", "chunk_idx")  # with the chunk id, what rows are ordered by

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class KeptRows:
    """The positions of a table's rows in an earlier one of `total` rows: [rows], -1 for new ones, else ascending."""

    earlier: Numbers
    total: int

    @property
    def fresh(self) -> NDArray[np.int64]:
        """Return the rows that are new, ascending."""
        return np.flatnonzero(self.earlier < 0)

    @property
    def renumbered(self) -> Numbers:
        """Return for each row of the earlier table its number now, -1 if it is gone."""
        numbers = np.full(self.total, -1, np.int32)
        kept = np.flatnonzero(self.earlier >= 0)
        numbers[self.earlier[kept]] = kept
        return numbers

    @property
    def worthwhile(self) -> bool:
        """Return whether most rows are kept."""
        return 2 * int(np.count_nonzero(self.earlier >= 0)) > len(self.earlier)


def find_kept_rows(
    table: pa.Table, earlier: pa.Table, columns: Sequence[str], compared_block: Callable[[], None] = lambda: None
) -> KeptRows:
    """Return the rows with the same chunk id, place and cells of some columns in an earlier table.

    `compared_block` is called after some ten thousand rows: memory of mapped tables can be let go.

    Both tables are in the order of `arrange`, so that kept rows are in the same order in both.
    """
    numbers = _numbers_of(table["chunk_id"], earlier["chunk_id"])
    known, compared = np.flatnonzero(numbers >= 0), [*dict.fromkeys((*_PLACE, *columns))]
    for start in range(0, len(known), _BLOCK):
        rows = known[start : start + _BLOCK]
        others = numbers[rows]
        own, other = rows_of(table.select(compared), rows), rows_of(earlier.select(compared), others)
        same = np.ones(len(rows), np.bool_)
        for name in compared:
            same &= same_cells(*(combine_chunks(part[name]) for part in (own, other)))
        numbers[rows[~same]] = -1
        compared_block()
    found = numbers[numbers >= 0]
    if np.any(np.diff(found) <= 0):  # ordered otherwise: nothing can be copied in order
        numbers = np.full(len(table), -1, np.int32)
    return KeptRows(numbers, len(earlier))


def _numbers_of(ids: pa.ChunkedArray, known: pa.ChunkedArray) -> Numbers:
    """Return the row of each id among known ones, -1 if it is none."""
    return numbers_of(pc.fill_null(pc.index_in(ids, value_set=known), -1)).astype(np.int32)


def same_cells(one: pa.Array, other: pa.Array) -> Mask:
    """Return in which rows two columns of a type have the same cells; nulls are the same."""
    if not len(one):
        return np.zeros(0, np.bool_)
    if not pa.types.is_list(one.type):
        return mask_of(pc.equal(one, other)) | (mask_of(one.is_null()) & mask_of(other.is_null()))
    sizes, others = (_sizes(column) for column in (one, other))
    same: Mask = sizes == others
    rows = indices(np.flatnonzero(same & (sizes > 0)))
    members = same_cells(one.take(rows).flatten(), other.take(rows).flatten())
    owners = np.repeat(np.flatnonzero(same & (sizes > 0)), sizes[same & (sizes > 0)])
    same[owners[~members]] = False
    return same


def _sizes(column: pa.Array) -> Numbers:
    """Return the length of each list, -1 for a null."""
    sizes = pc.fill_null(pc.list_value_length(column), -1)
    return np.array(np.from_dlpack(sizes), np.int32) if len(sizes) else np.zeros(0, np.int32)


def rows_of(table: pa.Table, rows: NDArray[Any]) -> pa.Table:
    """Return some rows, ascending; not copied where they follow each other."""
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1:
        return table.slice(int(rows[0]), len(rows))
    return take_rows(table, rows)
