"""A question read as a query over rows of a table, items of a list, or headings of a page. A table is a candidate only
if it accounts for every word that no phrase does, and the question's noun names its rows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import chain, dropwhile, takewhile
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.records.sets import Condition, Kind, Operation, SetError, SetQuery, SetTables
from rag_serving.sets.cells import items_of, normalized, rows_of, value_of
from rag_serving.sets.pages import passages_of
from rag_serving.sets.phrases import Fact, Step, covers, phrase, words_of_phrases
from rag_serving.sets.vocabulary import KINDS, QuestionWords, Values, stemmed, words_of
from rag_serving.text.analyzer import STOP_WORDS, stems

_FEWEST_HEADINGS = 5
_LONGEST_NAME = 8  # words of an item that is a name, and no sentence
_HANGING = r"(?m)^\s*(?:\||[-*+] |\d{1,3}[.)] )"
_HEADER = re.compile(r"(?m)^\|(.+)\|[^\S\n]*\n\|[-:| ]*-{3}")
_TASK = re.compile(r"(?:how )?to |wie |zu[mr]? ", re.IGNORECASE)
"""How the heading of a procedure begins: what hangs below it are steps."""
_KEYED = re.compile(r"(?:\S+ ){0,4}?\S+(?::| [-–—]) ")
_ENDINGS = frozenset({"", "s", "es", "n", "en", "e"})
_ADDED = ("number", "money", "duration", "size")
_PLAIN: Mapping[str, tuple[Fact, ...]] = {
    "LIST": (("operation", "list"),),
    "COUNT": (("operation", "count"),),
    "SUM": (("operation", "sum"),),
    "AVERAGE": (("operation", "average"),),
    "GREATEST": (("greatest", True),),
    "LEAST": (("greatest", False),),
    "ROW_FILL": (("gap", True),),
    "ROW_NOUN": (),
}
_COMPARED = {"MORE_THAN": "gt", "AT_LEAST": "ge", "LESS_THAN": "lt", "AT_MOST": "le"}
_UNSAID = frozenset(stems(sorted(STOP_WORDS)))
_NO_VALUE = _UNSAID | {"no", "not", "none", "all", "any"}  # words that mean no cell which is written so


class Column(NamedTuple):
    """A column of a table: its header's words, its values, and the one kind that they all are; None: several."""

    name: str
    stems: tuple[str, ...]
    values: Values
    kind: str | None


@dataclass
class Container:
    """Rows, items or headings that have a name."""

    kind: Kind
    sections: tuple[tuple[str, str], ...]
    entity: frozenset[str]  # stems that one of them goes by: of its heading, its first column
    names: frozenset[str]  # stems that may be said beside it: of the headings above and the page's title
    spelt: frozenset[str]  # the words of both
    headers: frozenset[str] = frozenset()  # stems of its columns
    texts: Sequence[str] = ()  # of its sections, in lower case
    heading: frozenset[str] = frozenset()  # the words of its own heading
    first: frozenset[str] = frozenset()  # the words of its first column
    columns: tuple[Column, ...] = ()

    def is_named(self, word: str, stem: str, is_plural: bool) -> bool:
        """Return whether a word is one of the names in another number, and none that is derived from one: `customers`
        are no `customization`, and what was `installed` is no `install`. Below a heading in the singular are not
        several such things, but parts of one."""
        is_known = stem in self.entity | self.names and stem not in _UNSAID
        is_one = is_plural and stem in self.entity and word not in self.heading
        return is_known and any(_is_same(word, one) for one in (self.first if is_one else self.spelt))


def _is_same(one: str, other: str) -> bool:
    shorter, longer = sorted((re.sub("ies$", "y", word) for word in (one, other)), key=len)
    return longer.startswith(shorter) and longer[len(shorter) :] in _ENDINGS


def read_rows(words: QuestionWords, tables: SetTables) -> list[SetQuery]:
    """Return the queries over rows, items or headings that account for every word."""
    containers, queries = _containers(tables), []
    for container in containers.holding(words):
        container = containers.with_columns(container)
        if container.kind == "rows" and not container.columns:  # of several tables, or not to be read
            continue
        for _, said in covers(len(words), _RowReader(words, container).steps):
            if (query := _Rows(said, container).query()) is not None:
                queries.append((query, container))
    return _merged(queries)


def containers_named(words: QuestionWords, tables: SetTables) -> list[Container]:
    """Return the tables, lists and pages of headings that go by a word of the question, with their columns."""
    containers = _containers(tables)
    return [containers.with_columns(each) for each in containers.named(words)]


@lru_cache(maxsize=8)
def _containers(tables: SetTables) -> _Containers:
    return _Containers(tables)


