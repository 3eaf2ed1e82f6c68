"""The rows of a catalog, and the numbers of the same chunks in their generation.

Belongs here: from one to the other. Does not belong here: what is at them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes.databases import RemoteDataError

Rows = NDArray[np.int64]


class RowNumbers:
    """Which chunk of the generation each row of a catalog is."""

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
        """Return which of some chunks are not refused, as what an array is indexed with."""
        return np.isin(numbers, self.refused, invert=True) if len(self.refused) else slice(None)

    def known(self, numbers: Rows) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the rows of some chunks, any row for those that are not in the catalog, and which ones are."""
        rows = np.searchsorted(self._numbers, numbers).astype(np.int64)
        if not len(self._numbers):
            return rows, np.zeros(len(numbers), np.bool_)
        rows = np.minimum(rows, len(self._numbers) - 1)
        return rows, self._numbers[rows] == numbers
