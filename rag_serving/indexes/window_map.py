"""The vectors of each row: a passage longer than its model's input has one for each window.

Belongs here: the map, made of the signed chunk table; the best value of each row's windows; names of windows in Chroma.
Does not belong here: the borders of windows (`rag_assets.steps.contexts.contextualize`), comparing (`exact`).

Vectors are in the order of the rows, those of one row in the order of its windows. A window has its passage's readers:
for others none of its vectors is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_serving.artifacts.columns import numbers_of

Rows = NDArray[np.int64]
_SIGN = "#"  # between a chunk id, which ends in its number on the page, and a window's number


class WindowsError(Exception):
    """The chunk table does not say which vectors belong to its rows."""


class Places(NamedTuple):
    """The vectors of some rows [m], and where those of each row begin among them [rows]."""

    vectors: Rows
    starts: Rows


class WindowMap:
    """The vectors of every row, at least one for each."""

    def __init__(self, counts: Rows) -> None:
        """`counts` [rows]: how many vectors each row has."""
        self.counts = counts
        self._starts = np.cumsum(counts) - counts
        self.vectors = int(counts.sum())

    def __len__(self) -> int:
        return len(self.counts)

    def places(self, rows: Rows) -> Places:
        """Return the places of the vectors of some rows, row by row."""
        counts = self.counts[rows]
        starts = np.cumsum(counts) - counts
        shifts = np.repeat(self._starts[rows] - starts, counts)
        return Places(np.arange(len(shifts), dtype=np.int64) + shifts, starts)

    def best(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the largest of each row's values [rows], of one value for every vector [vectors]."""
        best: NDArray[np.float32] = np.maximum.reduceat(values, self._starts) if len(self) else values
        return best

    def row_of(self, vector: int) -> int:
        """Return the row that a vector belongs to."""
        return int(np.searchsorted(self._starts, vector, side="right")) - 1

    def start_of(self, row: int) -> int:
        """Return where the vectors of a row begin."""
        return int(self._starts[row])


def window_counts(vector_keys: pa.ChunkedArray) -> Rows:
    """Return how many vectors each row has [rows], by the column of that name.

    Raises:
        WindowsError: a row has none.
    """
    lengths = pc.list_value_length(vector_keys)
    counts = np.zeros(1, np.int64) if lengths.null_count else numbers_of(lengths)
    if not counts.all():
        raise WindowsError("a row of the chunk table names no vector")
    return counts


def window_map(vector_keys: pa.ChunkedArray) -> WindowMap | None:
    """Return the map by the column of that name; None if every row has one vector, whose number is the row's.

    Raises:
        WindowsError: a row has no vector.
    """
    counts = window_counts(vector_keys)
    return WindowMap(counts) if (counts > 1).any() else None


def vector_ids(chunk_ids: Sequence[str], counts: Iterable[int]) -> list[str]:
    """Return the name of each vector in Chroma: its chunk's id, with a number if there are several."""
    ids: list[str] = []
    for chunk_id, count in zip(chunk_ids, counts, strict=True):
        ids += [chunk_id] if count == 1 else [f"{chunk_id}{_SIGN}{number}" for number in range(count)]
    return ids


def chunk_id_of(vector_id: str) -> str:
    """Return the id of the chunk that a vector belongs to."""
    chunk_id, sign, number = vector_id.rpartition(_SIGN)
    return chunk_id if sign and number.isascii() and number.isdigit() and ":" in chunk_id else vector_id