class _Containers:
    """All containers of what a reader may see; their cells are read when a question may be about them."""

    def __init__(self, tables: SetTables) -> None:
        self._tables = tables
        self._by_entity = defaultdict[str, list[Container]](list)
        texts = tables.texts.filter(pc.is_in(tables.texts["kind"], value_set=pa.array(KINDS)))
        for container in chain(_hanging(texts), _headings(texts)):
            for stem in container.entity:
                self._by_entity[stem].append(container)

    def holding(self, words: QuestionWords) -> list[Container]:
        """Return the containers that a question names and that know every word which no phrase accounts for."""
        known = _phrase_stems()
        pairs = zip(words.words, words.stems, strict=True)
        content = [(word, stem) for word, stem in pairs if stem not in known and not stem.isdecimal()]
        if not content:
            return []
        said, asked = set(words.stems), {stem for _, stem in content}
        whole = (  # what hangs under `Setting log levels` is no log level; a column may be in many tables
            each
            for each in self.named(words)
            if (
                each.entity - (_UNSAID if len(each.sections) == 1 else set()) <= said and self._lists_things(each)
                if each.kind == "items"
                else each.kind == "headings" or each.names & asked
            )
        )
        return [each for each in whole if all(_may_know(each, *one) for one in content)]

    def named(self, words: QuestionWords) -> list[Container]:
        """Return the containers that go by a word of the question."""
        return list({id(each): each for stem in words.stems for each in self._by_entity.get(stem, ())}.values())

    def _lists_things(self, container: Container) -> bool:
        """Return whether the items are of what the list is named by: not mostly titles of pages, which say where to
        go, and mostly names, with what is said of them behind a colon or a dash; of several lists all."""
        passages = (each for page, _ in container.sections for each in passages_of(self._tables, page))
        parts = items_of([each for each in passages if (each.page_id, each.anchor) in container.sections])
        items = [part.cells[0][1] for part in parts]
        short = [len(item.split()) <= _LONGEST_NAME and item[-1:] not in ".:;!?" for item in items]
        named = [is_short or bool(_KEYED.match(item)) for is_short, item in zip(short, items, strict=True)]
        is_of_pages = 2 * sum(normalized(item) in self._titles for item in items) >= len(items)
        return not is_of_pages and (2 * sum(named) >= len(items) if len(container.sections) == 1 else all(named))

    @cached_property
    def _titles(self) -> frozenset[str]:
        return frozenset(map(normalized, self._tables.pages["title"].to_pylist()))

    def with_columns(self, container: Container) -> Container:
        """Return a container with its columns; without any where its rows cannot be read or are of several tables."""
        if container.kind != "rows" or container.columns:
            return container
        [(page_id, anchor)] = container.sections
        try:
            passages = [each for each in passages_of(self._tables, page_id) if each.anchor == anchor]
            rows = [row.cells for row in rows_of(passages)]
        except SetError:
            return container
        if len({tuple(name for name, _ in row) for row in rows}) == 1:
            container.columns = tuple(_columns(rows))
        return container


def _may_know(container: Container, word: str, stem: str) -> bool:
    named = stem in container.entity | container.names | container.headers
    return named or any(word in text for text in container.texts)


def _hanging(texts: pa.Table) -> Iterator[Container]:
    """Yield the tables and lists by section, and all lists of each page that has no table and no list at its top."""
    rows = texts.filter(pc.match_substring_regex(texts["text"], _HANGING))
    sections: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows.select(["page_id", "anchor", "title", "heading_path", "text"]).to_pylist():
        sections[row["page_id"], row["anchor"]].append(row)
    lists: dict[str, list[tuple[str, str]]] = defaultdict(list)
    mixed = set()
    for section, those in sections.items():
        title, path, texts_of = those[0]["title"], those[0]["heading_path"], [row["text"] for row in those]
        heading = path[-1] if len(path) > 1 else ""
        names = frozenset(stem for each in (title, *path) for stem in stemmed(each))
        spelt = frozenset(word for each in (title, *path) for word in words_of(each))
        entity = frozenset(stemmed(heading))
        if headers := [match[1] for text in texts_of for match in _HEADER.finditer(text)]:
            mixed.add(section[0])
            cells = headers[0].split("|")
            first, *others = map(stemmed, cells)
            named = (entity or frozenset(stemmed(title))).union(first)
            own, called = frozenset(words_of(cells[0])), frozenset(words_of(heading or title))
            lower, headers_of = [text.casefold() for text in texts_of], frozenset(chain(*others))
            yield Container("rows", (section,), named, names, spelt | own, headers_of, lower, called, own)
        elif not any(text.lstrip().startswith("|") for text in texts_of):
            lists[section[0]].append(section)
            mixed |= set() if heading else {section[0]}
            if not _TASK.match(heading):
                called = frozenset(words_of(heading))
                yield Container("items", (section,), entity, names, spelt, heading=called)
    for page_id, those_sections in lists.items():
        if page_id not in mixed and len(those_sections) > 1:
            title = sections[those_sections[0]][0]["title"]
            stems_of, spelt = frozenset(stemmed(title)), frozenset(words_of(title))
            yield Container("items", tuple(those_sections), stems_of, stems_of, spelt, heading=spelt)


