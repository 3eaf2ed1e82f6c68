"""The structure of a passage, as ingest knows it: its units, and the section's earlier text that they depend on."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, get_args

from rag_serving.text.units import Block, Kind, Unit, cells_of, clipped, units


class PageMark(NamedTuple):
    """The start of a page's text, up to the next mark."""

    start: int  # offset in the text
    page: int  # from 1; 0: not known
    confidence: int | None = None  # of what OCR read, 0 to 100; None: no OCR


PageMarks = tuple[PageMark, ...]  # in order, the first at the beginning of the text; none where the file has no pages


def marks_of(blocks: Iterable[Mapping[str, Any]]) -> PageMarks:
    """Return the marks of a section with blocks of SECTIONS; none if no block is on a page or read by OCR. The text
    between two blocks is on the page of the first."""
    return _told([*_marks(blocks)])


def within(marks: PageMarks, start: int, end: int) -> PageMarks:
    """Return the marks of `text[start:end]`, counted from its start."""
    if not marks:
        return ()
    first = max(bisect_right(marks, start, key=_start) - 1, 0)
    inside = [mark for mark in marks[first:] if mark.start < max(end, start + 1)]
    return _told([mark._replace(start=max(mark.start - start, 0)) for mark in inside])


def page_at(marks: PageMarks, position: int) -> int | None:
    """Return a character's page, from 1; None if unknown."""
    place = bisect_right(marks, position, key=_start) - 1
    return (marks[place].page or None) if place >= 0 else None


def pages_of(marks: PageMarks, start: int, end: int) -> tuple[int, ...]:
    """Return the pages of `text[start:end]`, in order and each once."""
    return tuple(dict.fromkeys(mark.page for mark in within(marks, start, end) if mark.page))


def confidence_of(marks: PageMarks, start: int, end: int) -> int | None:
    """Return the least confidence that OCR read some of `text[start:end]` with, 0 to 100; None: OCR read none of it."""
    read = [mark.confidence for mark in within(marks, start, end) if mark.confidence is not None]
    return min(read, default=None)


def page_anchor(page: int) -> str:
    """Return the anchor of a page that PDF viewers know (RFC 8118)."""
    return f"page={page}"


def encoded(marks: PageMarks) -> list[list[int]]:
    """Return the compact form: arrays, without defaults."""
    return [[start, page, *([] if sure is None else [sure])] for start, page, sure in marks]


def decoded(rows: Sequence[Sequence[int]]) -> PageMarks:
    """Return the marks that `encoded` wrote."""
    return tuple(PageMark(*row) for row in rows)


def _marks(blocks: Iterable[Mapping[str, Any]]) -> Iterator[PageMark]:
    for block in blocks:
        page, confidence = block.get("page") or 0, block.get("confidence")
        yield PageMark(block["start"], page, confidence)
        for at, later in block.get("breaks") or ():
            yield PageMark(at, later, confidence)


def _told(marks: Sequence[PageMark]) -> PageMarks:
    """Return the marks that say something else than the one before, the first from the beginning of the text."""
    if not any(mark.page or mark.confidence is not None for mark in marks):
        return ()
    told: list[PageMark] = []
    for mark in marks:
        if told and told[-1].start >= mark.start:
            told.pop()
        if not told or told[-1][1:] != mark[1:]:
            told.append(mark if told else mark._replace(start=0))
    return tuple(told)


def _start(mark: PageMark) -> int:
    return mark.start


_KINDS: tuple[Kind, ...] = get_args(Kind)
_HANGING = ("list", "table", "code")
FENCES = ("```", "~~~")
_CAPTION = re.compile(
    r"[*_]{0,2}(?:table|figure|fig\.|exhibit|chart|tabelle|abbildung|abb\.|tableau)\s{1,3}(?:\d|[A-Z]?[.-]?\d|[IVX]{1,5}\b)",
    re.I,
)
_CAPTION_CHARS = 300
_LONGEST = 1_000  # characters of a header or an introduction that another chunk repeats


