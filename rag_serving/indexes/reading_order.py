"""The order in which the passages of a generation are read: books from cover to cover, other pages by themselves.

Belongs here: ranks and neighbours of rows. Does not belong here: who may read them (`view`), how a book numbers its
passages (the writer's), which passages are found.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_serving.artifacts.columns import dictionary_encode, numbers_of, rows_in

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


class ReadingOrder:
    """The rows of a chunk table as one reads them. Safe to use from several threads."""

    def __init__(self, table: pa.Table) -> None:
        """`table`: the columns source, page_id, page_order, chunk_idx and passage_id of GENERATION_CHUNKS."""
        _, sources = dictionary_encode(table["source"])
        _, pages = dictionary_encode(table["page_id"])
        page_orders = numbers_of(pc.fill_null(table["page_order"], 0))
        self._order: Numbers = np.lexsort((numbers_of(table["chunk_idx"]), pages, page_orders, sources))
        # Rows of one text have the same number: those of a book, or of a page that is in none.
        self._texts = np.where(page_orders > 0, sources.astype(np.int64), -1 - pages.astype(np.int64))
        self._passage_ids = table["passage_id"]

    def ranks(self, rows: Numbers, readable: Mask) -> Numbers:
        """Return the place of some rows among the readable ones [chunks], as they are read, from 0."""
        ranks = np.empty(len(self._order), np.int64)
        ranks[self._order] = np.cumsum(readable[self._order]) - 1
        return ranks[rows]

    def around(self, row: int, before: int, after: int, readable: Mask) -> tuple[Numbers, Numbers]:
        """Return up to so many readable rows of the same text before a row, and after it, as they are read."""
        same = self._order[(self._texts == self._texts[row])[self._order]]
        same = same[readable[same] | (same == row)]
        place = int(np.flatnonzero(same == row)[0])
        return same[max(place - before, 0) : place], same[place + 1 : place + 1 + after]

    def of_passage(self, passage_id: str) -> Numbers:
        """Return the rows of a passage id, ascending: one for each book that has it."""
        if not len(self._order):
            return np.empty(0, np.int64)
        return np.flatnonzero(rows_in(self._passage_ids, [passage_id]))
