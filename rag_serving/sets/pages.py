"""Pages that meet conditions, and the fields of a page.

Belongs here: conditions on pages over the tables of one reader, mostly column by column. Does not belong here: rows,
items and headings (`tables`), results over pages (`execute`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.artifacts.columns import dictionary_encode
from rag_serving.records.sets import Condition, SetError, SetTables, SetValue
from rag_serving.sets.cells import normalized, value_of
from rag_serving.sets.mentions import Phrase
from rag_serving.sets.tables import MemberPassage, Part, properties_of

Array: TypeAlias = np.ndarray[Any, Any]
PROPERTY = "property:"
COLUMNS = {
    "title": "title", "space": "space", "status": "status", "author": "author", "source": "source",
    "category": "category", "language": "lang", "label": "labels", "above": "ancestors", "updated": "updated_at",
    "words": "words",
}  # fmt: skip
"""Fields that are shown, and the columns they are read from."""
_LINKS = ("links_to", "linked_from")
_DATE = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?")
_KEPT = 8  # tables that something is kept of, and properties of one
_FAR = 120  # passages in all for each page of some, where those are looked up one after the other
_TEXT_COLUMNS = ["chunk_id", "page_id", "title", "url", "anchor", "heading_path", "text", "structure"]
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "lt": lambda one, other: one < other,
    "le": lambda one, other: one <= other,
    "gt": lambda one, other: one > other,
    "ge": lambda one, other: one >= other,
}


def pages_of(where: Sequence[Condition], tables: SetTables) -> Array:
    """Return the positions of the pages that meet all conditions, in the table's order.

    Raises:
        SetError: there is no such field, or it cannot be compared with that.
    """
    fits = _mask(pc.is_in(tables.pages["kind"], value_set=pa.array(["page", "document"])))
    for condition in sorted(where, key=_is_read):
        if _is_read(condition):
            fits &= _read_pages(condition, tables, np.flatnonzero(fits))
        else:
            fits &= _known_pages(condition, tables)
    return np.flatnonzero(fits)


def passages_of(tables: SetTables, page_id: str) -> list[MemberPassage]:
    """Return the passages of a page in order."""
    rows = page_rows(tables, page_id)
    return passages_at(tables, np.arange(rows.start, rows.stop))


def passages_at(tables: SetTables, places: Array) -> list[MemberPassage]:
    """Return passages by their places in the table."""
    few = tables.texts.select(_TEXT_COLUMNS).take(pa.array(places))
    return [MemberPassage(**{**row, "heading_path": tuple(row["heading_path"] or ())}) for row in few.to_pylist()]


def page_rows(tables: SetTables, page_id: str) -> range:
    """Return the places of a page's passages in their table."""
    rows: range = _PAGE_ROWS.of(tables).get(page_id, range(0))
    return rows


def first_passages(tables: SetTables, pages: Sequence[str]) -> dict[str, int]:
    """Return the place of the first passage of each of some pages that has one."""
    return {page: rows.start for page in pages if (rows := page_rows(tables, page))}


def _page_rows(tables: SetTables) -> dict[str, range]:
    """Return the places of each page's passages in their table, which is sorted."""
    ids = tables.texts["page_id"]
    changes = np.flatnonzero(_mask(pc.not_equal(ids.slice(1), ids.slice(0, max(len(ids) - 1, 0))))) + 1
    starts: Array = np.concatenate([np.arange(min(len(ids), 1)), changes])
    ranges = map(range, starts.tolist(), [*changes.tolist(), len(ids)])
    return dict(zip(ids.take(pa.array(starts)).to_pylist(), ranges, strict=False))


def properties(tables: SetTables, key: str, pages: Sequence[str]) -> dict[str, list[Part]]:
    """Return the values of a property by page."""
    known: dict[str, dict[str, list[Part]]] = _PROPERTIES.of(tables)
    plain = normalized(key)
    found = known.get(plain)
    if found is None:
        is_few = len(pages) * _FAR <= tables.texts.num_rows
        every, found = pages if is_few else tables.pages["page_id"].to_pylist(), {}
        for passage in passages_at(tables, _rows_with(tables, every, Phrase(key).sieved_keys)):
            for part in properties_of(passage, plain):
                found.setdefault(passage.page_id, []).append(part)
        if not is_few:
            known[plain] = found
            for old in list(known)[:-_KEPT]:
                known.pop(old, None)
    return {page: found[page] for page in pages if page in found}


def mentioning(tables: SetTables, phrase: Phrase, pages: Sequence[str]) -> dict[str, int]:
    """Return the pages that have a phrase in a passage or a heading above one, with the place of the first passage
    that has it, else of the first below such a heading."""
    rows, wanted = _rows_with(tables, pages, phrase.rows), set(pages)
    ids = tables.texts["page_id"].take(pa.array(rows)).to_pylist()
    below = {page: row for page, row in headed(tables, phrase).items() if page in wanted}
    return below | dict(zip(reversed(ids), reversed(rows.tolist()), strict=True))


