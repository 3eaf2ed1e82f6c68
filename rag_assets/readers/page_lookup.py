"""A page of the sources by its id, title or address, with what its sync wrote down of it.

Belongs here: finding it in the tables of the sources, and what became of it on its way to the published generation.
Does not belong here: who may read it and why (`steps.readers.explanation`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import pyarrow.compute as pc

from rag_assets.state.sync_files import LastSync, read_last_sync
from rag_serving.artifacts.schema import CHUNKS, PAGES
from rag_serving.artifacts.store import Store, StoreError, read_table
from rag_serving.config.loading import Config
from rag_serving.indexes.page_readers import read_page_readers

_COLUMNS = ["page_id", "version", "space", "title", "url", "ancestors", "ancestor_titles", "readers"]
_ID_IN_URL = re.compile(r"(?:/pages/|/blog/\d{4}/\d\d/\d\d/|[?&]pageId=)(\d+)")


class PageNotFoundError(Exception):
    """No source has the page; the message says what is near, or why it is not indexed."""


@dataclass(frozen=True)
class FoundPage:
    """A page of a source."""

    source: str
    row: Mapping[str, Any]  # columns of PAGES
    pages: Mapping[str, Mapping[str, Any]]  # all of the source, by id
    sync: LastSync | None  # None: it cannot be read


@dataclass(frozen=True)
class Passages:
    """A page's passages: how many, how many of them fewer may read, and whose text these show."""

    count: int
    narrower: int
    shown_from: tuple[str, ...]  # page ids
    readers: frozenset[str]  # reader classes


def find_pages(config: Config, store: Store, sources: Iterable[str], wanted: str) -> list[FoundPage]:
    """Return the pages that an id, a title or an address names; several where spaces have pages of the same title.

    Raises:
        PageNotFoundError: there is none.
    """
    wanted = wanted.strip()
    titles: list[str] = []
    matches: list[FoundPage] = []
    reasons: list[str] = []
    for key in sources:
        pages, sync = _pages(store, key), read_last_sync(store.source(key))
        ids = {wanted, f"{config.sources[key].id_prefix}{_id_in(wanted)}"}
        matches += [FoundPage(key, row, pages, sync) for row in pages.values() if _is_meant(row, wanted, ids)]
        reasons += [f"{key}: {why}" for why in _reasons(sync, ids)]
        titles += [str(row["title"]) for row in pages.values()]
    if matches:
        return matches
    if reasons:
        raise PageNotFoundError(f"page {wanted!r} is not indexed: {'; '.join(reasons)}")
    near = [title for title in titles if wanted.casefold() in title.casefold()][:3] if wanted else []
    near = near or get_close_matches(wanted, titles, n=3, cutoff=0.5)
    mend = f"did you mean {' or '.join(map(repr, near))}?" if near else "name it by id, title or address"
    raise PageNotFoundError(f"no synced page is {wanted!r}; {mend}")


def passages_of(store: Store, page: FoundPage) -> Passages:
    """Return what became of a page's text in its source's chunk table."""
    columns = ["page_id", "readers", "page_readers", "included_from"]
    try:
        table = read_table(store.source(page.source) / "chunks.parquet", CHUNKS, columns)
    except StoreError:
        return Passages(0, 0, (), frozenset())
    rows = table.filter(pc.equal(table["page_id"], page.row["page_id"])).to_pylist()
    narrower = [row for row in rows if row["readers"] != row["page_readers"]]
    shown = {row["included_from"] for row in narrower} - {None, ""}
    return Passages(len(rows), len(narrower), tuple(sorted(shown)), frozenset(row["readers"] for row in rows))


def published_readers(store: Store, tenant: str, page_id: str) -> frozenset[str] | None:
    """Return the reader classes of a page's text in the published generation; None where that cannot be told."""
    current = store.current(tenant)
    try:
        table = read_page_readers(store, tenant, current) if current else None
    except StoreError:
        return None
    if table is None:
        return None
    rows = table.filter(pc.equal(table["page_id"], page_id)).to_pylist()
    return frozenset(readers for row in rows for readers in row["classes"])


def _pages(store: Store, source: str) -> dict[str, dict[str, Any]]:
    try:
        rows = read_table(store.source(source) / "pages.parquet", PAGES, _COLUMNS).to_pylist()
    except StoreError:  # never synced, or by another version of the program
        return {}
    return {row["page_id"]: row for row in rows}


def _is_meant(row: Mapping[str, Any], wanted: str, ids: set[str]) -> bool:
    if row["page_id"] in ids or row["title"].casefold() == wanted.casefold():
        return True
    return "://" in wanted and row["url"] == wanted.partition("#")[0]


def _id_in(wanted: str) -> str:
    """Return the page id that an address holds, else the text itself."""
    match = _ID_IN_URL.search(wanted) if "/" in wanted else None
    return match[1] if match else wanted


def _reasons(sync: LastSync | None, ids: set[str]) -> list[str]:
    """Return why the last sync left a page out."""
    left_out = {**sync.excluded, **sync.failed} if sync else {}
    return [left_out[page_id] for page_id in sorted(ids & left_out.keys())]
