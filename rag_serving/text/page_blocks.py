"""A passage as a page shows it: paragraphs, lists, tables, code and headings, as ranges of its text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, NamedTuple

from rag_serving.text.structure import Structure
from rag_serving.text.units import Unit, cells_of

Style = Literal["strong", "em", "code", "link"]
Range = tuple[int, int]

_TOKEN = re.compile(r"\\[\\`*_\[\]|]|`+|\*+|_+|\[|\]")
_MARK = re.compile(r"[\\`*_\[]")
_TARGET = re.compile(
    r"\]\(<?(https?://[^\s()<>]{1,2000}+(?:\([^\s()<>]{0,200}+\)[^\s()<>]{0,200}+){0,4}+)>?(?: \"[^\"\n]{0,200}+\")?\)"
)
_MARKS: Mapping[str, Style] = {"*": "em", "_": "em", "**": "strong", "__": "strong"}


@dataclass(frozen=True)
class Run:
    """A range of a text in one style; runs nest and never cross."""

    start: int
    end: int
    style: Style
    href: str | None = None

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        shape: dict[str, Any] = {"start": self.start, "end": self.end, "style": self.style}
        return {**shape, "href": self.href} if self.href else shape


class Inline(NamedTuple):
    """The runs of a range of text, by their start, and the ranges of the marks themselves, which are not shown."""

    runs: tuple[Run, ...]
    hidden: tuple[Range, ...]


_PLAIN = Inline((), ())


class _Opener(NamedTuple):
    mark: str  # `[`, or one of _MARKS
    start: int
    end: int


def inline_runs(text: str, start: int, end: int) -> Inline:
    """Return the marked runs in `text[start:end]`."""
    if not _MARK.search(text, start, end):
        return _PLAIN
    reader = _BlockReader(text, start, end)
    reader.read()
    runs = sorted(reader.runs, key=lambda run: (run.start, -run.end))
    return Inline(tuple(runs), tuple(sorted(reader.hidden)))


class _BlockReader:
    """Reads one range from its beginning to its end; what is opened waits on a stack for what closes it."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.runs: list[Run] = []
        self.hidden: list[Range] = []
        self._text, self._start, self._end = text, start, end
        self._open: list[_Opener] = []
        self._counts: dict[str, int] = {}  # of each mark among those that are open
        self._read_to = start

    def read(self) -> None:
        tokens = [match.span() for match in _TOKEN.finditer(self._text, self._start, self._end)]
        closing = dict(self._code_spans(tokens))
        for begin, stop in tokens:
            if begin < self._read_to:
                continue
            mark = self._text[begin:stop]
            if mark[0] == "\\":
                if mark[1] == "|":
                    self.hidden.append((begin, begin + 1))
            elif mark[0] == "`":
                self._code(begin, stop, closing.get(begin))
            elif mark == "[":
                self._push(_Opener(mark, begin, stop))
            elif mark == "]":
                self._link(begin)
            elif mark in _MARKS:
                before = self._text[begin - 1] if begin > self._start else " "
                after = self._text[stop] if stop < self._end else " "
                closes, opens = not before.isspace(), not after.isspace()
                if mark[0] == "_":  # names_with_underscores
                    closes, opens = closes and not after.isalnum(), opens and not before.isalnum()
                elif before.isalnum() and after.isalnum():  # 2*3*4
                    closes = opens = False
                if closes and self._counts.get(mark):
                    opener = self._pop(mark)
                    self.runs.append(Run(opener.end, begin, _MARKS[mark]))
                    self.hidden += [(opener.start, opener.end), (begin, stop)]
                elif opens:
                    self._push(_Opener(mark, begin, stop))

    def _code_spans(self, tokens: list[Range]) -> Iterator[tuple[int, Range]]:
        """Yield for each row of backticks the next one that is as long."""
        following: dict[int, Range] = {}
        for begin, stop in reversed(tokens):
            if self._text[begin] == "`":
                if after := following.get(stop - begin):
                    yield begin, after
                following[stop - begin] = begin, stop

    def _code(self, begin: int, stop: int, closing: Range | None) -> None:
        if closing is None:
            return
        self.runs.append(Run(stop, closing[0], "code"))
        self.hidden += [(begin, stop), closing]
        self._read_to = closing[1]

    def _link(self, begin: int) -> None:
        if not self._counts.get("["):
            return
        opener = self._pop("[")
        target = _TARGET.match(self._text, begin, self._end)
        if target and opener.end < begin:
            self.runs.append(Run(opener.end, begin, "link", target[1]))
            self.hidden += [(opener.start, opener.end), target.span()]
            self._read_to = target.end()

    def _push(self, opener: _Opener) -> None:
        self._open.append(opener)
        self._counts[opener.mark] = self._counts.get(opener.mark, 0) + 1

    def _pop(self, mark: str) -> _Opener:
        """Return the last opener of a mark; those behind it open nothing any more."""
        while True:
            opener = self._open.pop()
            self._counts[opener.mark] -= 1
            if opener.mark == mark:
                return opener


BlockKind = Literal["paragraph", "list", "table", "code", "heading"]

_FENCE = re.compile(r"(?:`{3,}|~{3,})[ \t]*+([\w+#.-]{1,32}+)?")
_BAR = re.compile(r"(?<!\\)\|")


class ListItem(NamedTuple):
    """An item of a list."""

    start: int
    end: int
    depth: int


