"""The changes between two generations, as visible to one reader in both: pages, old and new words. Nothing of the older
generation is shown that the reader may not see now: its words are those of pages visible in the newer one, without text
that had readers of its own. A page that is not visible in the newer one may be hidden or gone, and is left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

import pyarrow.compute as pc

from rag_serving.artifacts.columns import strings
from rag_serving.records.sets import SetTables
from rag_serving.sets.execute import sha256_of
from rag_serving.text.structure import decode, structure_of

OWN_READERS = 1 << 30
"""Place in the page from which texts with readers of their own stand (`chunk_idx` of GENERATION_CHUNKS)."""
_ALIKE = 0.5  # share of words that a unit has in common with the one that replaces it
_PAIRS = 10_000  # pairs that are compared in one place; more units replace each other in order
_TEXTS = ["chunk_id", "page_id", "url", "text", "structure"]


@dataclass(frozen=True)
class Wording:
    """A sentence, row, item or piece of code: `text` is in the passage at these offsets."""

    chunk_id: str
    start: int
    end: int
    text: str
    url: str


@dataclass(frozen=True)
class UnitChange:
    """Words that were removed, added, or replaced."""

    old: Wording | None
    new: Wording | None


@dataclass(frozen=True)
class PageChange:
    """The changes on a page. `title`, `url` and `author` are the present ones."""

    page_id: str
    title: str
    url: str
    what: Literal["added", "changed"]
    old_version: int | None
    new_version: int
    updated_at: datetime | None
    author: str | None
    units: tuple[UnitChange, ...] = ()  # of a changed page, in its order


def page_changes(old: SetTables, new: SetTables, page_ids: Collection[str] | None = None) -> list[PageChange]:
    """Return the pages that were added or changed, the newest first, of `page_ids` or of all. `old`: the tables of the
    older generation, for the same reader as `new`."""
    before, now = _pages(old, page_ids), _pages(new, page_ids)
    texts, its_texts = _texts(old, before.keys() & now.keys()), _texts(new, before.keys() & now.keys())
    changes = []
    for page_id, row in now.items():
        then, units = before.get(page_id), list[UnitChange]()
        if then and [one["text"] for one in texts[page_id]] != [one["text"] for one in its_texts[page_id]]:
            units = unit_changes(texts[page_id], its_texts[page_id])
        if then and not units and all(then[name] == row[name] for name in ("version", "title")):
            continue
        shown = {name: row[name] for name in ("page_id", "title", "url", "updated_at", "author")}
        versions = {"old_version": then["version"] if then else None, "new_version": row["version"]}
        changes.append(PageChange(**shown, **versions, what="changed" if then else "added", units=tuple(units)))
    return sorted(changes, key=lambda each: (-(each.updated_at.timestamp() if each.updated_at else 0), each.page_id))


class Now(NamedTuple):
    """The published generation, as visible to the asker: pages without present access are left out."""

    id: str
    tables: SetTables

    @property
    def classes(self) -> frozenset[str]:
        return self.tables.classes

    @property
    def pages(self) -> frozenset[str]:
        return page_ids(self.tables)


def page_ids(tables: SetTables) -> frozenset[str]:
    """Return the ids of all pages."""
    return frozenset(tables.pages["page_id"].to_pylist())


def pages_in(tables: SetTables, space: str | None) -> list[str]:
    """Return the ids of a space's pages."""
    return [row["page_id"] for row in tables.pages.to_pylist() if row["space"] == space]


def changes_digest(changes: Sequence[PageChange]) -> str:
    """Return the SHA-256 of what changed: pages, and the words that went and came."""
    units = [[[each.old and each.old.text, each.new and each.new.text] for each in one.units] for one in changes]
    return sha256_of([[one.page_id, one.what, words] for one, words in zip(changes, units, strict=True)])


def unit_changes(old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[UnitChange]:
    """Return what of the units of a page's old passages went, and what came; both are rows of texts in order. Old text
    that had readers of its own is left out."""
    before, now = ([unit for row in rows for unit in _units(row)] for rows in (old, new))
    was, is_now = ([" ".join(unit.text.split()) for unit in units] for units in (before, now))
    changes: list[UnitChange] = []
    for what, first, last, begin, end in SequenceMatcher(None, was, is_now, autojunk=False).get_opcodes():
        pairs = _paired(before[first:last], now[begin:end]) if what != "equal" else ()
        for gone, came in pairs:
            is_apart = gone and int(gone.chunk_id.rpartition(":")[2]) >= OWN_READERS
            if came or not is_apart:
                changes.append(UnitChange(None if is_apart else gone, came))
    return changes


def _paired(old: Sequence[Wording], new: Sequence[Wording]) -> Iterator[tuple[Wording | None, Wording | None]]:
    """Yield the units of one place in order, each beside the one that replaces it."""
    if len(old) * len(new) > _PAIRS:
        yield from zip_longest(old, new)
        return
    place = 0
    for unit in old:
        match = max(range(place, len(new)), key=lambda other: _likeness(unit, new[other]), default=None)
        if match is None or _likeness(unit, new[match]) < _ALIKE:
            yield unit, None
            continue
        yield from ((None, came) for came in new[place:match])
        yield unit, new[match]
        place = match + 1
    yield from ((None, came) for came in new[place:])


def _likeness(old: Wording, new: Wording) -> float:
    return SequenceMatcher(None, old.text.split(), new.text.split(), autojunk=False).ratio()


def _units(row: dict[str, Any]) -> Iterator[Wording]:
    """Yield the units of a passage, rows with their bars."""
    text = row["text"]
    for unit in (decode(row["structure"]) if row["structure"] else structure_of(text)).units:
        start, end = unit.start, unit.end
        if unit.kind in ("table", "header"):
            line = text.find("\n", end)
            start, end = unit.begin, line if line >= 0 else len(text)
        yield Wording(row["chunk_id"], start, end, text[start:end], row["url"])


def _pages(tables: SetTables, page_ids: Collection[str] | None) -> dict[str, dict[str, Any]]:
    pages = tables.pages.select(["page_id", "title", "url", "version", "updated_at", "author"])
    if page_ids is not None:
        pages = pages.filter(pc.is_in(pages["page_id"], value_set=strings(page_ids)))
    return {row["page_id"]: row for row in pages.to_pylist()}


def _texts(tables: SetTables, page_ids: Collection[str]) -> defaultdict[str, list[dict[str, Any]]]:
    texts = tables.texts.select(_TEXTS)
    found = defaultdict[str, list[dict[str, Any]]](list)
    for row in texts.filter(pc.is_in(texts["page_id"], value_set=strings(page_ids))).to_pylist():
        found[row["page_id"]].append(row)
    return found
