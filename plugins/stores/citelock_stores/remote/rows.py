"""The rows of a catalog with the numbers of the same chunks in their generation, and what was fetched of late for them.

Belongs here: from row to number and back, keeping and dropping. Does not belong here: fetching (`parts`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes.databases import RemoteDataError

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Values by key, those that were used longest ago dropped first. Safe to use from several threads."""

    def __init__(
        self, fetch: Callable[[list[Key]], Mapping[Key, Value]], size_of: Callable[[Value], int], limit: int
    ) -> None:
        """`fetch` gives the values of some keys, all of them; `limit`: in bytes, as `size_of` counts them."""
        self._fetch, self._size_of, self._limit = fetch, size_of, limit
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self.bytes = 0

    def of(self, keys: Collection[Key]) -> dict[Key, Value]:
        """Return the values of some keys, each once; those that are not kept are fetched together."""
        found: dict[Key, Value] = {}
        with self._lock:
            for key in keys:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    found[key] = self._kept[key][0]
        if missing := [key for key in dict.fromkeys(keys) if key not in found]:
            fetched = self._fetch(missing)
            found |= {key: fetched[key] for key in missing}
            with self._lock:
                for key in missing:
                    self._keep(key, fetched[key])
        return found

    def _keep(self, key: Key, value: Value) -> None:
        size = self._size_of(value)
        if key in self._kept or size > self._limit:
            return
        self._kept[key] = value, size
        self.bytes += size
        while self.bytes > self._limit:
            _, (_, dropped) = self._kept.popitem(last=False)
            self.bytes -= dropped


Rows = NDArray[np.int64]


class RowNumbers:
    """The chunk of the generation for each row of a catalog."""

    def __init__(self, numbers: Rows, refused: frozenset[int] = frozenset()) -> None:
        """`numbers` [rows]: ascending; `refused`: chunks of which the database may speak, and which are not used.

        Raises:
            RemoteDataError: the numbers are not ascending.
        """
        if len(numbers) and (int(numbers[0]) < 0 or not np.all(np.diff(numbers) > 0)):
            raise RemoteDataError("the database handed out chunks out of their order, or twice; publish them again")
        self._numbers = numbers
        self.refused = np.array(sorted(refused), np.int64)

    def __len__(self) -> int:
        return len(self._numbers)

    def outward(self, rows: Rows | Sequence[int]) -> Rows:
        """Return the numbers that the database knows some rows by."""
        return self._numbers[np.asarray(rows, np.int64)]

    def inward(self, numbers: Rows) -> Rows:
        """Return the rows of some chunks.

        Raises:
            RemoteDataError: one of them is not in the catalog: the reader may not see it.
        """
        rows, known = self.known(numbers)
        if not known.all():
            raise RemoteDataError("the database handed out a chunk that its reader may not see; it is not used")
        return rows

    def used(self, numbers: Rows) -> NDArray[np.bool_] | slice:
        """Return the mask of the chunks that are not refused, as an array index."""
        return np.isin(numbers, self.refused, invert=True) if len(self.refused) else slice(None)

    def known(self, numbers: Rows) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the rows of some chunks, any row for those that are not in the catalog, and which ones are."""
        rows = np.searchsorted(self._numbers, numbers).astype(np.int64)
        if not len(self._numbers):
            return rows, np.zeros(len(numbers), np.bool_)
        rows = np.minimum(rows, len(self._numbers) - 1)
        return rows, self._numbers[rows] == numbers
