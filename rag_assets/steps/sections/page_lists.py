"""Lists of pages that the server fills in: `children`, and page properties reports, made from the source's own pages.

Supported CQL is `and`, `or`, `not` and parentheses over label, space, title, type, id, parent and ancestor with `=`,
`!=`, `in` and `not in`, and the functions `currentSpace` and `currentContent` (Atlassian, "Advanced Searching using
CQL").

Pages of a list with the same readers share one passage: nobody sees a hidden page in a list, and nobody misses one that
he may read. Its content is theirs alone: no column, count or indent reveals other pages.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from rag_assets.steps.formats.blocks import Block, Cell, Listing, clean, flat, row_blocks
from rag_assets.steps.formats.element_tree import PageError
from rag_assets.steps.sections.reading import Properties
from rag_assets.steps.sections.transclusion import INCLUDED_MAX, IncludedText, Library, OutlineSection
from rag_serving.access.principals import intersect_readers

LISTED_MAX = 2_000
"""Pages of one passage of a list; a longer one says less than a search."""

CELLS_MAX = 200_000
"""Cells of one table; where more pages have properties of more names, the last names are left out."""

_ALL_LEVELS = 1_000

Row = Mapping[str, Any]

_FACTS = ["page_id", "space", "title", "url", "status", "labels", "ancestors", "position", "updated_at", "readers"]
_DIGITS = re.compile(r"(\d+)")


class PageLists:
    """The lists on a source's pages. `pages`: rows of PAGES that a list may show: neither attached files nor comments;
    `library`: the pages that a list may be about."""

    def __init__(self, pages: pa.Table, library: Library) -> None:
        self._pages, self._library = pages, library
        facts = pages.select(_FACTS).to_pylist()
        self._current = {row["page_id"]: (n, row) for n, row in enumerate(facts) if row["status"] == "current"}
        self._below: dict[str, list[Row]] = {}
        for _, row in self._current.values():
            if is_blog_post(row):
                continue
            above = row["ancestors"][-1] if row["ancestors"] else _top_of(row["space"])
            self._below.setdefault(above, []).append(row)
        self._properties: dict[str, list[Properties]] = {}

    def passages(self, listing: Listing, page: Row, section: OutlineSection) -> list[IncludedText] | None:
        """Return a list's content on a page, a passage for each reader class; None for unsupported parameters."""
        try:
            groups = list((self._children if listing.macro == "children" else self._report)(listing, page))
        except (CqlError, ValueError):
            return None
        place = section.level, section.heading, section.path, section.anchor
        return [IncludedText(OutlineSection(*place, blocks), readers, None) for readers, blocks in groups if blocks]

    def _children(self, listing: Listing, page: Row) -> Iterator[tuple[str, list[Block]]]:
        """Yield children as nested lists of titles.

        Which children are the first so many depends on the reader. The count is per group of readers, so that nobody
        misses one that the site would show him, and nothing reveals one that he may not read; a reader with more access
        may get more.
        """
        parameters = listing.parameters
        levels = _ALL_LEVELS if _is_true(parameters.get("all")) else int(parameters.get("depth") or 1) or _ALL_LEVELS
        wanted = parameters.get("excerpttype", parameters.get("excerpt", "")).lower()
        excerpts = wanted in ("simple", "rich content", "true")
        root = self._root(listing, page)
        most = max(int(parameters.get("first") or 0), 0)
        rows = self._descendants(root, levels, parameters)
        children = [row for row in rows if (row["ancestors"] or [root])[-1] == root]
        beyond = {row["page_id"] for some in _grouped(page, children).values() for row in some[most:] if most}
        pages = [row for row in rows if beyond.isdisjoint((row["page_id"], *(row["ancestors"] or ())))]
        for readers, some in _by_readers(page, pages):
            yield readers, list(self._items(some, excerpts))

    def _root(self, listing: Listing, page: Row) -> str:
        """Return the id of the page whose children are listed, or a substitute for the top of the space."""
        if not listing.title:
            return str(page["page_id"])
        top = _top_of(page["space"])
        if listing.title in ("/", f"{page['space']}:"):
            return top
        if listing.title == "@home" and len(homes := self._below.get(top, [])) == 1:
            return str(homes[0]["page_id"])
        target = self._library.find(listing.space or page["space"], listing.title, page)
        if target is None:
            raise ValueError(f"there is no page {listing.title!r}")
        return str(target["page_id"])

    def _descendants(self, root: str, levels: int, parameters: Mapping[str, str]) -> list[Row]:
        """Return pages below in the requested order, else as someone arranged them, each before its own children."""
        by = _ORDERS.get(parameters.get("sort", "").lower(), _arranged)
        waiting, visited = [(root, levels)], {root}
        rows: list[Row] = []
        while waiting:
            above, left = waiting.pop()
            if above != root:
                rows.append(self._current[above][1])
            siblings = self._below.get(above, ()) if left else ()
            below = sorted(siblings, key=by, reverse=_is_true(parameters.get("reverse")))
            fresh = [row["page_id"] for row in below if row["page_id"] not in visited]
            visited.update(fresh)
            waiting += [(page_id, left - 1) for page_id in reversed(fresh)]
        return rows

    def _items(self, rows: Sequence[Row], excerpts: bool) -> Iterator[Block]:
        """Yield list items, each indented below those ancestors that are in the same list; no more excerpts after so
        many characters as a page may include."""
        together, room = {row["page_id"] for row in rows}, INCLUDED_MAX
        for row in rows:
            said = clean(row["title"] or "")
            if excerpts and room > 0 and (content := self._library.content(self._whole(row), "")) is not None:
                said += f": {flat(content.blocks, [])}"
            indent = 2 * sum(above in together for above in row["ancestors"] or ())
            yield Block("list", f"- {said}", 1, indent)
            room -= len(said) + 2

    def _report(self, listing: Listing, page: Row) -> Iterator[tuple[str, list[Block]]]:
        parameters = listing.parameters
        wanted = self._wanted(parameters, page)
        pages = [row for _, row in self._current.values() if wanted(row) and self._values(row, parameters) is not None]
        for readers, rows in _by_readers(page, pages):
            values = [self._values(row, parameters) or {} for row in rows]
            yield readers, list(_table(rows, values, parameters))

    def _wanted(self, parameters: Mapping[str, str], page: Row) -> Predicate:
        if parameters.get("cql"):
            return page_filter(parameters["cql"], page, self._current)
        labels = {
            label.strip().casefold() for label in (parameters.get("label") or parameters.get("labels", "")).split(",")
        } - {""}
        if not labels:
            raise CqlError("it names neither labels nor a query")
        spaces = {key.strip().casefold() for key in parameters.get("spaces", "").split(",")} - {""}
        spaces = {str(page["space"]).casefold() if key == "currentspace()" else key for key in spaces}
        if any(key.startswith("@") for key in spaces):
            raise CqlError("groups of spaces are not read")
        return lambda row: (
            not labels.isdisjoint(label.casefold() for label in row["labels"] or ())
            and (not spaces or str(row["space"]).casefold() in spaces)
        )

    def _values(self, row: Row, parameters: Mapping[str, str]) -> dict[str, str] | None:
        """Return the page's properties of the requested id; None if it has none."""
        page_id = row["page_id"]
        if page_id not in self._properties:
            self._properties[page_id] = []
            body = self._library.body(self._whole(row))
            if body and "details" in body:
                with suppress(PageError):
                    self._properties[page_id] = self._library.reader.properties(body)
        groups = [group for group in self._properties[page_id] if parameters.get("id", "") in ("", group.id)]
        merged: dict[str, str] = {}
        for group in groups:
            merged = group.values | merged
        return merged if groups else None

    def _whole(self, row: Row) -> Row:
        whole: Row = self._pages.slice(self._current[row["page_id"]][0], 1).to_pylist()[0]
        return whole


