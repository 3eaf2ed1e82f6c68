"""Queries over sets, run on what one reader may see.

Belongs here: members in order, values and groups. Does not belong here: which pages fit (`pages`), where rows are
(`tables`), the query in words (`rules`), its certificate (`certificate`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from functools import lru_cache
from itertools import islice
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.records.answers import MOST_MEMBERS
from rag_serving.records.sets import (
    Condition,
    Kind,
    Operation,
    Operator,
    SetError,
    SetGroup,
    SetMember,
    SetQuery,
    SetResult,
    SetTables,
    SetValue,
)
from rag_serving.sets.cells import EMPTY, normalized, value_of, value_shown
from rag_serving.sets.mentions import Phrase
from rag_serving.sets.pages import (
    COLUMNS,
    PROPERTY,
    are_alike,
    first_passages,
    holds,
    measure,
    mentioning,
    pages_of,
    passages_at,
    passages_of,
    properties,
)
from rag_serving.sets.rules import rule_of
from rag_serving.sets.tables import MemberPassage, Part, headings_of, items_of, rows_of

_ALWAYS = ("title", "space", "updated")
_OPERATIONS = {"sum": "sum of {}", "average": "average of {}", "min": "least of {}", "max": "greatest of {}"}
_ADDED = ("number", "money", "duration", "size")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = 60  # of sums
_JSON = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


class _PageFields:
    """Pages by their places in the table."""

    def __init__(self, tables: SetTables, places: np.ndarray) -> None:
        self._tables = tables
        self._places = places
        self._texts: dict[str, Sequence[Sequence[str]]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def texts(self, name: str) -> Sequence[Sequence[str]]:
        """Return the texts of a field of each page."""
        if name not in self._texts:
            self._texts[name] = list(_page_texts(name, self._tables, self._places))
        return self._texts[name]

    def column(self, name: str) -> list[str]:
        """Return a column of the table."""
        values: list[str] = self._tables.pages[name].take(pa.array(self._places)).to_pylist()
        return values

    def kept(self, at: Sequence[int]) -> _PageFields:
        """Return some of them."""
        return _PageFields(self._tables, self._places[list(at)])

    def foremost(self, query: SetQuery) -> _PageFields:
        """Return those of them that may be the first by a number or a date."""
        name, is_greatest = query.order or ("", False)
        if name not in ("updated", "words") or query.first is None:
            return self
        values = self._tables.pages[COLUMNS[name]].take(pa.array(self._places))
        values = pc.cast(values, pa.date32() if name == "updated" else values.type)
        way = "descending" if is_greatest else "ascending"
        is_first = np.asarray(pc.rank(values, sort_keys=way, tiebreaker="min")) <= query.first
        return _PageFields(self._tables, self._places[is_first])

    def _shown(self, name: str) -> Sequence[str]:
        """Return the displayed text of a field of each page."""
        if name.startswith(PROPERTY) or name == "label":
            return [", ".join(texts) for texts in self.texts(name)]
        shown: list[str] = pc.fill_null(_text_column(name, self._tables.pages, self._places), "").to_pylist()
        return shown

    def members(self, query: SetQuery) -> list[SetMember]:
        """Return them as members."""
        fields = _shown_fields(query)
        names = [name.removeprefix(PROPERTY) for name in fields]
        rows: Iterable[tuple[str, ...]] = zip(*map(self._shown, fields), strict=True)
        columns = map(self.column, ("page_id", "title", "url"))
        moments = self._tables.pages["updated_at"].take(pa.array(self._places))
        times = pc.cast(moments, pa.int64()).to_pylist()  # ten times as fast as times of Arrow
        updates = (None if time is None else _EPOCH + timedelta(milliseconds=time) for time in times)
        return [
            SetMember(page, page, title, url, tuple(zip(names, row, strict=True)), updated_at=updated)
            for row, page, title, url, updated in zip(rows, *columns, updates, strict=True)
        ]


class _Sections:
    """Rows, items or headings; `updated`: when their pages were."""

    def __init__(self, parts: Sequence[Part], updated: Mapping[str, datetime]) -> None:
        self._parts = parts
        self._updated = updated

    def __len__(self) -> int:
        return len(self._parts)

    def texts(self, name: str) -> Sequence[Sequence[str]]:
        """Return the texts of a field of each."""
        return [_field(part, name) for part in self._parts]

    def kept(self, at: Sequence[int]) -> _Sections:
        """Return some of them."""
        return _Sections([self._parts[place] for place in at], self._updated)

    def members(self, query: SetQuery) -> list[SetMember]:
        """Return them as members."""
        return [_part_member(part, query, self._updated) for part in self._parts]


_Rows = _PageFields | _Sections


def execute(query: SetQuery, tables: SetTables, generation: str) -> SetResult:
    """Return the whole set of a query.

    Raises:
        SetError: it cannot be made honestly.
    """
    _check(query)
    unordered: _Rows = _pages(query, tables) if query.kind == "pages" else _parts(query, tables)
    rows = unordered.kept(_order(query, unordered))
    value, made = _value(query, rows)
    unquoted = rows.members(query)
    members = tuple(_quoted(query, tables, unquoted) if query.kind == "pages" else unquoted)
    return SetResult(
        query=query,
        rule=rule_of(query, tables),
        members=members,
        value=value,
        made=made,
        groups=tuple(_groups(query, rows)) if query.group else (),
        pages=tables.pages.num_rows,
        passages=tables.texts.num_rows,
        generation=generation,
        digest=digest_of(query, members, value),
    )


def digest_of(query: SetQuery, members: Sequence[SetMember], value: str | None) -> str:
    """Return the digest over a query, the keys and cells of its members in order, and its value."""
    shape = [(member.key, *member.cells) for member in members]
    return sha256_of({"query": query.payload(), "members": shape, "value": value})


def sha256_of(shape: object) -> str:
    """Return the SHA-256 of the one JSON text of a shape: keys sorted, no white space."""
    return hashlib.sha256(_JSON.encode(shape).encode()).hexdigest()


def _check(query: SetQuery) -> None:
    if query.kind not in get_args(Kind) or query.operation not in get_args(Operation):
        raise SetError(f"there is no {query.operation} of {query.kind}")
    if unknown := {each.operator for each in query.where}.difference(get_args(Operator)):
        raise SetError(f"there is no comparison {min(unknown)}")
    if (query.kind == "pages") == bool(query.sections):
        raise SetError("pages are of no section, and rows, items and headings of one at least")
    if query.column is None if query.operation in _OPERATIONS else query.column and query.operation == "count":
        raise SetError(f"{query.operation} of {query.column!r} cannot be made")
    if query.first is not None and (query.first < 1 or not query.order):
        raise SetError("the first are those by an order")


def _pages(query: SetQuery, tables: SetTables) -> _PageFields:
    """Return the pages that fit, by title."""
    pages = _PageFields(tables, pages_of(query.where, tables))
    if query.first is not None:  # the first few are known before all are in order
        pages = pages.foremost(query)
        pages = pages.kept(_order(query, pages))
    keys = list(zip(map(normalized, pages.column("title")), pages.column("page_id"), strict=True))
    return pages.kept(sorted(range(len(keys)), key=keys.__getitem__))


def _shown_fields(query: SetQuery) -> list[str]:
    named = [*(each.field for each in query.where), query.column, query.group, query.order and query.order[0]]
    return list(dict.fromkeys([*_ALWAYS, *(name for name in named if name and _is_shown(name))]))


def _is_shown(name: str) -> bool:
    return (name in COLUMNS and name != "above") or name.startswith(PROPERTY)


def _page_texts(name: str, tables: SetTables, places: np.ndarray) -> Iterator[Sequence[str]]:
    """Yield the texts of a field of pages."""
    if name.startswith(PROPERTY):
        ids = tables.pages["page_id"].take(pa.array(places)).to_pylist()
        found = properties(tables, name.removeprefix(PROPERTY), ids)
        yield from ([part.cells[0][1] for part in found.get(page, ())] for page in ids)
        return
    if not _is_shown(name):
        raise SetError(f"pages have no field {name!r} that could be shown")
    values = _text_column(name, tables.pages, places).to_pylist()
    yield from (() if value is None else value if name == "label" else (value,) for value in values)


def _text_column(name: str, pages: pa.Table, places: np.ndarray) -> pa.ChunkedArray:
    """Return a field of some pages as texts, labels as lists of them."""
    column = pages[COLUMNS[name]].take(pa.array(places))
    if name == "updated":
        column = pc.cast(column, pa.date32())  # ten times as fast as `strftime`
    return column if name == "label" else pc.cast(column, pa.string())


def _parts(query: SetQuery, tables: SetTables) -> _Sections:
    """Return the rows, items or headings that fit, in the order of the sections and their pages."""
    read = [part for section in dict.fromkeys(query.sections) for part in _read(query, tables, *section)]
    parts = list({_key(part, query): part for part in read}.values())
    if len(parts) < len({(_key(part, query), part.cells) for part in read}):
        raise SetError("one heading is below two of the sections")
    named = {normalized(name) for part in parts for name, _ in part.cells}
    fields = [*(each.field for each in query.where), query.column, query.group, query.order and query.order[0]]
    if missing := [name for name in fields if name and normalized(name) not in named]:
        raise SetError(f"there is no column {missing[0]!r}")
    for condition in query.where:
        if condition.operator not in ("eq", "ne", "contains"):
            measure(condition)
    parts = [part for part in parts if all(_part_holds(condition, part) for condition in query.where)]
    return _Sections(parts, _updates(tables, [page for page, _ in query.sections]))


def _part_holds(condition: Condition, part: Part) -> bool:
    texts = _field(part, condition.field)
    return bool(texts) and holds(condition, texts)


def _read(query: SetQuery, tables: SetTables, page_id: str, anchor: str) -> Iterator[Part]:
    page = passages_of(tables, page_id)
    passages = [passage for passage in page if passage.anchor == anchor]
    if query.kind == "headings" and page and not anchor:
        return headings_of(page, page[0].heading_path[:1])
    if not passages:
        raise SetError(f"there is no section {anchor!r} on page {page_id}")
    if query.kind == "headings":
        return headings_of(page, passages[0].heading_path)
    return rows_of(passages) if query.kind == "rows" else items_of(passages)


def _updates(tables: SetTables, pages: Sequence[str]) -> dict[str, datetime]:
    wanted = pa.array(pages, pa.string())
    rows = np.flatnonzero(np.asarray(pc.is_in(tables.pages["page_id"], value_set=wanted)))
    few = tables.pages.select(["page_id", "updated_at"]).take(pa.array(rows)).to_pylist()
    return {row["page_id"]: row["updated_at"] for row in few}


def _field(part: Part, name: str) -> list[str]:
    return [text for column, text in part.cells if normalized(column) == normalized(name)]


def _cells(rows: _Rows, name: str) -> list[str]:
    """Return the one text of a field of each member, "" if it has none.

    Raises:
        SetError: one has several.
    """
    cells = []
    for texts in rows.texts(name):
        if len(texts) > 1 and len(set(map(normalized, texts))) > 1:
            raise SetError(f"a member has several values of {name}")
        cells.append(texts[0] if texts and texts[0] not in EMPTY else "")
    return cells


def _order(query: SetQuery, rows: _Rows) -> Sequence[int]:
    """Return the places of members in their order, cut where the query says; those alike at the border are all kept."""
    if not query.order:
        return range(len(rows))
    name, is_greatest_first = query.order
    cells = _cells(rows, name)
    keys = _sort_keys(name, cells)
    known = [place for place, cell in enumerate(cells) if cell]
    places = sorted(known, key=lambda place: keys[place], reverse=is_greatest_first)
    if query.first is None:
        return [*places, *(place for place, cell in enumerate(cells) if not cell)]
    end = min(query.first, len(places))
    while 0 < end < len(places) and keys[places[end]] == keys[places[end - 1]]:
        end += 1
    return places[:end]


def _sort_keys(name: str, cells: Sequence[str]) -> Sequence[Decimal | str]:
    """Return the sort keys of texts: their values, or the texts if none is a value."""
    values = [value_of(cell) for cell in cells]
    found = [value for value in values if value]
    if not found or name == "title":
        return [normalized(cell) for cell in cells]
    if len(found) < sum(map(bool, cells)) or not all(are_alike(value, found[0]) for value in found):
        raise SetError(f"the values of {name} have no common order")
    return [value.amount if value else Decimal(0) for value in values]


def _value(query: SetQuery, rows: _Rows) -> tuple[str | None, str]:
    """Return the value of a query, and how it was made."""
    if query.operation == "list":
        return _cells(rows, query.column)[0] or None if query.column and len(rows) == 1 else None, ""
    if query.operation == "count":
        return str(len(rows)), f"{len(rows)} {query.kind} counted"
    values = _values(query, rows)
    if not values:
        raise SetError(f"no member has a value of {query.column}")
    column = (query.column or "").removeprefix(PROPERTY)
    noun = f"{len(values)} value{'s' if len(values) > 1 else ''} of {column}"
    return _made(query, values)[1], _OPERATIONS[query.operation].format(noun)


def _made(query: SetQuery, values: Sequence[SetValue]) -> tuple[Decimal, str]:
    amounts = [value.amount for value in values]
    with localcontext(prec=_DIGITS):
        if query.operation in ("min", "max"):
            amount = min(amounts) if query.operation == "min" else max(amounts)
        else:
            amount = sum(amounts, Decimal(0)) / (len(amounts) if query.operation == "average" else 1)
        return amount, value_shown(amount, values[0].kind, values[0].unit)


def _values(query: SetQuery, rows: _Rows) -> list[SetValue]:
    """Return the values of the column, all of one kind and unit.

    Raises:
        SetError: a cell that is not empty cannot be read, or is of another kind.
    """
    column = query.column or ""
    values: list[SetValue] = []
    for cell in filter(None, _cells(rows, column)):
        value = value_of(cell)
        if value is None or value.kind not in (*_ADDED, *(["date"] if query.operation in ("min", "max") else [])):
            raise SetError(f"{cell!r} of {column} cannot be read as a value")
        if values and not are_alike(value, values[0]):
            raise SetError(f"{cell!r} of {column} is of another kind than {values[0].text!r}")
        values.append(value)
    return values


def _groups(query: SetQuery, rows: _Rows) -> Iterator[SetGroup]:
    """Yield the groups, the one with the greatest value or the most members first."""
    names: dict[str, str] = {}
    places: dict[str, list[int]] = {}
    plain = lru_cache(normalized)
    for place, texts in enumerate(rows.texts(query.group or "")):
        for key, text in {plain(text): text for text in texts or [""]}.items():
            names.setdefault(key, text)
            places.setdefault(key, []).append(place)
    made = {name: _group_value(query, rows.kept(at)) for name, at in places.items()}
    for name in sorted(places, key=lambda name: (-made[name][0], -len(places[name]), name)):
        yield SetGroup(names[name], len(places[name]), made[name][1])


def _group_value(query: SetQuery, rows: _Rows) -> tuple[Decimal, str | None]:
    if query.operation not in _OPERATIONS:
        return Decimal(len(rows)), None
    values = _values(query, rows)
    return _made(query, values) if values else (Decimal("-Infinity"), None)


def _key(part: Part, query: SetQuery) -> str:
    chunk = part.passage.chunk_id
    return chunk if query.kind == "headings" else f"{chunk}:{part.start}:{part.end}"


def _part_member(part: Part, query: SetQuery, updated: Mapping[str, datetime]) -> SetMember:
    passage, start, end = part.passage, part.start, part.end
    return SetMember(
        _key(part, query), passage.page_id, passage.title, passage.url, part.cells, passage.chunk_id, start, end,
        passage.text[start:end], updated.get(passage.page_id),
    )  # fmt: skip


def _quoted(query: SetQuery, tables: SetTables, members: Sequence[SetMember]) -> Iterator[SetMember]:
    """Yield pages, those of one reply with a quote: what the query looked for, else their beginning."""
    shown = members[:MOST_MEMBERS]
    ids = [member.page_id for member in shown]
    phrase, places, parts = None, dict[str, int](), dict[str, list[Part]]()
    for condition in query.where:
        if condition.field == "mentions":
            phrase = Phrase(condition.value)
            places = mentioning(tables, phrase, ids)
        elif condition.field.startswith(PROPERTY):
            parts = properties(tables, condition.field.removeprefix(PROPERTY), ids)
    others = first_passages(tables, [page for page in ids if page not in places and page not in parts])
    places |= others
    read = passages_at(tables, np.array(list(places.values()), int))
    passages = {passage.page_id: passage for passage in read}
    for member in shown:
        if found := parts.get(member.page_id):
            yield _with_quote(member, found[0].passage, found[0].start, found[0].end)
        elif passage := passages.get(member.page_id):
            yield _with_quote(member, passage, *_unit_of(passage, None if member.page_id in others else phrase))
        else:
            yield member
    yield from islice(members, MOST_MEMBERS, None)


def _unit_of(passage: MemberPassage, phrase: Phrase | None) -> tuple[int, int]:
    """Return where the unit with a phrase is, else the first."""
    units = passage.units().units
    if not units:
        return 0, len(passage.text)
    first = next((unit for unit in units if unit.kind not in ("heading", "header")), units[0])
    unit = next((unit for unit in units if phrase and phrase.is_in(unit.of(passage.text))), first)
    return unit.start, unit.end


def _with_quote(member: SetMember, passage: MemberPassage, start: int, end: int) -> SetMember:
    quote = passage.text[start:end]
    return replace(member, url=passage.url, chunk_id=passage.chunk_id, start=start, end=end, quote=quote)