def headed(tables: SetTables, phrase: Phrase) -> dict[str, int]:
    """Return the pages with a phrase in a heading, with the place of the first passage below it."""
    rows, numbers, headings = _HEADINGS.of(tables)
    has_it = np.zeros(len(headings), bool)
    has_it[phrase.rows(headings)] = True
    found = np.unique(rows[has_it[numbers]])[::-1]
    return dict(zip(tables.texts["page_id"].take(pa.array(found)).to_pylist(), found.tolist(), strict=True))


def _headings(tables: SetTables) -> tuple[Array, Array, pa.Array]:
    """Return the passage of each heading above one, its number, and the distinct headings."""
    rows, headings = _flat(tables.texts["heading_path"])
    names, numbers = dictionary_encode(pa.chunked_array([headings]))
    return rows, numbers, pa.array(names, pa.string())


def holds(condition: Condition, texts: Sequence[str]) -> bool:
    """Return whether one of some texts fits a condition; of `ne`, that none is the value."""
    operator, value = condition.operator, condition.value
    if operator in ("eq", "ne"):
        return any(normalized(text) == normalized(value) for text in texts) == (operator == "eq")
    if operator == "contains":
        phrase = Phrase(value)
        return any(phrase.is_in(text) for text in texts)
    wanted = measure(condition)
    values = (value_of(text) for text in texts)
    return any(COMPARE[operator](found.amount, wanted.amount) for found in values if found and are_alike(found, wanted))


def measure(condition: Condition) -> SetValue:
    """Return the value that a condition compares with.

    Raises:
        SetError: it is none that has an order.
    """
    wanted = value_of(condition.value)
    if wanted is None or wanted.kind == "flag":
        raise SetError(f"{condition.value!r} is nothing that {condition.field} could be compared with")
    return wanted


def are_alike(one: SetValue, other: SetValue) -> bool:
    """Return whether two values can be compared and added up."""
    return (one.kind, one.unit) == (other.kind, other.unit)


def _is_read(condition: Condition) -> bool:
    """Return whether a condition needs the pages' texts."""
    return condition.field == "mentions" or condition.field.startswith(PROPERTY)


def _read_pages(condition: Condition, tables: SetTables, places: Array) -> Array:
    ids = tables.pages["page_id"].take(pa.array(places)).to_pylist()
    fits = np.zeros(tables.pages.num_rows, bool)
    if condition.field == "mentions":
        if condition.operator not in ("contains", "eq"):
            raise SetError("words of a page can be looked for, and not compared")
        phrase = Phrase(condition.value)
        with_phrase = mentioning(tables, phrase, ids)
        fits[places] = [page in with_phrase for page in ids]
        fits[phrase.rows(tables.pages["title"])] = True
        return fits
    if condition.operator not in ("eq", "ne", "contains"):
        measure(condition)
    found = properties(tables, condition.field.removeprefix(PROPERTY), ids)
    fits[places] = [holds(condition, [part.cells[0][1] for part in found.get(page, ())]) for page in ids]
    return fits


def _rows_with(tables: SetTables, pages: Sequence[str], search: Callable[[pa.ChunkedArray], Array]) -> Array:
    """Return the places of passages of some pages that a search picks, in order."""
    texts = tables.texts
    if len(pages) * _FAR <= texts.num_rows:
        ranges = [np.arange(rows.start, rows.stop) for rows in (page_rows(tables, page) for page in sorted(pages))]
        places = np.concatenate([np.empty(0, int), *ranges]).astype(int)
        return places[search(texts["text"].take(pa.array(places)))]
    found = search(texts["text"])
    ids = texts["page_id"].take(pa.array(found))
    return found[_mask(pc.is_in(ids, value_set=pa.array(pages, pa.string())))]


def _known_pages(condition: Condition, tables: SetTables) -> Array:
    """Return the pages that meet a condition on their facts."""
    name, operator = condition.field, condition.operator
    pages = tables.pages
    if name == "updated":
        return _updated(condition, pages["updated_at"])
    if name == "words" and operator != "contains":
        return _words(condition, pages["words"])
    if name not in COLUMNS and name not in _LINKS:
        raise SetError(f"pages have no field {name!r}")
    if operator not in ("eq", "ne", "contains"):
        raise SetError(f"{name} has no order")
    if operator == "contains" and (name in _LINKS or name == "above"):
        raise SetError(f"{name} is a page")
    fits = _with_text(condition, pages)
    return ~fits if operator == "ne" else fits


