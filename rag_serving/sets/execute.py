"""Queries over sets, run on what one reader may see: members in order, values and groups; the rule in words, and the
certificate that a receipt keeps and that is counted again without any model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from functools import lru_cache
from itertools import islice
from typing import Any, get_args

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
from rag_serving.sets.cells import (
    EMPTY,
    MemberPassage,
    Part,
    headings_of,
    items_of,
    normalized,
    rows_of,
    value_of,
    value_shown,
)
from rag_serving.sets.pages import (
    COLUMNS,
    PROPERTY,
    Phrase,
    are_alike,
    holds,
    measure,
    mentioning,
    page_rows,
    pages_of,
    passages_at,
    passages_of,
    properties,
)

_ALWAYS = ("title", "space", "updated")
_OPERATIONS = {"sum": "sum of {}", "average": "average of {}", "min": "least of {}", "max": "greatest of {}"}
_ADDED = ("number", "money", "duration", "size")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = 60  # of sums
_JSON = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
_SIGNS = {"eq": "=", "ne": "≠", "contains": "has", "lt": "<", "le": "≤", "gt": ">", "ge": "≥"}
_SINCE = {"eq": "in", "ne": "not in", "lt": "before", "le": "up to", "gt": "after", "ge": "since"}
_PAGES = {
    "label": {"eq": "with the label {}", "ne": "without the label {}", "contains": "with a label that has {}"},
    "above": {"eq": "below *{}*", "ne": "not below *{}*"},
    "space": {"eq": "in the space {}", "ne": "outside the space {}", "contains": "in a space whose key has {}"},
    "title": {"eq": "with the title *{}*", "ne": "with another title than *{}*", "contains": "whose title has *{}*"},
    "mentions": {"eq": "whose text has *{}*", "contains": "whose text has *{}*"},
    "links_to": {"eq": "that link to *{}*", "ne": "that do not link to *{}*"},
    "linked_from": {"eq": "that *{}* links to", "ne": "that *{}* does not link to"},
}
_NOUNS = {"rows": "rows of the table *{}* on *{}*", "items": "items under *{}* on *{}*",
          "headings": "headings below *{}* on *{}*"}  # fmt: skip
_PAGE_NOUNS = {"rows": "rows of the tables on *{}*", "items": "items on *{}*", "headings": "headings of *{}*"}


class _PageFields:
    """Pages by their places in the table."""

    def __init__(self, tables: SetTables, places: np.ndarray) -> None:
        self._tables, self._places = tables, places
        self._texts: dict[str, Sequence[Sequence[str]]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def texts(self, name: str) -> Sequence[Sequence[str]]:
        """Return the texts of a field of each page."""
        if name not in self._texts:
            self._texts[name] = list(self._read(name))
        return self._texts[name]

    def _read(self, name: str) -> Iterator[Sequence[str]]:
        if name.startswith(PROPERTY):
            ids = self.column("page_id").to_pylist()
            found = properties(self._tables, name.removeprefix(PROPERTY), ids)
            yield from ([part.cells[0][1] for part in found.get(page, ())] for page in ids)
            return
        if not _is_shown(name):
            raise SetError(f"pages have no field {name!r} that could be shown")
        values = self._text_column(name).to_pylist()
        yield from (() if value is None else value if name == "label" else (value,) for value in values)

    def column(self, name: str) -> pa.ChunkedArray:
        """Return a column of the table."""
        return self._tables.pages[name].take(pa.array(self._places))

    def _text_column(self, name: str) -> pa.ChunkedArray:
        """Return a field as texts, labels as lists of them."""
        column = self.column(COLUMNS[name])
        if name == "updated":
            column = pc.cast(column, pa.date32())  # ten times as fast as `strftime`
        return column if name == "label" else pc.cast(column, pa.string())

    def kept(self, at: Sequence[int]) -> _PageFields:
        """Return some of them."""
        return _PageFields(self._tables, self._places[list(at)])

    def foremost(self, query: SetQuery) -> _PageFields:
        """Return those of them that may be the first by a number or a date."""
        name, is_greatest = query.order or ("", False)
        if name not in ("updated", "words") or query.first is None:
            return self
        values = self.column(COLUMNS[name])
        values = pc.cast(values, pa.date32() if name == "updated" else values.type)
        way = "descending" if is_greatest else "ascending"
        is_first = np.asarray(pc.rank(values, sort_keys=way, tiebreaker="min")) <= query.first
        return _PageFields(self._tables, self._places[is_first])

    def members(self, query: SetQuery) -> list[SetMember]:
        """Return them as members."""
        fields = list(dict.fromkeys([*_ALWAYS, *filter(_is_shown, _fields(query))]))
        names = [name.removeprefix(PROPERTY) for name in fields]
        rows: Iterable[tuple[str, ...]] = zip(*map(self._shown, fields), strict=True)
        columns = (self.column(name).to_pylist() for name in ("page_id", "title", "url"))
        times = pc.cast(self.column("updated_at"), pa.int64()).to_pylist()  # ten times as fast as times of Arrow
        updates = (None if time is None else _EPOCH + timedelta(milliseconds=time) for time in times)
        return [
            SetMember(page, page, title, url, tuple(zip(names, row, strict=True)), updated_at=updated)
            for row, page, title, url, updated in zip(rows, *columns, updates, strict=True)
        ]

    def _shown(self, name: str) -> Sequence[str]:
        if name.startswith(PROPERTY) or name == "label":
            return [", ".join(texts) for texts in self.texts(name)]
        shown: list[str] = pc.fill_null(self._text_column(name), "").to_pylist()
        return shown


class _Sections:
    """Rows, items or headings; `updated`: when their pages were."""

    def __init__(self, parts: Sequence[Part], updated: Mapping[str, datetime]) -> None:
        self._parts, self._updated = parts, updated

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
        members = []
        for part in self._parts:
            (chunk_id, page_id, title, url, *_), start, end = part.passage, part.start, part.end
            place = chunk_id, start, end, part.passage.text[start:end]
            found = SetMember(_key(part, query), page_id, title, url, part.cells, *place, self._updated.get(page_id))
            members.append(found)
        return members


_Rows = _PageFields | _Sections


def execute(query: SetQuery, tables: SetTables, generation: str) -> SetResult:
    """Return the whole set of a query. Raises SetError: it cannot be made honestly."""
    _check(query)
    unordered: _Rows = _pages(query, tables) if query.kind == "pages" else _parts(query, tables)
    rows = unordered.kept(_order(query, unordered))
    value, made = _value(query, rows)
    unquoted = rows.members(query)
    members = tuple(_quoted(query, tables, unquoted) if query.kind == "pages" else unquoted)
    shape = {"query": query.payload(), "members": [(one.key, *one.cells) for one in members], "value": value}
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
        digest=sha256_of(shape),
    )


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
    titles, ids = pages.column("title").to_pylist(), pages.column("page_id").to_pylist()
    keys = list(zip(map(normalized, titles), ids, strict=True))
    return pages.kept(sorted(range(len(keys)), key=keys.__getitem__))


def _fields(query: SetQuery) -> list[str]:
    """Return the fields that a query names."""
    named = [*(each.field for each in query.where), query.column, query.group, query.order and query.order[0]]
    return [name for name in named if name]


def _is_shown(name: str) -> bool:
    return (name in COLUMNS and name != "above") or name.startswith(PROPERTY)


def _parts(query: SetQuery, tables: SetTables) -> _Sections:
    """Return the rows, items or headings that fit, in the order of the sections and their pages."""
    read = [part for section in dict.fromkeys(query.sections) for part in _read(query, tables, *section)]
    parts = list({_key(part, query): part for part in read}.values())
    if len(parts) < len({(_key(part, query), part.cells) for part in read}):
        raise SetError("one heading is below two of the sections")
    named = {normalized(name) for part in parts for name, _ in part.cells}
    if missing := [name for name in _fields(query) if normalized(name) not in named]:
        raise SetError(f"there is no column {missing[0]!r}")
    for condition in query.where:
        if condition.operator not in ("eq", "ne", "contains"):
            measure(condition)
        parts = [part for part in parts if (texts := _field(part, condition.field)) and holds(condition, texts)]
    is_of_them = pc.is_in(tables.pages["page_id"], value_set=pa.array([page for page, _ in query.sections]))
    few = tables.pages.select(["page_id", "updated_at"]).filter(is_of_them).to_pylist()
    return _Sections(parts, {row["page_id"]: row["updated_at"] for row in few})


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


def _field(part: Part, name: str) -> list[str]:
    return [text for column, text in part.cells if normalized(column) == normalized(name)]


def _cells(rows: _Rows, name: str) -> list[str]:
    """Return the one text of a field of each member, "" if it has none. Raises SetError: one has several."""
    cells = []
    for texts in rows.texts(name):
        if len(texts) > 1 and len(set(map(normalized, texts))) > 1:
            raise SetError(f"a member has several values of {name}")
        cells.append(texts[0] if texts and texts[0] not in EMPTY else "")
    return cells


def _order(query: SetQuery, rows: _Rows) -> Sequence[int]:
    """Return the places of members in their order, by values, or by the texts if none is one; cut where the query says:
    those alike at the border are all kept."""
    if not query.order:
        return range(len(rows))
    name, is_greatest_first = query.order
    cells = _cells(rows, name)
    values = [value_of(cell) for cell in cells]
    found = [value for value in values if value]
    keys: Sequence[Decimal | str] = [value.amount if value else Decimal(0) for value in values]
    if not found or name == "title":
        keys = [normalized(cell) for cell in cells]
    elif len(found) < sum(map(bool, cells)) or not all(are_alike(value, found[0]) for value in found):
        raise SetError(f"the values of {name} have no common order")
    known = [place for place, cell in enumerate(cells) if cell]
    places = sorted(known, key=lambda place: keys[place], reverse=is_greatest_first)
    if query.first is None:
        return [*places, *(place for place, cell in enumerate(cells) if not cell)]
    end = min(query.first, len(places))
    while 0 < end < len(places) and keys[places[end]] == keys[places[end - 1]]:
        end += 1
    return places[:end]


def _value(query: SetQuery, rows: _Rows) -> tuple[str | None, str]:
    """Return the value of a query, and how it was made."""
    if query.operation == "list":
        return _cells(rows, query.column)[0] or None if query.column and len(rows) == 1 else None, ""
    if query.operation == "count":
        return str(len(rows)), f"{len(rows)} {query.kind} counted"
    if not (made := _made(query, rows)):
        raise SetError(f"no member has a value of {query.column}")
    _, value, count = made
    noun = f"{count} value{'s' if count > 1 else ''} of {(query.column or '').removeprefix(PROPERTY)}"
    return value, _OPERATIONS[query.operation].format(noun)


def _made(query: SetQuery, rows: _Rows) -> tuple[Decimal, str, int] | None:
    """Return the amount that is made of the values of the column, in words too, and of how many; None: of none. Raises
    SetError: a cell that is not empty cannot be read, or is of another kind or unit."""
    column, values = query.column or "", list[SetValue]()
    for cell in filter(None, _cells(rows, column)):
        value = value_of(cell)
        if value is None or value.kind not in (*_ADDED, *(["date"] if query.operation in ("min", "max") else [])):
            raise SetError(f"{cell!r} of {column} cannot be read as a value")
        if values and not are_alike(value, values[0]):
            raise SetError(f"{cell!r} of {column} is of another kind than {values[0].text!r}")
        values.append(value)
    if not values:
        return None
    amounts = [value.amount for value in values]
    with localcontext(prec=_DIGITS):
        if query.operation in ("min", "max"):
            amount = min(amounts) if query.operation == "min" else max(amounts)
        else:
            amount = sum(amounts, Decimal(0)) / (len(amounts) if query.operation == "average" else 1)
        return amount, value_shown(amount, values[0].kind, values[0].unit), len(values)


def _groups(query: SetQuery, rows: _Rows) -> Iterator[SetGroup]:
    """Yield the groups, the one with the greatest value or the most members first."""
    names: dict[str, str] = {}
    places: dict[str, list[int]] = {}
    plain = lru_cache(normalized)
    for place, texts in enumerate(rows.texts(query.group or "")):
        for key, text in {plain(text): text for text in texts or [""]}.items():
            names.setdefault(key, text)
            places.setdefault(key, []).append(place)
    made: dict[str, tuple[Decimal, str | None]] = {}
    for name, at in places.items():
        made[name] = Decimal(len(at)), None
        if query.operation in _OPERATIONS:
            made[name] = (_made(query, rows.kept(at)) or (Decimal("-Infinity"), None))[:2]
    for name in sorted(places, key=lambda name: (-made[name][0], -len(places[name]), name)):
        yield SetGroup(names[name], len(places[name]), made[name][1])


def _key(part: Part, query: SetQuery) -> str:
    chunk = part.passage.chunk_id
    return chunk if query.kind == "headings" else f"{chunk}:{part.start}:{part.end}"


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
    known = places.keys() | parts.keys()
    others = {page: rows.start for page in ids if page not in known and (rows := page_rows(tables).get(page))}
    places |= others
    passages = {each.page_id: each for each in passages_at(tables, np.array(list(places.values()), int))}
    for member in shown:
        passage = passages.get(member.page_id)
        if found := parts.get(member.page_id):
            passage, start, end, _ = found[0]
        elif passage:
            start, end = _unit_of(passage, None if member.page_id in others else phrase)
        if not passage:
            yield member
            continue
        quote = passage.text[start:end]
        yield replace(member, url=passage.url, chunk_id=passage.chunk_id, start=start, end=end, quote=quote)
    yield from islice(members, MOST_MEMBERS, None)


def _unit_of(passage: MemberPassage, phrase: Phrase | None) -> tuple[int, int]:
    """Return where the unit with a phrase is, else the first."""
    units = passage.units().units
    if not units:
        return 0, len(passage.text)
    first = next((unit for unit in units if unit.kind not in ("heading", "header")), units[0])
    unit = next((unit for unit in units if phrase and phrase.is_in(unit.of(passage.text))), first)
    return unit.start, unit.end


def rule_of(query: SetQuery, tables: SetTables) -> str:
    """Return the query in words."""
    conditions = [_told(query, each, tables) for each in query.where]
    if query.kind == "pages":
        whole = ["pages"] + ([" " + ", ".join(conditions)] if conditions else [])
    else:
        whole = [" and ".join(_section(query, tables, *each) for each in dict.fromkeys(query.sections))]
        whole += [f" with {' and '.join(conditions)}"] if conditions else []
    if query.group:
        whole.append(f", by {query.group.removeprefix(PROPERTY)}")
    if query.order:
        name, is_greatest_first = query.order
        first = "" if query.first is None else f"the first {query.first} " if query.first > 1 else "the first "
        way = "greatest" if is_greatest_first else "least"
        if name == "updated":
            way = "newest" if is_greatest_first else "oldest"
        whole.append(f"; {first}by {name.removeprefix(PROPERTY)}, {way} first")
    return "".join(whole)


def _section(query: SetQuery, tables: SetTables, page_id: str, anchor: str) -> str:
    page = passages_of(tables, page_id)
    passage = next((each for each in page if each.anchor == anchor), page[0] if page and not anchor else None)
    if passage is None:
        return _NOUNS[query.kind].format(anchor, page_id)
    if len(passage.heading_path) < 2 or passage.anchor != anchor:  # of the whole page
        return _PAGE_NOUNS[query.kind].format(passage.title)
    return _NOUNS[query.kind].format(passage.heading_path[-1], passage.title)


def _told(query: SetQuery, condition: Condition, tables: SetTables) -> str:
    name, operator, value = condition.field, condition.operator, condition.value
    if query.kind != "pages":
        return f"{name} {_SIGNS[operator]} {value}"
    if name == "updated":
        return f"updated {_SINCE.get(operator, operator)} {value}"
    if name in ("above", "links_to", "linked_from"):
        row = pc.index(tables.pages["page_id"], value).as_py()
        value = str(tables.pages["title"][row].as_py()) if row >= 0 else value
    told = _PAGES.get(name, {}).get(operator)
    return told.format(value) if told else f"with {name.removeprefix(PROPERTY)} {_SIGNS[operator]} {value}"


def certificate(result: SetResult, classes: Iterable[str]) -> dict[str, Any]:
    """Return a set's part of a receipt; `classes` are the reader classes of the query."""
    return {
        "query": result.query.payload(),
        "generation": result.generation,
        "readers": sorted(classes),
        "members": [[member.key, sha256_of(member.cells)] for member in result.members],
        "value": result.value,
        "groups": [[group.name, group.count, group.value] for group in result.groups],
        "digest": result.digest,
    }


