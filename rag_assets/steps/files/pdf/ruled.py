"""Tables whose cells have lines around them: these define the cells, whatever their content.

Belongs here: lines of a page as grids of cells, the words in each cell, header and rows.
Does not belong here: tables without lines (`tables`), getting lines from PDFium (`reading`).

A missing line between two cells makes one cell over several rows or columns; its text is repeated in each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rag_assets.steps.files.pdf.records import Box, Grid, RuledTable, Word
from rag_assets.steps.files.pdf.tables import is_data

_THIN, _SHORT = 3.5, 6.0  # points: thickness of a line at most, its length at least
_NEAR = 3.0  # points between lines that meet
_LINES_MAX = 300  # of a page, in one direction: more are a drawing
_CELLS_MAX = 6_000  # of a table
_FILLED = 0.25  # of the cells: fewer have text in a chart
_ROWS_OF_WORDS = 3  # rows without a line between them, at least, where no cell is a number
_REPEATED_MAX = 500  # characters of a cell that are repeated


class _RuledLine(NamedTuple):
    """A line: `at` is where it lies, across its direction; from `start` to `end` along it."""

    at: float
    start: float
    end: float


def ruled_tables(boxes: Sequence[Box], words: Sequence[Word]) -> tuple[list[RuledTable], list[Word]]:
    """Return the tables that lines make of a page, from top to bottom, and the words outside of them.

    `boxes`: of the page's drawings, from the top left like the words.
    """
    across = _merged(
        _RuledLine((y0 + y1) / 2, x0, x1) for x0, y0, x1, y1 in boxes if y1 - y0 <= _THIN < _SHORT <= x1 - x0
    )
    down = _merged(
        _RuledLine((x0 + x1) / 2, y0, y1) for x0, y0, x1, y1 in boxes if x1 - x0 <= _THIN < _SHORT <= y1 - y0
    )
    if not 2 <= len(across) <= _LINES_MAX or not 2 <= len(down) <= _LINES_MAX:
        return [], list(words)
    tables: list[RuledTable] = []
    left = list(words)
    for rows, columns in _groups(across, down):
        table, others = _table(rows, columns, left)
        if table is not None:
            tables.append(table)
            left = others
    return sorted(tables, key=lambda table: table.box[1]), left


def _merged(lines: Iterator[_RuledLine]) -> list[_RuledLine]:
    """Return lines in one direction, parts of the same one joined."""
    merged: list[_RuledLine] = []
    by_place: defaultdict[int, list[_RuledLine]] = defaultdict(list)
    for line in lines:
        by_place[round(line.at / 2)].append(line)
    for place in sorted(by_place):
        for line in sorted(by_place[place], key=lambda line: line.start):
            last = merged[-1] if merged else None
            if last and abs(last.at - line.at) <= 2 and line.start - last.start > -1 and line.start <= last.end + _NEAR:
                merged[-1] = _RuledLine(last.at, last.start, max(last.end, line.end))
            else:
                merged.append(line)
    return merged


def _groups(
    across: Sequence[_RuledLine], down: Sequence[_RuledLine]
) -> Iterator[tuple[list[_RuledLine], list[_RuledLine]]]:
    """Yield the lines that hang together, those across and those down."""
    group_of = list(range(len(across) + len(down)))

    def root(at: int) -> int:
        while group_of[at] != at:
            group_of[at] = group_of[group_of[at]]
            at = group_of[at]
        return at

    for row, one in enumerate(across):
        for column, other in enumerate(down):
            if _meet(one, other):
                group_of[root(row)] = root(len(across) + column)
    groups: defaultdict[int, tuple[list[_RuledLine], list[_RuledLine]]] = defaultdict(lambda: ([], []))
    for row, one in enumerate(across):
        groups[root(row)][0].append(one)
    for column, other in enumerate(down):
        groups[root(len(across) + column)][1].append(other)
    yield from groups.values()


def _meet(across: _RuledLine, down: _RuledLine) -> bool:
    return across.start - _NEAR <= down.at <= across.end + _NEAR and down.start - _NEAR <= across.at <= down.end + _NEAR


def _table(
    across: Sequence[_RuledLine], down: Sequence[_RuledLine], words: Sequence[Word]
) -> tuple[RuledTable | None, list[Word]]:
    """Return the table that lines make, and the words outside of it; None if they make none."""
    ys, xs = _places(across), _places(down)
    across = [*across, *(_RuledLine(y, xs[0], xs[-1]) for y in _unruled(ys, xs, words))]
    ys = _places(across)
    if len(ys) < 3 or len(xs) < 3 or len(ys) * len(xs) > _CELLS_MAX:
        return None, list(words)
    inside: defaultdict[tuple[int, int], list[Word]] = defaultdict(list)
    outside: list[Word] = []
    merged = _cells(ys, xs, across, down)
    for word in words:
        row = bisect_right(ys, (word.y0 + word.y1) / 2) - 1
        column = bisect_right(xs, (word.x0 + word.x1) / 2) - 1
        if 0 <= row < len(ys) - 1 and 0 <= column < len(xs) - 1:
            inside[merged[row][column]].append(word)
        else:
            outside.append(word)
    texts = {place: _text(members) for place, members in inside.items()}
    cells = {place for row in merged for place in row}
    rows = [[_said(texts, place, (y, x)) for x, place in enumerate(row)] for y, row in enumerate(merged)]
    kept = [at for at, row in enumerate(rows) if any(row)]
    columns = sum(any(row[at] for row in rows) for at in range(len(xs) - 1))
    if len(kept) < 2 or columns < 2 or len(texts) < _FILLED * len(cells) or len(cells) < 4:
        return None, list(words)
    head = _header_rows(merged, rows)
    body = [at for at in kept if at >= head]
    if not body:
        return None, list(words)
    header = [_joined(column) for column in zip(*rows[:head], strict=True)] if head else []
    grid = Grid(header, [rows[at] for at in body], [(ys[at], ys[at + 1]) for at in body])
    return RuledTable((xs[0], ys[0], xs[-1], ys[-1]), grid), outside


def _unruled(ys: Sequence[float], xs: Sequence[float], words: Sequence[Word]) -> Iterator[float]:
    """Yield where rows begin that have no line above them, as where one is drawn below every fifth row: each line of
    the first cell begins anew, and another cell has a line beside it."""
    bands: defaultdict[int, defaultdict[int, list[Word]]] = defaultdict(lambda: defaultdict(list))
    for word in words:
        row = bisect_right(ys, (word.y0 + word.y1) / 2) - 1
        column = bisect_right(xs, (word.x0 + word.x1) / 2) - 1
        if 0 <= row < len(ys) - 1 and 0 <= column < len(xs) - 1:
            bands[row][column].append(word)
    for columns in bands.values():
        first = _lines(columns.pop(0, []))
        others = [line for members in columns.values() for line in _lines(members)] if len(first) > 1 else []
        has_data = any(is_data(" ".join(word.text for word in line)) for line in others)
        if len(first) < (2 if has_data else _ROWS_OF_WORDS):
            continue
        beside = {round(line[0].y1 / 2) + near for line in others for near in (-1, 0, 1)}
        if all(_begins_anew(one, line, xs[1]) and round(line[0].y1 / 2) in beside for one, line in pairwise(first)):
            yield from (line[0].y0 for line in first[1:])


def _begins_anew(above: Sequence[Word], line: Sequence[Word], right: float) -> bool:
    """Return whether a line of a cell is no part of the text above it: its first word had a place there."""
    first = line[0]
    has_place = above[-1].x1 + first.x1 - first.x0 + 0.5 * first.height < right
    return has_place and not first.text[0].islower() and first.text[0].isalnum()


def _places(lines: Sequence[_RuledLine]) -> list[float]:
    """Return the distinct positions of lines."""
    places: list[float] = []
    for at in sorted(line.at for line in lines):
        if not places or at - places[-1] > _NEAR:
            places.append(at)
    return places


def _cells(
    ys: Sequence[float], xs: Sequence[float], across: Sequence[_RuledLine], down: Sequence[_RuledLine]
) -> list[list[tuple[int, int]]]:
    """Return for each place of the grid the first place of its cell: a cell goes on where no line parts two places."""
    cells: list[list[tuple[int, int]]] = []
    for y in range(len(ys) - 1):
        row: list[tuple[int, int]] = []
        for x in range(len(xs) - 1):
            middle_x, middle_y = (xs[x] + xs[x + 1]) / 2, (ys[y] + ys[y + 1]) / 2
            if x and not _parted(down, xs[x], middle_y):
                row.append(row[-1])
            elif y and not _parted(across, ys[y], middle_x):
                row.append(cells[-1][x])
            else:
                row.append((y, x))
        cells.append(row)
    return cells


def _parted(lines: Sequence[_RuledLine], at: float, along: float) -> bool:
    return any(abs(line.at - at) <= _NEAR and line.start - 1 <= along <= line.end + 1 for line in lines)


def _said(texts: dict[tuple[int, int], str], place: tuple[int, int], here: tuple[int, int]) -> str:
    text = texts.get(place, "")
    return text if place == here or len(text) <= _REPEATED_MAX else ""


def _header_rows(merged: Sequence[Sequence[tuple[int, int]]], rows: Sequence[Sequence[str]]) -> int:
    """Return how many rows at the top name the columns: the first without values, and those above it that have a cell
    over several columns."""
    at = 0
    while at < len(rows) - 1 and len(set(merged[at])) < len(merged[at]) and len(set(merged[at])) > 1 and at < 3:
        at += 1
    texts = [text for text in rows[at] if text]
    is_head = len(texts) > 1 and not any(is_data(text) or text.endswith(":") for text in texts)
    is_same = all(place[0] <= at for place in merged[min(at + 1, len(rows) - 1)][:1]) and at + 1 < len(rows)
    if not is_head or len(rows) < 2 or (is_same and merged[at + 1][0] == merged[at][0]):
        return 0
    return at + 1 if all(len(text) <= 120 for text in texts) else 0


def _text(words: Sequence[Word]) -> str:
    """Return the words of a cell line by line."""
    said = ""
    for line in _lines(words):
        text = " ".join(word.text for word in line)
        said = said[:-1] + text if said.endswith("\u00ad") else f"{said} {text}".strip()
    return said


def _lines(words: Sequence[Word]) -> list[list[Word]]:
    """Return the lines of a cell, each from left to right."""
    lines: list[list[Word]] = []
    for word in sorted(words, key=lambda word: (word.y0 + word.y1) / 2):
        first = lines[-1][0] if lines else None
        if first and (word.y0 + word.y1 - first.y0 - first.y1) / 2 < 0.5 * max(word.height, first.height):
            lines[-1].append(word)
        else:
            lines.append([word])
    return [sorted(line, key=lambda word: word.x0) for line in lines]


def _joined(texts: Sequence[str]) -> str:
    return " ".join(dict.fromkeys(text for text in texts if text))
