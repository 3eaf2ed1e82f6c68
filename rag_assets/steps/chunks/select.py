"""The chunks of a tenant to index, and the reasons to leave out the others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.artifacts.columns import sort_rows
from rag_serving.artifacts.schema import CHUNKS

VERSION = 3
"""Raised when other chunks of the same tables would be indexed."""

BOILERPLATE = "boilerplate"
NO_WORDS = "its text has no words"  # of brackets, say: nobody can ask for it, and models give all of it one vector
_FENCE = re.compile(r"^(?:```|~~~).*", re.MULTILINE)  # names the language of code


class CollisionError(Exception):
    """Two sources of a tenant have a page of the same id; the message says how to mend it."""


@dataclass(frozen=True)
class ChunkSelection:
    """The chunks to index and the reason of every other one."""

    chunks: pa.Table  # rows of CHUNKS and the columns `source` and `kind`
    excluded: Mapping[str, str]  # chunk_id -> reason

    def reasons(self) -> dict[str, int]:
        """Return how many chunks each reason left out, most first."""
        return dict(Counter(self.excluded.values()).most_common())

    def without(self, chunk_ids: Collection[str], reason: str) -> ChunkSelection:
        """Return the same with some more chunks left out, all for one reason."""
        dropped = pc.is_in(self.chunks["chunk_id"], value_set=pa.array(list(chunk_ids), pa.string()))
        return ChunkSelection(
            self.chunks.filter(pc.invert(dropped)), {**self.excluded, **dict.fromkeys(chunk_ids, reason)}
        )

    def without_pages(self, pages: Mapping[str, str]) -> ChunkSelection:
        """Return the same without the chunks of some pages, each with a reason."""
        pairs = zip(self.chunks["page_id"].to_pylist(), self.chunks["chunk_id"].to_pylist(), strict=True)
        gone = {chunk_id: pages[page] for page, chunk_id in pairs if page in pages}
        return replace(self.without(gone, ""), excluded={**self.excluded, **gone})

    def told_in_sets(self, chunks: pa.Table, left_out: Collection[str]) -> pa.Table:
        """Return those chunks of the table that was selected from which are text of pages: the selected ones, and
        boilerplate of other pages than those left out."""
        kept = [*self.chunks["chunk_id"].to_pylist(), *(c for c, why in self.excluded.items() if why == BOILERPLATE)]
        known = pc.is_in(chunks["chunk_id"], value_set=pa.array(kept, pa.string()))
        gone = pc.is_in(chunks["page_id"], value_set=pa.array(list(left_out), pa.string()))
        return chunks.filter(pc.and_not(known, gone))

    def pages_without_chunks(self, chunks: pa.Table) -> dict[str, str]:
        """Return those pages of the table that was selected from of which nothing is left, with a reason of theirs."""
        kept = set(self.chunks["page_id"].to_pylist())
        pairs = zip(chunks["page_id"].to_pylist(), chunks["chunk_id"].to_pylist(), strict=True)
        return {page_id: self.excluded[chunk_id] for page_id, chunk_id in pairs if page_id not in kept}


def join_sources(
    chunks: Mapping[str, pa.Table], kind_of: Callable[[str, str], str] = lambda _source, _: "page"
) -> pa.Table:
    """Return the chunk tables of a tenant's sources as one, each row with its source, in order of page and place.

    `kind_of` gives the kind of a page by its source and id: page, comments, attachment or document. Raises
    CollisionError: two sources have a page of the same id: nobody could say which one a citation means.
    """
    owner: dict[str, str] = {}
    for source, table in sorted(chunks.items()):
        for page_id in table["page_id"].to_pylist():
            if owner.setdefault(page_id, source) != source:
                raise CollisionError(
                    f"page {page_id!r} is in source {owner[page_id]!r} and in source {source!r}; "
                    f"set `sources.{source}.id_prefix` to tell them apart"
                )
    tables = [_of_source(table, source, kind_of) for source, table in sorted(chunks.items())]
    if not tables:
        return _of_source(CHUNKS.empty(), "", kind_of)
    return sort_rows(pa.concat_tables(tables), "page_id", "chunk_idx")


def _of_source(table: pa.Table, source: str, kind_of: Callable[[str, str], str]) -> pa.Table:
    pages = table["page_id"].to_pylist()
    kinds = {page_id: kind_of(source, page_id) for page_id in set(pages)}
    table = table.append_column("source", pa.array([source] * len(table), pa.string()))
    return table.append_column("kind", pa.array([kinds[page_id] for page_id in pages], pa.string()))


def select_chunks(chunks: pa.Table, drop_labels: Collection[str], drop_boilerplate: bool) -> ChunkSelection:
    """Return the chunks that are indexed: none of a page with a dropped label, none without a letter or a digit, no
    boilerplate if that is dropped."""
    unwanted = {label.casefold() for label in drop_labels}
    excluded: dict[str, str] = {}
    columns = (chunks[name].to_pylist() for name in ("chunk_id", "labels", "is_boilerplate", "text"))
    for chunk_id, labels, is_boilerplate, text in zip(*columns, strict=True):
        label = next((label for label in labels or () if label.casefold() in unwanted), None)
        if label is not None:
            excluded[chunk_id] = f"label {label!r}"
        elif is_boilerplate and drop_boilerplate:
            excluded[chunk_id] = BOILERPLATE
        elif not any(map(str.isalnum, _FENCE.sub("", text))):
            excluded[chunk_id] = NO_WORDS
    is_left_out = pc.is_in(chunks["chunk_id"], value_set=pa.array(list(excluded), pa.string()))
    return ChunkSelection(chunks.filter(pc.invert(is_left_out)), excluded)
