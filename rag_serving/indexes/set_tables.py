"""The two tables for queries about sets, as visible to one reader."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from functools import cache, cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_serving.artifacts.columns import dictionary_encode, indices, mask_of, numbers_of, reordered, rows_in, strings
from rag_serving.artifacts.manifest import Manifest, read_named_table
from rag_serving.artifacts.schema import DUPLICATES, GENERATION_CHUNKS, PAGE_FACTS, PASSAGE_COLUMNS
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.indexes.generation_parts import CHUNKS_FILE, parts_of
from rag_serving.records.sets import SetTables

FACTS_FILE = "page_facts.parquet"
DUPLICATES_FILE = "duplicates.parquet"

_HELD_BACK = ("readers", "includes")  # columns of PAGE_FACTS that could reveal hidden pages
_ROWS = 2_000_000  # passages in the tables of all sets of reader classes that are kept; one is kept, however large
_log = logging.getLogger(__name__)


class Facts(NamedTuple):
    """PAGE_FACTS and DUPLICATES of a generation."""

    pages: pa.Table
    duplicates: pa.Table


def read_facts(store: Store, manifest: Manifest) -> Facts | None:
    """Return the facts of a generation, as its manifest says they are; None if it was built without any. Raises
    StoreError: a file is missing or damaged."""
    if FACTS_FILE not in manifest.files:
        return None
    pages = read_named_table(store, manifest, FACTS_FILE, PAGE_FACTS)
    return Facts(pages, read_named_table(store, manifest, DUPLICATES_FILE, DUPLICATES))


class SetTablesOfReaders:
    """A generation's tables for each set of reader classes, read on first use. Safe to use from several threads."""

    def __init__(self, chunks: pa.Table, read: Callable[[], Facts | None]) -> None:
        """`chunks`: GENERATION_CHUNKS; `read`: its facts."""
        self._chunks, self._read = chunks, read
        self.lead: Callable[[str], str] = str  # from a stored address to the one shown
        self._tables = lru_cache(maxsize=max(1, min(64, _ROWS // max(len(chunks), 1))))(self._made_once)

    @property
    def classes(self) -> frozenset[str]:
        """The reader classes of pages and of texts."""
        return self._known[1]

    def of(self, classes: frozenset[str]) -> SetTables | None:
        """Return the rows that these reader classes open; None if the generation has no facts."""
        return self._tables(classes & self.classes)()

    def among(self, classes: frozenset[str], pages: Collection[str]) -> SetTables | None:
        """Return the rows of some of the pages that these reader classes open: of none that shows text of another page
        than these. None if the generation has no facts, or no record of included text."""
        facts, tables = self._known[0], self.of(classes)
        if facts is None or tables is None or facts.pages["includes"].null_count:
            return None
        includes = facts.pages["includes"].combine_chunks()
        is_other = ~mask_of(pc.is_in(includes.flatten(), value_set=strings(pages)))
        shows_no_other = np.ones(len(facts.pages), np.bool_)
        shows_no_other[numbers_of(pc.list_parent_indices(includes))[is_other]] = False
        known = facts.pages["page_id"].filter(pa.array(shows_no_other))
        kept = known.filter(pc.is_in(known, value_set=strings(pages))).combine_chunks()
        told, texts = (each.filter(pc.is_in(each["page_id"], value_set=kept)) for each in (tables.pages, tables.texts))
        return SetTables(_without_hidden(told), texts, tables.classes)

    def _made_once(self, classes: frozenset[str]) -> Callable[[], SetTables | None]:
        """Return a provider of the tables: the first caller makes them, others of the same classes wait."""
        lock, made = threading.Lock(), list[SetTables | None]()

        def tables() -> SetTables | None:
            with lock:
                if not made:
                    made.append(self._compute(classes))
                return made[0]

        return tables

    @cached_property
    def _known(self) -> tuple[Facts | None, frozenset[str]]:
        try:
            facts = self._read()
        except StoreError as error:
            _log.error("no question about sets is answered: %s", error)
            facts = None
        if facts is None:
            return None, frozenset()
        columns = facts.pages["readers"], facts.duplicates["readers"], self._chunks["readers"]
        return facts, frozenset(readers for column in columns for readers in pc.unique(column).to_pylist())

    def _compute(self, classes: frozenset[str]) -> SetTables | None:
        facts = self._known[0]
        if facts is None:
            return None
        pages = facts.pages.filter(pc.is_in(facts.pages["readers"], value_set=strings(sorted(classes))))
        shown = _without_hidden(pages.select([name for name in pages.column_names if name not in _HELD_BACK]))
        tables = [self._chunks, facts.duplicates] if len(facts.duplicates) else [self._chunks]
        readable = np.concatenate([rows_in(table["readers"], classes) for table in tables])
        texts = pa.concat_tables([table.select([*PASSAGE_COLUMNS]).replace_schema_metadata() for table in tables])
        rows = np.flatnonzero(readable)
        order = rows[np.lexsort((numbers_of(texts["chunk_idx"])[rows], _ranks(texts["page_id"])[rows]))]
        texts = texts if np.array_equal(order, np.arange(len(texts))) else reordered(texts, order)
        return SetTables(led(shown, self.lead), led(texts, self.lead), classes)


@cache
def no_sets() -> SetTablesOfReaders:
    """Return the tables of a generation without facts; made when they are needed, because Arrow imports pandas then."""
    return SetTablesOfReaders(pa.schema([("readers", pa.string())]).empty_table(), lambda: None)


def sets_in_home(store: Store, manifest: Manifest) -> SetTablesOfReaders:
    """Return the tables of a generation in a database, read from its folder; none if that is missing or altered."""
    columns = [*PASSAGE_COLUMNS, "readers"]
    try:
        names = [part.file(CHUNKS_FILE) for part in parts_of(manifest)]
        chunks = [read_named_table(store, manifest, name, GENERATION_CHUNKS, columns) for name in names]
        facts = read_facts(store, manifest)
    except StoreError as error:
        _log.warning("questions about sets go the ordinary way: %s", error)
        return no_sets()
    return SetTablesOfReaders(pa.concat_tables(chunks), lambda: facts)


def led(table: pa.Table, lead: Callable[[str], str]) -> pa.Table:
    """Return the table with the addresses shown to readers in its column `url`."""
    if lead is str:
        return table
    told = pa.array([lead(url) for url in table["url"].to_pylist()], pa.string())
    return table.set_column(table.column_names.index("url"), "url", told)


def _ranks(column: pa.ChunkedArray) -> NDArray[np.int64]:
    names, numbers = dictionary_encode(column)
    places = np.empty(len(names), np.int64)
    places[np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)] = np.arange(len(names))
    return places[numbers]


def _without_hidden(pages: pa.Table) -> pa.Table:
    """Return pages that name no page but themselves: a link to another one is as if no such page were there."""
    pages = pages.combine_chunks()
    known = strings(pages["page_id"].to_pylist())
    above, links = (pages[name].combine_chunks() for name in ("ancestors", "links"))
    open_above = mask_of(pc.is_in(above.flatten(), value_set=known))
    ids, urls = links.flatten().flatten()
    ids = pc.if_else(pc.is_in(ids, value_set=known), ids, pa.nulls(len(ids), pa.string()))
    told = pa.StructArray.from_arrays([ids, urls], ["page_id", "url"])
    changed = {
        "ancestors": _members(above, above.flatten(), open_above),
        "ancestor_titles": _members(above, pages["ancestor_titles"].combine_chunks().flatten(), open_above),
        "links": _members(links, told, mask_of(pc.or_(pc.is_valid(ids), pc.is_valid(urls)))),
    }
    for name, column in changed.items():
        pages = pages.set_column(pages.schema.get_field_index(name), name, column)
    return pages.replace_schema_metadata()


def _members(lists: pa.ListArray, members: pa.Array, kept: NDArray[np.bool_]) -> pa.ListArray:
    """Return the lists with some of the members, in the place of their own."""
    counts = np.bincount(numbers_of(pc.list_parent_indices(lists))[kept], minlength=len(lists))
    borders = indices(np.append(0, np.cumsum(counts))).cast(pa.int32())
    return pa.ListArray.from_arrays(borders, members.take(indices(np.flatnonzero(kept))))
