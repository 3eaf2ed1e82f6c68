"""Rows, items, headings and page properties in passages.

Belongs here: what of a passage's Markdown is a row of which columns, an item, a child heading or a property, with its
place. Does not belong here: what a cell means (`cells`), which passages are read (`execute`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rag_serving.records.sets import SetError
from rag_serving.sets.cells import normalized, shown
from rag_serving.text.structure import Structure, decode, line_of, structure_of
from rag_serving.text.units import Unit

_BAR = re.compile(r"(?<!\\)\|")
_KEYED = re.compile(r"([^:|]{1,60}?)\s*:\s+(\S.*)")
_MARKER = re.compile(r"\s*(?:>\s?)*(?:(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?)?")


class MemberPassage(NamedTuple):
    """The parsed contents of a passage."""

    chunk_id: str
    page_id: str
    title: str
    url: str
    anchor: str
    heading_path: tuple[str, ...]
    text: str
    structure: str | None

    def units(self) -> Structure:
        return decode(self.structure) if self.structure else structure_of(self.text)


class Part(NamedTuple):
    """A row, item, heading or property: its cells by name, and its quote `passage.text[start:end]`."""

    passage: MemberPassage
    start: int
    end: int
    cells: tuple[tuple[str, str], ...]


def rows_of(passages: Sequence[MemberPassage]) -> Iterator[Part]:
    """Yield the body rows of the tables with a header; a table that goes on in the next passage keeps its header.

    Raises:
        SetError: a row is cut between two passages.
    """
    for passage in passages:
        read = passage.units()
        for unit in read.units:
            if unit.kind == "table" and (header := read.header_of(unit, passage.text)):
                if not _is_whole(unit, passage.text):
                    raise SetError(f"a row of a table in {passage.chunk_id} is cut between two passages")
                cells = _cells(line_of(unit, passage.text))
                names = _names(_cells(header), len(cells))
                cells += [""] * (len(names) - len(cells))
                yield Part(passage, unit.begin, _end(unit, passage.text), tuple(zip(names, cells, strict=True)))


def items_of(passages: Sequence[MemberPassage]) -> Iterator[Part]:
    """Yield the items of lists that are in no other item, without what is nested in them."""
    for passage in passages:
        units = passage.units().units
        for place, unit in enumerate(units):
            if unit.kind == "list" and unit.marked >= 0 and unit.depth == 0:
                end = max(each.end for each in units[place:] if each.block == unit.block)
                yield Part(passage, unit.start, end, (("text", shown(passage.text[unit.start : end])),))


def headings_of(passages: Sequence[MemberPassage], path: Sequence[str]) -> Iterator[Part]:
    """Yield the headings one level below a heading path, in the order of a page's passages."""
    depth, last, anchor = len(path), "", ""
    for passage in passages:
        if len(passage.heading_path) <= depth or list(passage.heading_path[:depth]) != list(path):
            last = ""
            continue
        name, is_own = passage.heading_path[depth], len(passage.heading_path) == depth + 1
        if name != last or (is_own and anchor not in ("", passage.anchor)):
            first = next(iter(passage.units().units), Unit(0, 0, "sentence"))
            yield Part(passage, first.begin, first.end, (("text", name),))
            anchor = ""
        last, anchor = name, passage.anchor if is_own else anchor


def properties_of(passage: MemberPassage, key: str) -> Iterator[Part]:
    """Yield the values that a passage gives a key, normalized: rows of two cells without a header, `Key: value`."""
    if ":" not in passage.text and "|" not in passage.text:
        return
    read = passage.units()
    for unit in read.units:
        if unit.kind == "table" and _is_whole(unit, passage.text) and not read.header_of(unit, passage.text):
            cells = _cells(line_of(unit, passage.text))
            if len(cells) == 2 and normalized(cells[0]) == key:
                yield Part(passage, unit.begin, _end(unit, passage.text), ((cells[0], cells[1]),))
    for start, end in _prose_lines(read, passage.text):
        line = passage.text[start:end]
        match = _KEYED.fullmatch(shown(line)) if ":" in line else None
        if match and normalized(match[1]) == key:
            yield Part(passage, start, end, ((match[1], match[2]),))


def _prose_lines(read: Structure, text: str) -> Iterator[tuple[int, int]]:
    """Yield the lines of sentences and items, without their markers."""
    start, units = 0, iter([*read.units, Unit(len(text) + 1, len(text) + 1, "code")])
    unit = next(units)
    for line in text.split("\n"):
        end = start + len(line)
        while unit.end <= start:
            unit = next(units)
        if unit.start < end and unit.kind in ("sentence", "list"):
            marker = _MARKER.match(text, start, end)
            yield marker.end() if marker else start, start + len(line.rstrip())
        start = end + 1


def _is_whole(unit: Unit, text: str) -> bool:
    return unit.marked >= 0 and line_of(unit, text).endswith("|")


def _end(unit: Unit, text: str) -> int:
    return unit.begin + len(line_of(unit, text))


def _cells(row: str) -> list[str]:
    """Return the shown cells of a row with a bar on both sides."""
    return [shown(cell) for cell in _BAR.split(row.strip())[1:-1]]


def _names(header: Sequence[str], width: int) -> tuple[str, ...]:
    """Return a name for each column, no two alike: those of a header, and numbers if it has none."""
    names, seen = [], Counter[str]()
    for place in range(max(len(header), width)):
        name = header[place] if place < len(header) and header[place] else f"Column {place + 1}"
        seen[normalized(name)] += 1
        names.append(name if seen[normalized(name)] == 1 else f"{name} ({seen[normalized(name)]})")
    return tuple(names)
