"""Where the text of a chunk stands as well: the places of chunks that were dropped as its near-duplicates.

Belongs here: reading a generation's places by reader class. Does not belong here: what a duplicate is (the build says).

A place is told of only to callers who may read it, whatever they may read of the chunk itself.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.artifacts.columns import members_of, numbers_of, strings
from rag_serving.records.places import Location


class DuplicateLocations:
    """The places of all chunks of a generation. Safe to use from several threads."""

    def __init__(self, table: pa.Table, chunks: int, elsewhere: pa.Table | None = None) -> None:
        """`table`: the fields of a place of GENERATION_CHUNKS and the `row` of its chunk, ascending, of so many chunks;
        `elsewhere`: the same without `row`, of chunks that are not among those."""
        self._table, self._elsewhere = table, elsewhere
        self._borders = np.searchsorted(numbers_of(table["row"]), np.arange(chunks + 1)).tolist()
        others = elsewhere["readers"].to_pylist() if elsewhere is not None else ()
        self.classes: frozenset[str] = frozenset((*pc.unique(table["readers"]).to_pylist(), *others))
        self.readable = lru_cache(maxsize=64)(self._readable)

    @classmethod
    def of_column(cls, column: pa.ChunkedArray) -> DuplicateLocations:
        """Return the places in the column `places` of GENERATION_CHUNKS."""
        return cls(members_of(column), len(column))

    def of(self, row: int, classes: frozenset[str]) -> tuple[Location, ...]:
        """Return the places of a row's chunk that these reader classes open, each link once."""
        first, last = self._borders[row], self._borders[row + 1]
        if first == last or self.classes.isdisjoint(classes):
            return ()
        places = self._table.slice(first, last - first).to_pylist()
        locations = {place["url"]: place for place in places if place["readers"] in classes}
        return tuple(Location(place["heading"], place["url"], place["space"]) for place in locations.values())

    def readers_of_page(self, page_id: str) -> frozenset[str]:
        """Return the reader classes of a page's dropped chunks; empty where it has none."""
        tables = [self._table] if self._elsewhere is None else [self._table, self._elsewhere]
        found = (table.filter(pc.starts_with(table["chunk_id"], f"{page_id}:"))["readers"] for table in tables)
        return frozenset(readers for column in found for readers in column.to_pylist())

    def told(self, classes: frozenset[str]) -> list[pa.Table]:
        """Return the places that these reader classes open (space, title, labels, …), whatever became of their
        chunks."""
        return [
            self.readable(classes),
            *([self._opened(self._elsewhere, classes)] if self._elsewhere is not None else []),
        ]

    def _readable(self, classes: frozenset[str]) -> pa.Table:
        """Return the places that these reader classes open (space, title, labels, …), each with the `row` of its
        chunk."""
        return self._opened(self._table, classes)

    def _opened(self, table: pa.Table, classes: frozenset[str]) -> pa.Table:
        known = strings(sorted(self.classes & classes))
        return table.filter(pc.is_in(table["readers"], value_set=known))