class Structure(NamedTuple):
    """The units of a passage, and the parents of its first ones in the chunk before."""

    units: tuple[Unit, ...]
    table_header: str = ""  # the row that names the columns of a table which the passage begins inside
    introduction: str = ""  # the sentence with a colon above a list, a table or code which the passage begins inside
    marks: PageMarks = ()  # its pages

    def encode(self) -> str:
        """Return the compact form: JSON, without defaults."""
        shape: list[Any] = [[_row(unit) for unit in self.units], self.table_header, self.introduction]
        if self.marks:
            shape.append(encoded(self.marks))
        return json.dumps(shape, ensure_ascii=False, separators=(",", ":"))

    def unit_at(self, position: int) -> Unit | None:
        """Return the unit at a character, or None between units."""
        place = self.place_at(position)
        return None if place is None else self.units[place]

    def place_at(self, position: int) -> int | None:
        """Return the index of the unit at a character, or None between units."""
        place = bisect_right(self.units, position, key=lambda unit: unit.start) - 1
        return place if place >= 0 and position < self.units[place].end else None

    def header_of(self, row: Unit, text: str) -> str:
        """Return the row that names the columns of a row's table; empty if none does."""
        header = next((unit for unit in self.units if unit.block == row.block and unit.kind == "header"), None)
        if header:
            return line_of(header, text)
        return self.table_header if self.units[0].block == row.block else ""


def structure_of(text: str) -> Structure:
    """Return the structure of a text that no ingest has read."""
    return _structure_of(text)


@lru_cache(maxsize=64)
def _structure_of(text: str) -> Structure:
    return Structure(tuple(units(text)))


@lru_cache(maxsize=1024)
def decode(written: str) -> Structure:
    """Return the structure that `Structure.encode` wrote."""
    rows, table_header, introduction, *marks = json.loads(written)
    return Structure(tuple(_unit(*row) for row in rows), table_header, introduction, decoded(*marks or [()]))


def chunk_structures(
    text: str, blocks: Sequence[Block], ranges: Iterable[tuple[int, int]], marks: PageMarks = ()
) -> Iterator[Structure]:
    """Yield the structure of each chunk of a section, `text[start:end]`, with offsets from the chunk's beginning.
    `marks` are those of the section."""
    found = units(text, blocks)
    headers = {unit.block: unit for unit in found if unit.kind == "header"}
    above = list(units_above(found))
    for start, end in ranges:
        inside = clipped(text, found, start, end)
        if not inside:
            yield Structure((), marks=within(marks, start, end))
            continue
        first = bisect_right(found, start, key=lambda unit: unit.end)
        header, before = headers.get(found[first].block), above[first]
        yield Structure(
            tuple(inside),
            _short(line_of(header, text)) if header and header.end <= start and inside[0].kind == "table" else "",
            _short(_introducing(before.of(text))) if before else "",
            within(marks, start, end),
        )


def line_of(unit: Unit, text: str) -> str:
    """Return a row with its bars: the unit to the end of its line."""
    end = text.find("\n", unit.end)
    return text[unit.begin : end if end >= 0 else None].strip()


def columns_of(header: str) -> list[str]:
    """Return the names of a table's columns; none if the row is the table's title, in its first cell alone."""
    names = cells_of(header) if header else []
    return [] if len(names) > 1 and not any(names[1:]) else names


def units_above(found: Sequence[Unit]) -> Iterator[Unit | None]:
    """Yield for each unit the one that its list, table or run of code hangs from; None for others and at the top."""
    lists: dict[int, Unit | None] = {}
    previous, above = "", None
    for place, unit in enumerate(found):
        kind = "table" if unit.kind == "header" else unit.kind
        if kind != previous:
            previous, above = kind, found[place - 1] if place else None
        if kind == "list":
            yield lists.setdefault(unit.list_number, above)
        else:
            yield above if kind in _HANGING else None


def is_caption(text: str) -> bool:
    """Return whether a text is the caption of a table or a figure: short, and begins with its number."""
    return len(text) <= _CAPTION_CHARS and _CAPTION.match(text) is not None


def _introducing(said: str) -> str:
    return said if said.rstrip("*_ ").endswith(":") or is_caption(said) else ""


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else ""


def _row(unit: Unit) -> list[int]:
    row = [_KINDS.index(unit.kind), unit.start, unit.end - unit.start, *unit[3:]]
    while len(row) > 4 and row[-1] == _DEFAULTS[len(row) - 1]:
        row.pop()
    return row


_DEFAULTS = [0, 0, 0, *(Unit._field_defaults[name] for name in Unit._fields[3:])]


def _unit(kind: int, start: int, length: int, *rest: int) -> Unit:
    return Unit(start, start + length, _KINDS[kind], *rest)
