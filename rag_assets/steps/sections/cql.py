"""The part of CQL that lists of pages are asked for with: which pages of a source it means.

Belongs here: reading it. Does not belong here: CQL that a server answers.

Read are `and`, `or`, `not` and parentheses over label, space, title, type, id, parent and ancestor with `=`, `!=`, `in`
and `not in`, and the functions `currentSpace` and `currentContent` (Atlassian, "Advanced Searching using CQL").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from typing import Any

Row = Mapping[str, Any]
Predicate = Callable[[Row], bool]

CHARS_MAX = 4_000
TOKENS_MAX = 100  # each opens at most a few calls

_TOKEN = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|(!=|[=(),])|([^\s"'=!<>~(),]+))""")
_BLOG = re.compile(r"/spaces/[^/]+/blog/|/display/[^/]+/\d{4}/\d\d/\d\d/")
_ORDER = re.compile(r"\border\s+by\b[^\"']*\Z", re.IGNORECASE)


class CqlError(Exception):
    """The query says something that this program does not read."""


def page_filter(cql: str, here: Row, known: Container[str]) -> Predicate:
    """Return whether the query means a page, as a function of its row of PAGES.

    Args:
        cql: the query; its order is left out.
        here: row of the page that asks.
        known: ids of all pages; a query about another one is not read.

    Raises:
        CqlError: it is more than this module reads.
    """
    if len(cql) > CHARS_MAX:
        raise CqlError(f"it is longer than {CHARS_MAX} characters")
    parser = _Parser(_tokens(_ORDER.sub("", cql)), here, known)
    predicate = parser.either()
    if parser.peek():
        raise CqlError(f"{parser.peek()!r} is not read")
    return predicate


def is_blog_post(row: Row) -> bool:
    """Return whether a row of PAGES is a blog post, as its address tells."""
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
        return self._clause()

    def _clause(self) -> Predicate:
        field = self._next().lower()
        if field not in _FIELDS:
            raise CqlError(f"the field {field!r} is not read")
        negative = self._took("not")
        if negative or self.peek() == "in":
            values = self._values()
        else:
            operator = self._next()
            if operator not in ("=", "!="):
                raise CqlError(f"the operator {operator!r} is not read")
            negative, values = operator == "!=", [self._value()]
        wanted, said = {self._meant(field, value) for value in values}, _FIELDS[field]
        return lambda row: said(row).isdisjoint(wanted) == negative

    def _values(self) -> list[str]:
        self._expect("in")
        self._expect("(")
        values = [self._value()]
        while self._took(","):
            values.append(self._value())
        self._expect(")")
        return values

    def _value(self) -> str:
        token = self._next()
        if token.startswith('"') or not self._took("("):
            return token.removeprefix('"')
        self._expect(")")
        if token.lower() not in _FUNCTIONS:
            raise CqlError(f"the function {token!r} is not read")
        return str(self._here[_FUNCTIONS[token.lower()]])

    def _meant(self, field: str, value: str) -> str:
        if field in _IDS and value not in self._known:
            raise CqlError(f"page {value!r} is not known")
        return value.casefold()

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