def _with_text(condition: Condition, pages: pa.Table) -> Array:
    """Return which pages have the value of a condition, or contain it."""
    name, value = condition.field, condition.value
    if name == "linked_from":
        return _linked_from(value, pages)
    fits = np.zeros(pages.num_rows, bool)
    if name == "links_to":
        parents, links = _flat(pages["links"])
        is_it = pc.or_kleene(pc.equal(links.field("page_id"), value), pc.equal(links.field("url"), value))
        fits[parents[_mask(is_it)]] = True
    elif name == "above":
        parents, ancestors = _flat(pages["ancestors"])
        fits[parents[_mask(pc.equal(ancestors, value))]] = True
    elif name == "label":
        parents, labels = _flat(pages["labels"])
        fits[parents[_fitting(condition, labels)]] = True
    else:
        fits[_fitting(condition, pc.cast(pages[COLUMNS[name]], pa.string()))] = True
    return fits


def _fitting(condition: Condition, texts: pa.ChunkedArray | pa.Array) -> Array:
    """Return the places of the texts that are, or contain, the value of a condition."""
    phrase = Phrase(condition.value)
    if condition.operator == "contains":
        return phrase.rows(texts)
    places: Array = phrase.sieved(texts)
    few = texts.take(pa.array(places)).to_pylist()
    fitting: Array = places[np.array([normalized(text) == phrase.normalized for text in few], bool)]
    return fitting


def _flat(lists: pa.ChunkedArray) -> tuple[Array, pa.Array]:
    """Return the values of a column of lists, and the row of each."""
    whole = lists.combine_chunks()
    parents: Array = np.asarray(pc.list_parent_indices(whole))
    return parents, pc.list_flatten(whole)


def _mask(fits: pa.ChunkedArray | pa.Array) -> Array:
    """Return an array of flags, those that are not known being false."""
    flags: Array = np.array(pc.fill_null(fits, False), bool)
    return flags


def _linked_from(page: str, pages: pa.Table) -> Array:
    row = pc.index(pages["page_id"], page).as_py()
    if row < 0:
        raise SetError("there is no page whose links could be followed")
    targets = [link["page_id"] for link in pages["links"][row].as_py() or () if link["page_id"]]
    return _mask(pc.is_in(pages["page_id"], value_set=pa.array(targets, pa.string())))


def _updated(condition: Condition, times: pa.ChunkedArray) -> Array:
    begin, end = _span(condition.value)
    after = _mask(pc.greater_equal(times, pa.scalar(begin, times.type)))
    before = _mask(pc.less(times, pa.scalar(end, times.type)))
    is_known = _mask(pc.is_valid(times))
    match condition.operator:
        case "eq":
            return after & before
        case "ne":
            return ~(after & before)
        case "lt":
            return is_known & ~after
        case "le":
            return before
        case "gt":
            return is_known & ~before
        case "ge":
            return after
        case _:
            raise SetError("a date is compared, and not searched for words")


def _span(written: str) -> tuple[datetime, datetime]:
    """Return when a year, month or day begins, and the next one."""
    match = _DATE.fullmatch(written)
    if not match:
        raise SetError(f"{written!r} is no date")
    year, month, day = (int(part) if part else 0 for part in match.groups())
    try:
        begin = datetime(year, month or 1, day or 1, tzinfo=UTC)
        if day:
            return begin, begin + timedelta(days=1)
        return begin, datetime(year + (month in (0, 12)), month % 12 + 1 if month else 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise SetError(f"{written!r} is no date") from error


def _words(condition: Condition, counts: pa.ChunkedArray) -> Array:
    wanted = value_of(condition.value)
    if wanted is None or (wanted.kind, wanted.unit) != ("number", ""):
        raise SetError(f"{condition.value!r} is no number of words")
    if condition.operator in ("eq", "ne"):
        return np.array([(count == wanted.amount) == (condition.operator == "eq") for count in _decimals(counts)], bool)
    compare = COMPARE[condition.operator]
    return np.array([count is not None and compare(count, wanted.amount) for count in _decimals(counts)], bool)


def _decimals(counts: pa.ChunkedArray) -> Iterator[Decimal | None]:
    yield from (None if count is None else Decimal(count) for count in counts.to_pylist())


class PerTables:
    """A cache by the identity of the last few tables. Safe to use from several threads."""

    def __init__(self, make: Callable[[SetTables], Any]) -> None:
        self._make, self._lock = make, Lock()
        self._kept: dict[int, tuple[SetTables, Any]] = {}

    def of(self, tables: SetTables) -> Any:
        """Return the product of the tables, made once."""
        kept = self._kept.get(id(tables))
        if kept is None or kept[0] is not tables:
            kept = tables, self._make(tables)  # without the lock: others do not wait for it
            with self._lock:
                self._kept[id(tables)] = kept
                while len(self._kept) > _KEPT:
                    del self._kept[next(iter(self._kept))]
        return kept[1]


_HEADINGS = PerTables(_headings)
_PAGE_ROWS = PerTables(_page_rows)
_PROPERTIES = PerTables(lambda _: {})  # of all pages, by key
