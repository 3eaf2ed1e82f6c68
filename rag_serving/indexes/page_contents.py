"""The pages of a generation: what was dropped from them, what there is to filter by.

Belongs here: reading a generation's table by page. Does not belong here: who may read what (`view`), chunks as records
(`generation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_serving.artifacts.columns import numbers_of, take_rows
from rag_serving.indexes.duplicates import DuplicateLocations
from rag_serving.records.queries import Facets

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
        """Return what was dropped from a page, in its order, where these reader classes open the place and the kept
        chunk is among the `readable` rows."""
        known = self._places.readable(classes & self._places.classes)
        of_page = known.filter(pc.starts_with(known["chunk_id"], f"{page_id}:"))  # hidden ones take no time
        places = [
            place for place in of_page.to_pylist() if readable[place["row"]] and page_of(place["chunk_id"]) == page_id
        ]
        texts = ("section_id", "space", "title", "heading", "url", "source")
        dropped = [
            DroppedPassage(
                chunk_id=place["chunk_id"],
                labels=tuple(place["labels"] or ()),
                kind=place["kind"] or "page",
                kept=place["row"],
                **{name: place[name] or "" for name in texts},
            )
            for place in places
        ]
        return sorted(dropped, key=lambda passage: passage.position)

    def facets(self, classes: frozenset[str], readable: NDArray[np.bool_]) -> Facets:
        """Return what there is to filter by among the readable rows, and places that these classes open of them."""
        return self._facets(classes & self._places.classes, readable.tobytes())

    def _count(self, classes: frozenset[str], readable: bytes) -> Facets:
        mask = np.frombuffer(readable, dtype=np.bool_)
        chunks = take_rows(self._table.select(_FACETS), np.flatnonzero(mask))
        places = self._places.readable(classes)
        places = places.filter(pa.array(mask[numbers_of(places["row"])]))
        ids = pc.replace_substring_regex(places["chunk_id"], r":[^:]*:[^:]*$", "")
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
    """Return the page id in a chunk id, which may hold colons itself."""
    return chunk_id.rsplit(":", 2)[0]


def _pages_by(table: pa.Table, column: str) -> Mapping[str, int]:
    """Return how many pages have each value of a column, the most frequent first."""
    counts = table.group_by(column).aggregate([("page_id", "count_distinct")]).to_pylist()
    pairs = [(row[column], row["page_id_count_distinct"]) for row in counts if row[column]]
    return dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
