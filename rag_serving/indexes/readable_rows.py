"""The rows of a generation that reader classes open."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_serving.artifacts.columns import dictionary_encode


class Hit(NamedTuple):
    """A chunk in an index's results: its row in the generation's chunk table, and the index's score."""

    row: int
    score: float


def best(rows: NDArray[np.int64], scores: NDArray[np.float32], k: int) -> list[Hit]:
    """Return the k best of `rows` by `scores` [n], best first; ties in row order."""
    if k <= 0 or not len(rows):
        return []
    if len(rows) > k:
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
        chosen = np.flatnonzero(scores >= threshold)
        rows, scores = rows[chosen], scores[chosen]
    order = np.lexsort((rows, -scores))[:k]
    return [*map(Hit, rows[order].tolist(), scores[order].tolist())]


_REMEMBERED = 64  # sets of classes


class Readable(NamedTuple):
    """The rows of some reader classes."""

    mask: NDArray[np.bool_]  # [rows]
    rows: NDArray[np.int64]  # ascending
    limits: NDArray[np.bool_] | None  # the mask, None where every row may be read


class ReadableRows:
    """The reader class of every row. Safe to use from several threads."""

    def __init__(self, readers: pa.ChunkedArray) -> None:
        """`readers`: the column of that name."""
        self._names, self._codes = dictionary_encode(readers)
        self.classes = frozenset(self._names)
        self._found = lru_cache(maxsize=_REMEMBERED)(self._find)

    def of(self, classes: frozenset[str]) -> Readable:
        """Return the rows of some classes; unknown classes are ignored, so that they cannot fill the cache."""
        return self._found(classes & self.classes)

    def class_of(self, row: int) -> str:
        """Return the reader class of a row."""
        return self._names[int(self._codes[row])]

    def classes_of(self, rows: NDArray[np.int64]) -> frozenset[str]:
        """Return the reader classes of some rows. Not by `np.unique`, which imports numpy.ma."""
        return frozenset(self._names[code] for code in np.flatnonzero(np.bincount(self._codes[rows])))

    def sample(self, classes: frozenset[str], most: int) -> NDArray[np.int64]:
        """Return at most so many rows of some classes, evenly spread, ascending."""
        rows = self.of(classes).rows
        return rows[:: max(1, -(-len(rows) // most))]

    def _find(self, classes: frozenset[str]) -> Readable:
        satisfied = np.array([readers in classes for readers in self._names], dtype=np.bool_)
        mask: NDArray[np.bool_] = (
            satisfied[self._codes] if len(satisfied) else np.zeros(len(self._codes), dtype=np.bool_)
        )
        return Readable(mask, np.flatnonzero(mask), None if mask.all() else mask)
