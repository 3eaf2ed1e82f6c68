"""The pages of a generation as numbers: which page a chunk is of, and which page stands above that.

Belongs here: pages by row, means over pages. Does not belong here: who may read what, what a page is worth.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_serving.artifacts.columns import dictionary_encode, numbers_of

Numbers = NDArray[np.int64]


class PageTree:
    """The pages of a chunk table. Safe to use from several threads."""

    def __init__(self, table: pa.Table) -> None:
        """`table`: the columns page_id, parent_id and chunk_idx of GENERATION_CHUNKS."""
        names, self._pages = dictionary_encode(table["page_id"])
        above, codes = dictionary_encode(table["parent_id"])
        numbers = {name: number for number, name in enumerate(names)}
        self._parents = np.array([numbers.get(name, -1) for name in above], dtype=np.int32)[codes]
        self._places = numbers_of(table["chunk_idx"])
        self._sizes = np.bincount(self._pages)

    def pages(self, rows: Numbers) -> Numbers:
        """Return the number of the page of every row: equal numbers are one page."""
        return self._pages[rows].astype(np.int64)

    def parents(self, rows: Numbers) -> Numbers:
        """Return the number of the page above that of every row, -1 where it has none here."""
        return self._parents[rows].astype(np.int64)

    def places(self, rows: Numbers) -> Numbers:
        """Return the place of every row in its page."""
        return self._places[rows]

    def means(self, scores: NDArray[np.float32], rows: Numbers, readable: Numbers) -> NDArray[np.float64]:
        """Return the mean of the scores [chunks] over the `readable` rows of the page of each of `rows` [n].

        `scores` are 0 outside `readable`: to add nothing changes no sum, not in the last bit.
        """
        pages, scored = self._pages[rows], np.flatnonzero(scores)
        sums = np.bincount(self._pages[scored], scores[scored].astype(np.float64), minlength=len(self._sizes))
        everything = len(readable) == len(self._pages)
        sizes = self._sizes if everything else np.bincount(self._pages[readable], minlength=len(self._sizes))
        means: NDArray[np.float64] = sums[pages] / np.maximum(sizes[pages], 1)
        return means
