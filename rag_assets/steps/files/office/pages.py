"""Common parts of slides and sheets of all formats: the order of a slide, the tables of a sheet.

Belongs here: a slide's heading, its reading order by position, its notes; sheets as tables, separated by blank rows,
merged cells repeated, hidden columns gone. Does not belong here: reading slides and cells (`pptx`, `xlsx`).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from rag_assets.steps.files.office.block_writer import BlockWriter, Line
from rag_assets.steps.formats.tables import Cell

T = TypeVar("T")


class PlacedShape(NamedTuple, Generic[T]):
    """Something on a slide: left, top and height in any one unit; without a position it stays in the file's order."""

    what: T
    x: float
    y: float
    height: float


def in_reading_order(items: Sequence[PlacedShape[T]], slide_height: float) -> list[T]:
    """Return them in rows from top to bottom, each from left to right.

    A row ends below the middle of its first item, at most a twelfth of the slide below its top.
    """
    ordered = sorted(items, key=lambda item: (item.y, item.x))
    rows: list[list[PlacedShape[T]]] = []
    end = float("-inf")
    for item in ordered:
        if item.y >= end:
            rows.append([])
            end = item.y + max(min(item.height / 2, slide_height / 12), 1)
        rows[-1].append(item)
    return [item.what for row in rows for item in sorted(row, key=lambda each: (each.x, each.y))]


NOTES = "Speaker notes:"


def write_title(writer: BlockWriter, title: Line, number: int) -> None:
    """Write the heading of a slide: its number and its title."""
    words = " ".join(title.paragraphs())
    heading = Line(f"Slide {number}: {words}" if words else f"Slide {number}")
    writer.heading(heading, 1, names=(f"page={number}", f"slide={number}"))


def write_notes(writer: BlockWriter, lines: Sequence[Line]) -> None:
    """Write the speaker's notes of a slide, labelled in the first paragraph."""
    first = True
    for line in lines:
        if line.empty():
            continue
        if first:
            line.begin(f"{NOTES} ")
        first = False
        writer.paragraph(line)


ROWS_MAX, COLUMNS_MAX = 1_048_576, 16_384
"""Of a sheet in Excel; what lies beyond is read by no program."""
_MERGED_MAX = 10_000
_DEFAULT_NAME = re.compile(r"(?:Table|Tabelle|Tableau|Tabla|__Anonymous_Sheet_DB__)_?\d{0,9}")


class MergedCell(NamedTuple):
    """A merged cell: its first and last row and column, from 0."""

    row: int
    column: int
    last_row: int
    last_column: int


class SheetRow(NamedTuple):
    """The cells of a row that have text, by column; both from 0."""

    row: int
    cells: Mapping[int, str]


@dataclass
class SheetShape:
    """A sheet's properties beside its cells."""

    merged: Sequence[MergedCell] = ()
    hidden_rows: set[int] = field(default_factory=set)  # they part nothing
    names: Mapping[int, str] = field(default_factory=dict)  # of defined tables, by their first row
    _starting: dict[tuple[int, int], MergedCell] = field(default_factory=dict)
    _indexed: int = 0

    def starting(self) -> Mapping[tuple[int, int], MergedCell]:
        """Return the merged cells by their first row and column."""
        new = self.merged[self._indexed : _MERGED_MAX]
        self._starting.update({(merged.row, merged.column): merged for merged in new})
        self._indexed += len(new)
        return self._starting


def write_sheet(writer: BlockWriter, rows: Iterable[SheetRow], shape: SheetShape) -> None:
    """Write the tables of a sheet; rows come in order, rows without text may be missing."""
    part: list[SheetRow] = []
    size, last = 0, -1
    for row in rows:
        if not row.cells:
            continue
        if part and _parted(last, row.row, shape):
            _write_part(writer, part, shape)
            part, size = [], 0
        last = row.row
        part.append(row)
        size += len(row.cells)
        if size > writer.cells_left:  # more than is kept: the writer reports the cut
            break
    _write_part(writer, part, shape)


def _parted(above: int, below: int, shape: SheetShape) -> bool:
    """Return whether there is a blank row between two rows, or a defined table begins."""
    if below in shape.names:
        return True
    hidden = shape.hidden_rows
    return any(row not in hidden for row in range(above + 1, min(below, above + 2 + len(hidden))))


def _write_part(writer: BlockWriter, part: list[SheetRow], shape: SheetShape) -> None:
    if not part:
        return
    name = shape.names.get(part[0].row, "")
    if name and not _DEFAULT_NAME.fullmatch(name):
        writer.text(name)
    columns = sorted({column for row in part for column in row.cells})
    if len(columns) == 1:
        for row in part:
            writer.paragraph(Line(row.cells[columns[0]]))
        return
    merged = _Covering(shape.starting(), [row.row for row in part], columns)
    writer.table([merged.cells(row) for row in part])


class _Covering:
    """The merged cells of a part, met row by row."""

    def __init__(self, starting: Mapping[tuple[int, int], MergedCell], rows: list[int], columns: list[int]) -> None:
        self._starting, self._rows, self._columns = starting, rows, columns
        self._covered: dict[int, MergedCell] = {}  # by column: the cell that goes on from above

    def cells(self, row: SheetRow) -> list[Cell]:
        """Return the cells of a row, without those that another one covers."""
        cells: list[Cell] = []
        covered_to = -1
        for place, column in enumerate(self._columns):
            if column <= covered_to:
                continue
            above = self._covered.get(column)
            if above is not None and above.last_row >= row.row:
                continue
            merged = self._starting.get((row.row, column))
            if merged is None:
                cells.append(Cell(row.cells.get(column, "")))
                continue
            covered_to = merged.last_column
            columns = self._columns[place : bisect_right(self._columns, merged.last_column)]
            self._covered.update(dict.fromkeys(columns, merged))
            rows = bisect_right(self._rows, merged.last_row) - bisect_left(self._rows, row.row)
            cells.append(Cell(row.cells.get(column, ""), False, len(columns), rows))
        return cells