def _columns(rows: Sequence[Sequence[tuple[str, str]]]) -> Iterator[Column]:
    for place, (name, _) in enumerate(rows[0]):
        cells = [row[place][1] for row in rows if row[place][1]]
        kinds = {value.kind if (value := value_of(cell)) else None for cell in cells}
        yield Column(name, stemmed(name), Values(cells), kinds.pop() if len(kinds) == 1 else None)


def _headings(texts: pa.Table) -> Iterator[Container]:
    """Yield the pages that are many headings."""
    below: dict[str, set[str]] = defaultdict(set)
    roots: dict[str, str] = {}
    titles: dict[str, str] = {}
    columns = (texts[name].to_pylist() for name in ("page_id", "title", "anchor", "heading_path"))
    for page_id, title, anchor, path in zip(*columns, strict=True):
        titles[page_id] = title
        if len(path) > 1:
            below[page_id].add(path[1])
        else:
            roots.setdefault(page_id, anchor)
    for page_id, headings in below.items():
        if len(headings) >= _FEWEST_HEADINGS:
            names, spelt = frozenset(stemmed(titles[page_id])), frozenset(words_of(titles[page_id]))
            yield Container("headings", ((page_id, roots.get(page_id, "")),), names, names, spelt, heading=spelt)


@cache
def _phrase_stems() -> frozenset[str]:
    return frozenset(stems(sorted(words_of_phrases())))


@dataclass(frozen=True)
class _RowReader:
    """The phrases of one question about one container."""

    words: QuestionWords
    container: Container

    def steps(self, start: int) -> Iterator[Step]:
        """Yield the phrases that begin at a word."""
        words, container = self.words, self.container
        word, stem = words.words[start], words.stems[start]
        for name, facts in _PLAIN.items():
            if (end := words.match(phrase(name), start)) is not None:
                yield Step(end, facts)
        for name, comparison in _COMPARED.items():
            if (end := words.match(phrase(name), start)) is not None:
                stops = range(min(len(words), end + 3), end, -1)
                amount = next((stop for stop in stops if value_of(words.original(end, stop))), None)
                if amount:
                    yield Step(amount, (("compared", (comparison, words.original(end, amount))),))
        if container.kind == "headings" and (end := words.match(phrase("ENTRIES"), start)) is not None:
            yield Step(end, (("name", True), ("plural", True), ("entries", True)))
        is_of_row = any(column.stems == (stem,) for column in container.columns[1:])  # and not of the whole table
        is_plural = words.is_plural(start + 1)
        if container.is_named(word, stem, is_plural) and not is_of_row:
            is_first = any(_is_same(word, one) for one in container.first)
            yield Step(start + 1, (("name", stem in container.entity), ("plural", is_plural), ("first", is_first)))
        for column in container.columns:
            if column.stems and tuple(words.stems[start : start + len(column.stems)]) == column.stems:
                end = start + len(column.stems)
                yield Step(end, (("column", column.name), ("plural", words.is_plural(end))))
            found = column.values.named(words, start)
            if found is not None and not _NO_VALUE.issuperset(words.stems[start : found[0]]):
                yield Step(found[0], (("value", Condition(column.name, *found[1:])),))