class TableRow(NamedTuple):
    """A row of a table; an empty cell is an empty range."""

    cells: tuple[Range, ...]
    header: bool = False

    def payload(self) -> dict[str, Any]:
        return {"header": self.header, "cells": [list(cell) for cell in self.cells]}


@dataclass(frozen=True)
class PageBlock:
    """A block of a passage. All ranges are offsets into the passage's text."""

    kind: BlockKind
    start: int
    end: int
    depth: int | None = None  # of a heading: the number of its signs
    ordered: bool | None = None  # of a list
    number: int | None = None  # that an ordered list begins with
    language: str | None = None  # of code, as its fence names it
    items: tuple[ListItem, ...] = ()
    rows: tuple[TableRow, ...] = ()
    header: tuple[str, ...] = ()  # of a table whose head is in the passage before
    runs: tuple[Run, ...] = ()
    hidden: tuple[Range, ...] = ()  # marks of runs, which are not shown

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape, without fields that a block of its kind lacks."""
        facts = {
            name: getattr(self, name) for name in ("kind", "start", "end", "depth", "ordered", "number", "language")
        }
        lists: dict[str, list[Any]] = {
            "items": [list(item) for item in self.items],
            "rows": [row.payload() for row in self.rows],
            "header": list(self.header),
            "runs": [run.payload() for run in self.runs],
            "hidden": [list(marks) for marks in self.hidden],
        }
        shape = {name: value for name, value in facts.items() if value is not None}
        return shape | {name: parts for name, parts in lists.items() if parts}


def page_blocks(text: str, structure: Structure) -> list[PageBlock]:
    """Return the blocks of a passage in order."""
    blocks: list[PageBlock] = []
    for (kind, _), group in groupby(structure.units, key=_belongs_to):
        units = list(group)
        least = blocks[-1].end if blocks else 0
        match kind:
            case "list":
                blocks.append(_list(text, units))
            case "table":
                is_first = units[0].block == structure.units[0].block
                blocks.append(_table(text, units, structure.table_header if is_first else "", least))
            case "code":
                blocks.append(_code(text, units, least))
            case "heading":
                blocks.append(_heading(text, units, least))
            case _:
                start, end = units[0].start, units[-1].end
                blocks.append(_with_runs(text, PageBlock("paragraph", start, end), [(start, end)]))
    return blocks


def _belongs_to(unit: Unit) -> tuple[str, int]:
    """Return kind and number of the block that a unit is a part of."""
    if unit.kind == "list":
        return "list", unit.list_number
    return "table" if unit.kind == "header" else unit.kind, unit.block


def _list(text: str, units: Sequence[Unit]) -> PageBlock:
    items: list[ListItem] = []
    for _, group in groupby(units, key=lambda unit: unit.block):
        parts = list(group)
        items.append(ListItem(parts[0].start, parts[-1].end, parts[0].depth))
    number = units[0].number
    block = PageBlock(
        "list",
        items[0].start,
        items[-1].end,
        ordered=number >= 0,
        number=number if number >= 0 else None,
        items=tuple(items),
    )
    return _with_runs(text, block, [(item.start, item.end) for item in items])


def _table(text: str, units: Sequence[Unit], header: str, least: int) -> PageBlock:
    rows = [TableRow(tuple(_cells(text, unit, least)), unit.kind == "header") for unit in units]
    cells = [cell for row in rows for cell in row.cells]
    start = min(units[0].start, cells[0][0])
    end = max(units[-1].end, cells[-1][1])
    has_own = any(row.header for row in rows)
    repeated = tuple(cells_of(header)) if header and not has_own else ()
    return _with_runs(text, PageBlock("table", start, end, rows=tuple(rows), header=repeated), cells)


def _cells(text: str, unit: Unit, least: int) -> Iterator[Range]:
    """Yield the cells of a row without their white space. Its outer bars and empty cells are no part of the unit."""
    start = max(unit.begin, least)
    stop = text.find("\n", unit.end)
    end = len(text) if stop < 0 else stop
    start, end = _trimmed(text, start, end)
    start += text.startswith("|", start, end)
    if end > start and text[end - 1] == "|" and text[end - 2] != "\\":
        end -= 1
    for bar in _BAR.finditer(text, start, end):
        yield _trimmed(text, start, bar.start())
        start = bar.end()
    yield _trimmed(text, start, end)


def _code(text: str, units: Sequence[Unit], least: int) -> PageBlock:
    start = units[0].start
    while start > least and text[start - 1] in " \t":
        start -= 1
    fence = _FENCE.match(text, units[0].marked) if units[0].marked >= 0 else None
    return PageBlock("code", start, units[-1].end, language=fence[1] if fence else None)


def _heading(text: str, units: Sequence[Unit], least: int) -> PageBlock:
    start, end = units[0].start, units[-1].end
    line = text[max(text.rfind("\n", least, start) + 1, least) : start]
    block = PageBlock("heading", start, end, depth=min(max(line.count("#"), 1), 6))
    return _with_runs(text, block, [(start, end)])


def _with_runs(text: str, block: PageBlock, ranges: Sequence[Range]) -> PageBlock:
    inlines = [inline_runs(text, *one) for one in ranges]
    runs = tuple(run for inline in inlines for run in inline.runs)
    hidden = tuple(marks for inline in inlines for marks in inline.hidden)
    return PageBlock(**{**vars(block), "runs": runs, "hidden": hidden})


def _trimmed(text: str, start: int, end: int) -> Range:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
