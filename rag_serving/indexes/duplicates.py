"""Where the text of a chunk stands as well: the places of chunks that were dropped as its near-duplicates.

Belongs here: reading a generation's places by reader class. Does not belong here: what a duplicate is (the build says).

A place is told of only to callers who may read it, whatever they may read of the chunk itself.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.artifacts.columns import combine_chunks, strings
from rag_serving.records.places import Location


class DuplicateLocations:
    """The places of all chunks of a generation. Safe to use from several threads."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        """`column`: the column `places` of GENERATION_CHUNKS."""
        lists = combine_chunks(column)
        batch = pa.RecordBatch.from_struct_array(pc.list_flatten(lists))
        self._table = pa.Table.from_batches([batch]).append_column("row", pc.list_parent_indices(lists))
        self._lists = lists
        self.classes: frozenset[str] = frozenset(pc.unique(self._table["readers"]).to_pylist())
        self.readable = lru_cache(maxsize=64)(self._readable)

    def of(self, row: int, classes: frozenset[str]) -> tuple[Location, ...]:
        """Return the places of a row's chunk that these reader classes open, each link once."""
        if self.classes.isdisjoint(classes):
            return ()
        locations = {p["url"]: p for p in self._lists[row].as_py() or () if p["readers"] in classes}
        return tuple(Location(place["heading"], place["url"], place["space"]) for place in locations.values())

    def readers_of_page(self, page_id: str) -> frozenset[str]:
        """Return the reader classes of a page's dropped chunks; empty where it has none."""
        of_page = pc.starts_with(self._table["chunk_id"], f"{page_id}:")
        return frozenset(self._table.filter(of_page)["readers"].to_pylist())

    def _readable(self, classes: frozenset[str]) -> pa.Table:
        """Return the places that these reader classes open (space, title, labels, …), each with the `row` of its
        chunk."""
        known = strings(sorted(self.classes & classes))
        return self._table.filter(pc.is_in(self._table["readers"], value_set=known))
