"""The pages of a generation: their reading order, other occurrences of their texts, values to filter by. A place is
shown only to callers who may read it, whatever they may read of the chunk itself. Books are read from cover to cover,
other pages by themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_serving.artifacts.columns import (
    dictionary_encode,
    mask_of,
    members_of,
    numbers_of,
    rows_in,
    strings,
    take_rows,
)
from rag_serving.records.passages import Location
from rag_serving.records.queries import Facets, Filters

_BEHIND_PAGE = r":[^:]*:[^:]*$"  # what a chunk id has behind that of its page


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

    def narrowed(self, pages: Collection[str]) -> DuplicateLocations:
        """Return the places on some pages, as if there were no others."""
        ids = pc.replace_substring_regex(self._table["chunk_id"], _BEHIND_PAGE, "")
        table = self._table.filter(pc.is_in(ids, value_set=strings(pages)))
        return DuplicateLocations(table, len(self._borders) - 1)

    def of(self, row: int, classes: frozenset[str]) -> tuple[Location, ...]:
        """Return the places of a row's chunk that these reader classes open, each link once."""
        first, last = self._borders[row], self._borders[row + 1]
        if first == last or self.classes.isdisjoint(classes):
            return ()
        places = self._table.slice(first, last - first).to_pylist()
        locations = {place["url"]: place for place in places if place["readers"] in classes}
        return tuple(Location(place["heading"], place["url"], place["space"]) for place in locations.values())

    def readers_of_page(self, page_id: str) -> frozenset[str]:
        """Return the reader classes of a page's dropped chunks; empty if it has none."""
        tables = [self._table] if self._elsewhere is None else [self._table, self._elsewhere]
        found = (table.filter(pc.starts_with(table["chunk_id"], f"{page_id}:"))["readers"] for table in tables)
        return frozenset(readers for column in found for readers in column.to_pylist())

    def told(self, classes: frozenset[str]) -> list[pa.Table]:
        """Return the places that these reader classes open (space, title, labels, …), even of dropped chunks."""
        return [
            self.readable(classes),
            *([self._opened(self._elsewhere, classes)] if self._elsewhere is not None else []),
        ]

    def _readable(self, classes: frozenset[str]) -> pa.Table:
        """Return the places that these reader classes open (space, title, labels, …), with the `row` of their chunk."""
        return self._opened(self._table, classes)

    def _opened(self, table: pa.Table, classes: frozenset[str]) -> pa.Table:
        known = strings(sorted(self.classes & classes))
        return table.filter(pc.is_in(table["readers"], value_set=known))


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


MOST_LABELS = 50
_FACETS = ["page_id", "space", "labels", "source", "kind", "category"]


@dataclass(frozen=True)
class DroppedPassage:
    """A passage of a page that is not indexed, because another one has nearly the same text."""

    chunk_id: str
    section_id: str
    space: str
    title: str  # of the page
    heading: str  # the heading path in one line
    url: str  # with #anchor
    labels: tuple[str, ...]
    source: str
    kind: str
    kept: int  # row of the chunk that was kept

    @property
    def page_id(self) -> str:
        return page_of(self.chunk_id)

    @property
    def version(self) -> int:
        """Version of the page."""
        return int(self.chunk_id.rsplit(":", 2)[1])

    @property
    def position(self) -> int:
        """Place in the page."""
        return int(self.chunk_id.rpartition(":")[2])


class PageContents:
    """The pages of a chunk table and of the places of what was dropped. Safe to use from several threads."""

    def __init__(self, table: pa.Table, places: DuplicateLocations) -> None:
        """`table`: GENERATION_CHUNKS."""
        self._table, self._places = table, places
        self._facets = lru_cache(maxsize=64)(self._count)

    def duplicates_of(self, page_id: str, classes: frozenset[str], readable: NDArray[np.bool_]) -> list[DroppedPassage]:
        """Return the passages dropped from a page, in its order, if these reader classes open the place and the kept
        chunk is among the `readable` rows."""
        known = self._places.readable(classes & self._places.classes)
        of_page = known.filter(pc.starts_with(known["chunk_id"], f"{page_id}:"))  # hidden ones take no time
        places = [
            place for place in of_page.to_pylist() if readable[place["row"]] and page_of(place["chunk_id"]) == page_id
        ]
        texts = ("section_id", "space", "title", "heading", "url", "source")
        dropped = []
        for place in places:
            labels, kind = tuple(place["labels"] or ()), place["kind"] or "page"
            said = {name: place[name] or "" for name in texts}
            dropped.append(DroppedPassage(place["chunk_id"], labels=labels, kind=kind, kept=place["row"], **said))
        return sorted(dropped, key=lambda passage: passage.position)

    def facets(self, classes: frozenset[str], readable: NDArray[np.bool_]) -> Facets:
        """Return the values of filters among the readable rows, and among their places open to these classes."""
        return self._facets(classes & self._places.classes, readable.tobytes())

    def _count(self, classes: frozenset[str], readable: bytes) -> Facets:
        mask = np.frombuffer(readable, dtype=np.bool_)
        chunks = take_rows(self._table.select(_FACETS), np.flatnonzero(mask))
        places = self._places.readable(classes)
        places = places.filter(pa.array(mask[numbers_of(places["row"])]))
        ids = pc.replace_substring_regex(places["chunk_id"], _BEHIND_PAGE, "")
        places = places.append_column("category", pa.nulls(len(places), pa.string()))  # of the chunk that was kept
        others = places.append_column("page_id", ids).select(_FACETS)
        pages = pa.concat_tables([chunks, others.cast(chunks.schema)]).combine_chunks()
        labels = pages["labels"].combine_chunks()
        parents = pages["page_id"].take(pc.list_parent_indices(labels))
        labelled = pa.table({"page_id": parents, "labels": pc.list_flatten(labels)})
        frequent = dict(islice(_pages_by(labelled, "labels").items(), MOST_LABELS))
        return Facets(
            _pages_by(pages, "space"), frequent, *(_pages_by(pages, name) for name in ("source", "kind", "category"))
        )


def page_of(chunk_id: str) -> str:
    """Return the page id in a chunk id; it may contain colons itself."""
    return chunk_id.rsplit(":", 2)[0]


def _pages_by(table: pa.Table, column: str) -> Mapping[str, int]:
    counts = table.group_by(column).aggregate([("page_id", "count_distinct")]).to_pylist()
    pairs = [(row[column], row["page_id_count_distinct"]) for row in counts if row[column]]
    return dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))


def matching_rows(chunks: pa.Table, filters: Filters) -> NDArray[np.bool_]:
    """Return which rows of a chunk table (columns space, labels, title, source, kind, and category where its rows have
    one) match, as a mask [rows]."""
    matches = np.ones(len(chunks), dtype=np.bool_)
    for name in ("space", "source", "kind", "category"):
        if values := getattr(filters, name):
            matches &= rows_in(chunks[name], values) if name in chunks.column_names else False
    for word in filters.title:
        matches &= mask_of(pc.match_substring(pc.utf8_lower(chunks["title"]), word.lower()))
    for label in filters.labels:
        labels = chunks["labels"]
        rows = numbers_of(pc.list_parent_indices(labels))
        having = np.zeros(len(labels), dtype=np.bool_)
        having[rows[rows_in(pc.list_flatten(labels), [label])]] = True
        matches &= having
    return matches
