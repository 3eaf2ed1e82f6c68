"""Lists of numbers as two arrays: where each list begins, and all numbers one after the other.

Belongs here: choosing, renumbering and ordering them. Does not belong here: what the numbers mean (`keyword_writer`).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_assets.publishing.arrange import BuildError
from rag_assets.publishing.column_sizes import MOST
from rag_assets.publishing.posting_lists import Borders, Numbers
from rag_serving.artifacts.columns import combine_chunks
from rag_serving.indexes.word_lists import NumberLists, list_array


class Lists(NamedTuple):
    """Some lists; list i is `values[starts[i]:starts[i+1]]`."""

    starts: Borders
    values: Numbers

    @classmethod
    def of(cls, lists: NumberLists) -> Self:
        """Return lists that were added one by one."""
        return cls(*lists.arrays())

    @classmethod
    def of_column(cls, column: pa.ChunkedArray) -> Self:
        """Return a column of lists of int32, none of them null."""
        whole = combine_chunks(column)
        return cls(_array(whole.offsets).astype(np.int64), _array(whole.values))

    def replaced(self, numbers: Numbers) -> Self:
        """Return the lists with `numbers[value]` for each value."""
        return self._replace(values=numbers[self.values])

    def chosen(self, places: Numbers, others: Self) -> Self:
        """Return the list at each of some places, for every -1 the next one of the others."""
        own = places >= 0
        begins, sizes = np.empty(len(places), np.int64), np.empty(len(places), np.int64)
        begins[own], sizes[own] = self.starts[places[own]], np.diff(self.starts)[places[own]]
        begins[~own], sizes[~own] = others.starts[:-1] + len(self.values), np.diff(others.starts)
        ends = np.cumsum(sizes)
        values = np.concatenate([self.values, others.values])
        sources = np.repeat(begins - (ends - sizes), sizes) + np.arange(int(sizes.sum()))
        return self._replace(starts=np.concatenate([np.zeros(1, np.int64), ends]), values=values[sources])

    def sorted(self, numbers: int) -> Self:
        """Return the lists with the values of each ascending; all are below `numbers`."""
        width = np.int64(max(numbers, 1))
        keys = np.repeat(np.arange(len(self.starts) - 1) * width, np.diff(self.starts)) + self.values
        keys.sort()
        return self._replace(values=(keys % width).astype(np.int32))

    def arrow(self) -> pa.ListArray:
        """Return the lists as an Arrow array.

        Raises:
            BuildError: they have more numbers in all than Arrow's offsets can count.
        """
        if len(self.values) > MOST:
            raise BuildError(
                f"a list of words or rows has {len(self.values):,} numbers, more than the {MOST:,} that an index can "
                "hold; divide the sources among several tenants"
            )
        return list_array(self.starts.astype(np.int32), self.values)


def _array(column: pa.Array) -> NDArray[Any]:
    return np.asarray(np.from_dlpack(column)) if len(column) else np.zeros(0, np.int32)
