"""Queries over sets of pages, rows, items and headings, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa

Kind = Literal["pages", "rows", "items", "headings"]
Operator = Literal["eq", "ne", "contains", "lt", "le", "gt", "ge"]
Operation = Literal["list", "count", "sum", "average", "min", "max"]
ValueKind = Literal["number", "money", "duration", "size", "date", "flag", "text"]


@dataclass(frozen=True, eq=False)
class SetTables:
    """What one reader may see of a generation, for queries over sets. Two are equal only if they are one."""

    pages: pa.Table  # PAGE_FACTS, without `readers`: a row for each page that the reader may see, by page_id
    texts: pa.Table
    """A row for each passage, near-duplicates and boilerplate that are not indexed included, by page_id and chunk_idx:
    chunk_id, page_id, version, chunk_idx, space, title, heading_path, anchor, url, text, structure, kind."""
    classes: frozenset[str]  # reader classes of the generation that the reader satisfies


@dataclass(frozen=True)
class Condition:
    """A field compared with a value; a field with several values (label, above, links_to) needs one that fits."""

    field: str
    operator: Operator
    value: str


@dataclass(frozen=True)
class SetQuery:
    """A query of the closed algebra."""

    kind: Kind  # what the members are
    where: tuple[Condition, ...] = ()  # all must hold
    operation: Operation = "list"
    column: str | None = None  # field that is added up, averaged or compared; None for lists and counts
    sections: tuple[tuple[str, str], ...] = ()
    """(page id, anchor) of the sections that rows, items or headings are read from; empty for pages."""
    group: str | None = None  # field by whose values members are counted or added up apart
    order: tuple[str, bool] | None = None  # field and whether the greatest comes first
    first: int | None = None  # how many members are kept, after ordering; None: all

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape, which `of` reads."""
        conditions = [[each.field, each.operator, each.value] for each in self.where]
        lists = {"sections": [list(pair) for pair in self.sections], "where": conditions}
        return {**vars(self), **lists, "order": list(self.order) if self.order else None}

    @classmethod
    def of(cls, shape: Mapping[str, Any]) -> SetQuery:
        """Return the query of a JSON shape. Raises ValueError, LookupError, TypeError: it is none."""
        where = tuple(Condition(*each) for each in shape["where"])
        sections = tuple((str(page), str(anchor)) for page, anchor in shape["sections"])
        order = (str(shape["order"][0]), bool(shape["order"][1])) if shape["order"] else None
        names = ("kind", "operation", "column", "group", "first")
        return cls(where=where, sections=sections, order=order, **{name: shape[name] for name in names})


@dataclass(frozen=True)
class SetValue:
    """A typed value: an amount in the base unit of its kind (seconds, bytes, days since 1970, 1 or 0 for flags, the
    currency as written), and the words that it was read from."""

    kind: ValueKind
    amount: Decimal
    unit: str
    text: str


@dataclass(frozen=True)
class SetMember:
    """A member of a set with its proof."""

    key: str  # what makes it this member: page id; chunk id and offsets of a row or an item; chunk id of a heading
    page_id: str
    title: str
    url: str
    cells: tuple[tuple[str, str], ...]  # name and value of what is shown of it, in order
    chunk_id: str = ""  # passage of its `quote`, which is `text[start:end]`; empty for a page without text
    start: int = 0
    end: int = 0
    quote: str = ""
    updated_at: datetime | None = None
    citation: int | None = None  # the number that its quote is shown under


@dataclass(frozen=True)
class SetGroup:
    """Members with the same value of the grouping field: how many, and their result."""

    name: str
    count: int
    value: str | None = None


@dataclass(frozen=True)
class SetResult:
    """The whole set of a query."""

    query: SetQuery
    rule: str  # the query in words
    members: tuple[SetMember, ...]  # all of them, in order
    value: str | None = None
    """Of a count, sum, average, minimum or maximum, with its unit, as it is shown; None: a list."""
    made: str = ""  # how the value was made, in words
    groups: tuple[SetGroup, ...] = ()  # by the grouping field, largest first
    pages: int = 0
    passages: int = 0  # how many the reader may see in the generation
    generation: str = ""
    digest: str = ""  # SHA-256 over the members' keys and cells and the value (`sets.execute`)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the members' cells beside their title."""
        return tuple(dict.fromkeys(name for member in self.members for name, _ in member.cells if name != "title"))

    def payload(self, most: int | None = None) -> dict[str, Any]:
        """Return the JSON shape with at most so many members; `total` counts all."""
        members, shown = self.members[:most], ("title", "url", "page_id", "chunk_id", "quote", "citation")
        return {
            "kind": self.query.kind,
            "rule": self.rule,
            "query": self.query.payload(),
            "total": len(self.members),
            "value": self.value,
            "made": self.made,
            "columns": list(self.columns),
            "members": [
                {**{name: getattr(member, name) for name in shown}, "cells": dict(member.cells)} for member in members
            ],
            "groups": [vars(group) for group in self.groups],
            **{name: getattr(self, name) for name in ("pages", "passages", "generation", "digest")},
        }


class SetError(ValueError):
    """A query cannot be run: its message says why, and the question goes the ordinary way."""