def recount(stated: Mapping[str, Any], tables: SetTables) -> list[str]:
    """Return the faults of a certificate, one per line, by running its query once more. `tables` are those of the
    certificate's generation as visible to its readers."""
    try:
        query = SetQuery.of(stated["query"])
        result = execute(query, tables, str(stated["generation"]))
        return list(_faults(stated, certificate(result, ()), query))
    except SetError as error:
        return [f"set: it cannot be counted ({error})"]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        return [f"set: its certificate cannot be read ({type(error).__name__}: {error})"]


def _faults(stated: Mapping[str, Any], counted: Mapping[str, Any], query: SetQuery) -> Iterator[str]:
    said, true = dict(stated["members"]), dict(counted["members"])
    yield from (f"set: member {key} is missing" for key in true if key not in said)
    yield from (f"set: member {key} is none" for key in said if key not in true)
    yield from (f"set: member {key} has other cells" for key in said if said[key] != true.get(key, said[key]))
    keys = [key for key, _ in stated["members"]]
    if len(keys) != len(said) or [key for key in true if key in said] != [key for key in keys if key in true]:
        yield "set: its members are in another order"
    if stated["value"] != counted["value"]:
        yield f"set: its value is {counted['value']}, not {stated['value']}"
    if stated.get("groups", counted["groups"]) != counted["groups"]:  # of older receipts nobody noted them
        yield "set: its groups are others"
    if stated["digest"] != counted["digest"]:
        yield "set: it has another digest"
    if stated["query"] != query.payload():
        yield "set: its query has another form"