class _Rows:
    """The combined phrases about one container."""

    def __init__(self, facts: Sequence[Fact], container: Container) -> None:
        self._facts, self._container = facts, container
        self._columns = {column.name: column for column in container.columns}
        self._operations: set[Operation] = {value for name, value in facts if name == "operation"}

    def query(self) -> SetQuery | None:
        """Return their query; None: they do not go together."""
        where, columns = self._conditions()
        container, has_entity = self._container, ("name", True) in self._facts
        if where is None or not (has_entity or where):
            return None
        asked = self._asked()
        if ("name", True) not in asked and (not asked or asked[0][0] != "column"):  # `offices have meeting rooms`
            return None
        if container.kind == "headings" and ("entries", True) not in self._facts:
            return None
        if not self._operations or (len(self._operations) > 1 and self._operations != {"count", "sum"}):
            return None
        made = self._made(columns, bool(where), has_entity)
        return None if made is None else replace(made, kind=container.kind, sections=container.sections, where=where)

    def _made(self, columns: Sequence[str], has_where: bool, has_entity: bool) -> SetQuery | None:
        """Return the operation with the columns that no condition is of."""
        [greatest] = {value for name, value in self._facts if name == "greatest"} or {None}
        operation: Operation = "sum" if "sum" in self._operations else next(iter(self._operations))
        kinds = [self._columns[name].kind for name in columns]
        if greatest is not None:
            is_listed = operation == "list" and has_entity and len(columns) == 1 and kinds[0] in (*_ADDED, "date")
            return SetQuery("rows", order=(columns[0], greatest), first=1) if is_listed else None
        is_plural = ("plural", True) in self._facts
        if columns and operation in ("list", "count") and self._is_compound():
            columns, kinds, is_plural = columns[1:], kinds[1:], True
        if not columns:
            is_named = has_entity and (has_where or is_plural)
            return SetQuery("rows", operation=operation) if is_named and operation in ("list", "count") else None
        if len(columns) > 1 or kinds[0] not in _ADDED or operation == "list":
            return None
        if operation == "count" and self._asked()[:1] != [("column", columns[0])]:
            return None  # `how many rooms have seats` asks for no sum
        return SetQuery("rows", operation="sum" if operation == "count" else operation, column=columns[0])

    def _asked(self) -> list[Fact]:
        """Return the noun phrase that is asked for, up to the first word without a meaning."""
        facts = [fact for fact in self._facts if fact[0] in ("name", "column", "value", "gap")]
        behind = dropwhile(lambda fact: fact[0] == "gap", facts)
        return list(takewhile(lambda fact: fact[0] != "gap", behind))

    def _is_compound(self) -> bool:
        """Return whether the noun of the question ends with the name of a column that the rows go by, as `error codes`
        does, and neither `codes are retriable` nor `modules supported`."""
        facts = list(dropwhile(lambda fact: fact[0] == "gap", (fact for fact in self._facts if fact[0] != "operation")))
        names = [name for name, _ in facts if name not in ("plural", "first")]
        if names[:2] != ["name", "column"] and names[:3] != ["name", "name", "column"]:
            return False
        place = next(place for place, (name, _) in enumerate(facts) if name == "column")
        is_called_so = self._container.entity.issuperset(self._columns[facts[place][1]].stems)
        return facts[place + 1] == ("plural", True) and (is_called_so or ("first", True) in facts[:place])

    def _conditions(self) -> tuple[tuple[Condition, ...] | None, list[str]]:
        """Return the conditions, and the columns named beside them; None if one is ambiguous."""
        facts = [fact for fact in self._facts if fact[0] in ("name", "column", "value", "compared")]
        where: list[Condition] = []
        bound: set[int] = set()
        for place, (name, value) in enumerate(facts):
            sides = [at for at in (place + 1, place - 1) if 0 <= at < len(facts) and at not in bound]
            beside = [at for at in sides if facts[at][0] == "column"]
            if name == "value":
                if own := [at for at in beside if facts[at][1] == value.field]:
                    bound.add(own[0])
                elif sum(value.value in column.values for column in self._container.columns) > 1:
                    return None, []
                where.append(value)
            elif name == "compared":
                measured = [at for at in beside if self._columns[facts[at][1]].kind in (*_ADDED, "date")]
                if not measured:
                    return None, []
                bound.add(measured[0])
                where.append(Condition(facts[measured[0]][1], *value))
            elif name == "column" and place not in bound and self._columns[value].kind == "flag":
                cells = self._columns[value].values.all.values()
                yes = [cell for cell in cells if (read := value_of(cell)) and read.amount]
                if len(yes) != 1:
                    return None, []
                bound.add(place)
                where.append(Condition(value, "eq", yes[0]))
        left = [value for place, (name, value) in enumerate(facts) if name == "column" and place not in bound]
        return tuple(sorted(set(where), key=lambda each: (each.field, each.operator, each.value))), left


def _merged(found: Sequence[tuple[SetQuery, Container]]) -> list[SetQuery]:
    """Return the distinct queries; those that differ in their section alone, of tables of one page with the same
    columns, are one over all of these."""
    merged: dict[tuple[SetQuery, str, object], list[tuple[str, str]]] = defaultdict(list)
    for query, container in found:
        columns = tuple(column.name for column in container.columns) or query.sections
        key = (replace(query, sections=()), query.sections[0][0], columns)
        merged[key] += [section for section in query.sections if section not in merged[key]]
    return [replace(query, sections=tuple(sections)) for (query, *_), sections in merged.items()]