def _by_readers(page: Row, rows: Iterable[Row]) -> Iterator[tuple[str, list[Row]]]:
    return ((readers, some[:LISTED_MAX]) for readers, some in sorted(_grouped(page, rows).items()))


def _grouped(page: Row, rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(intersect_readers(page["readers"], row["readers"]), []).append(row)
    return groups


def _top_of(space: str) -> str:
    return f"space {space}"  # no page id has white space


def _arranged(row: Row) -> Any:
    return row["position"] is None, row["position"] or 0, _natural(row["title"])


def _modified(row: Row) -> Any:
    return row["updated_at"].timestamp() if row["updated_at"] else 0.0, row["page_id"]


_ORDERS = MappingProxyType(
    {
        "title": lambda row: _natural(row["title"]),
        "modified": _modified,
        "creation": lambda row: _natural(row["page_id"]),  # ids are given in order
    }
)


def _table(rows: Sequence[Row], values: Sequence[Mapping[str, str]], parameters: Mapping[str, str]) -> Iterator[Block]:
    wanted = next(csv.reader([parameters.get("headings", "")], skipinitialspace=True), [])
    names = [name for name in map(clean, wanted) if name]
    names = names or list(dict.fromkeys(key for of_page in values for key in of_page))
    names = names[: max(CELLS_MAX // max(len(rows), 1), 1)]
    lines = []
    for row, of_page in zip(rows, values, strict=True):
        folded = {key.casefold(): value for key, value in of_page.items()}
        lines.append([clean(row["title"] or ""), *(folded.get(name.casefold(), "") for name in names)])
    by = parameters.get("sortby", "").casefold()
    column = next((n for n, name in enumerate(names, start=1) if name.casefold() == by), 0)
    order: list[Any] = [_modified(row) for row in rows] if by in ("modified", "last modified") else []
    order = order or [(_natural(line[column]), _natural(line[0])) for line in lines]
    pairs = sorted(zip(order, lines, strict=True), key=itemgetter(0), reverse=_is_true(parameters.get("reversesort")))
    header = [Cell(text, header=True) for text in (parameters.get("firstcolumn") or "Title", *names)]
    return row_blocks([header, *([Cell(text) for text in line] for _, line in pairs)], 1)


def _natural(text: str | None) -> Any:
    """Return a sort key: numbers by their size, words without their case."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split((text or "").casefold())]


def _is_true(value: str | None) -> bool:
    return (value or "").lower() == "true"


Predicate = Callable[[Row], bool]

CHARS_MAX = 4_000
TOKENS_MAX = 100  # each opens at most a few calls

_TOKEN = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|(!=|[=(),])|([^\s"'=!<>~(),]+))""")
_BLOG = re.compile(r"/spaces/[^/]+/blog/|/display/[^/]+/\d{4}/\d\d/\d\d/")
_ORDER = re.compile(r"\border\s+by\b[^\"']*\Z", re.IGNORECASE)


class CqlError(Exception):
    """The query says something that this program does not read."""


def page_filter(cql: str, here: Row, known: Container[str]) -> Predicate:
    """Return whether the query matches a page, as a function of its row of PAGES. `cql`: the query; its order is left
    out. `here`: row of the page with the query. `known`: ids of all pages; a query about another one is not read.
    Raises CqlError: it is more than this module reads."""
    if len(cql) > CHARS_MAX:
        raise CqlError(f"it is longer than {CHARS_MAX} characters")
    parser = _Parser(_tokens(_ORDER.sub("", cql)), here, known)
    predicate = parser.either()
    if parser.peek():
        raise CqlError(f"{parser.peek()!r} is not read")
    return predicate


def is_blog_post(row: Row) -> bool:
    """Return whether a row of PAGES is a blog post, by its address."""
    return _BLOG.search(row["url"] or "") is not None


def _tokens(cql: str) -> list[str]:
    """Return the query in pieces; text in quotes has a quote before it."""
    tokens: list[str] = []
    position, cql = 0, cql.strip()
    while position < len(cql):
        match = _TOKEN.match(cql, position)
        if match is None or len(tokens) == TOKENS_MAX:
            raise CqlError("it is no CQL that is read")
        quoted = match[1] if match[1] is not None else match[2]
        tokens.append(match[3] or match[4] or '"' + re.sub(r"\\(.)", r"\1", quoted))
        position = match.end()
    return tokens


class _Parser:
    """Recursive descent over the pieces of one query."""

    def __init__(self, tokens: list[str], here: Row, known: Container[str]) -> None:
        self._tokens, self._place = tokens, 0
        self._here, self._known = here, known

    def peek(self) -> str:
        return self._tokens[self._place].lower() if self._place < len(self._tokens) else ""

    def either(self) -> Predicate:
        terms = [self._all()]
        while self._took("or"):
            terms.append(self._all())
        return lambda row: any(matches(row) for matches in terms)

    def _all(self) -> Predicate:
        terms = [self._one()]
        while self._took("and"):
            terms.append(self._one())
        return lambda row: all(matches(row) for matches in terms)

    def _one(self) -> Predicate:
        if self._took("not"):
            inner = self._one()
            return lambda row: not inner(row)
        if self._took("("):
            inner = self.either()
            self._expect(")")
            return inner
        field = self._next().lower()
        if field not in _FIELDS:
            raise CqlError(f"the field {field!r} is not read")
        negative = self._took("not")
        if negative or self.peek() == "in":
            self._expect("in")
            self._expect("(")
            values = [self._value()]
            while self._took(","):
                values.append(self._value())
            self._expect(")")
        else:
            operator = self._next()
            if operator not in ("=", "!="):
                raise CqlError(f"the operator {operator!r} is not read")
            negative, values = operator == "!=", [self._value()]
        for value in values if field in _IDS else ():
            if value not in self._known:
                raise CqlError(f"page {value!r} is not known")
        wanted, said = {value.casefold() for value in values}, _FIELDS[field]
        return lambda row: said(row).isdisjoint(wanted) == negative

    def _value(self) -> str:
        token = self._next()
        if token.startswith('"') or not self._took("("):
            return token.removeprefix('"')
        self._expect(")")
        if token.lower() not in _FUNCTIONS:
            raise CqlError(f"the function {token!r} is not read")
        return str(self._here[_FUNCTIONS[token.lower()]])

    def _next(self) -> str:
        if self._place == len(self._tokens):
            raise CqlError("it ends too early")
        self._place += 1
        return self._tokens[self._place - 1]

    def _took(self, token: str) -> bool:
        took = self.peek() == token
        self._place += took
        return took

    def _expect(self, token: str) -> None:
        if not self._took(token):
            raise CqlError(f"{token!r} is missing")


def _folded(*values: str | None) -> set[str]:
    return {(value or "").casefold() for value in values}


_FIELDS: Mapping[str, Callable[[Row], set[str]]] = MappingProxyType(
    {
        "label": lambda row: _folded(*(row["labels"] or ())),
        "space": lambda row: _folded(row["space"]),
        "space.key": lambda row: _folded(row["space"]),
        "title": lambda row: _folded(row["title"]),
        "type": lambda row: {"blogpost" if is_blog_post(row) else "page"},
        "id": lambda row: _folded(row["page_id"]),
        "parent": lambda row: _folded(*(row["ancestors"] or ())[-1:]),
        "ancestor": lambda row: _folded(*(row["ancestors"] or ())),
    }
)
_IDS = frozenset({"id", "parent", "ancestor"})
_FUNCTIONS: Mapping[str, str] = MappingProxyType({"currentspace": "space", "currentcontent": "page_id"})
