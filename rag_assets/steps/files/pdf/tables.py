"""Tables of a page: runs of lines with aligned cells, or cells with lines around them; header and rows.

Columns come from the positions of cells: in lines with the most cells first, a cell below or above no other begins a
column, one over two spans them. Lines above the first value are the header; a header cell over several columns is
repeated in each, so that every value has all the words above it. Lines around cells define them, whatever their
content; a missing line between two makes one cell over several rows or columns, whose text is repeated in each.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rag_assets.steps.files.pdf.words import Box, Grid, PdfCell, PdfRow, RuledTable, Word

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
    """Return the tables that lines make of a page, from top to bottom, and the words outside of them. `boxes`: of the
    page's drawings, from the top left like the words."""
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
    group_of = list(range(len(across) + len(down)))

    def root(at: int) -> int:
        while group_of[at] != at:
            group_of[at] = group_of[group_of[at]]
            at = group_of[at]
        return at

    for row, one in enumerate(across):
        for column, other in enumerate(down):
            is_near = one.start - _NEAR <= other.at <= one.end + _NEAR
            if is_near and other.start - _NEAR <= one.at <= other.end + _NEAR:
                group_of[root(row)] = root(len(across) + column)
    groups: defaultdict[int, tuple[list[_RuledLine], list[_RuledLine]]] = defaultdict(lambda: ([], []))
    for row, one in enumerate(across):
        groups[root(row)][0].append(one)
    for column, other in enumerate(down):
        groups[root(len(across) + column)][1].append(other)
    yield from groups.values()


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
    said = {place: text if len(text) <= _REPEATED_MAX else "" for place, text in texts.items()}
    rows = [
        [(texts if place == (y, x) else said).get(place, "") for x, place in enumerate(row)]
        for y, row in enumerate(merged)
    ]
    kept = [at for at, row in enumerate(rows) if any(row)]
    columns = sum(any(row[at] for row in rows) for at in range(len(xs) - 1))
    if len(kept) < 2 or columns < 2 or len(texts) < _FILLED * len(cells) or len(cells) < 4:
        return None, list(words)
    head = _header_rows(merged, rows)
    body = [at for at in kept if at >= head]
    if not body:
        return None, list(words)
    header = [" ".join(dict.fromkeys(filter(None, column))) for column in zip(*rows[:head], strict=True)]
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
        lines = _lines(columns.pop(0, []))
        others = [line for members in columns.values() for line in _lines(members)] if len(lines) > 1 else []
        has_data = any(is_data(" ".join(word.text for word in line)) for line in others)
        beside = {round(line[0].y1 / 2) + near for line in others for near in (-1, 0, 1)}
        is_parted = len(lines) >= (2 if has_data else _ROWS_OF_WORDS)
        for above, line in pairwise(lines):
            first = line[0]
            has_place = above[-1].x1 + first.x1 - first.x0 + 0.5 * first.height < xs[1]  # so it begins anew
            is_word = not first.text[0].islower() and first.text[0].isalnum()
            is_parted = is_parted and has_place and is_word and round(first.y1 / 2) in beside
        yield from (line[0].y0 for line in lines[1:] if is_parted)


def _places(lines: Sequence[_RuledLine]) -> list[float]:
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
            if x and not _is_parted(down, xs[x], middle_y):
                row.append(row[-1])
            elif y and not _is_parted(across, ys[y], middle_x):
                row.append(cells[-1][x])
            else:
                row.append((y, x))
        cells.append(row)
    return cells


def _is_parted(lines: Sequence[_RuledLine], at: float, along: float) -> bool:
    return any(abs(line.at - at) <= _NEAR and line.start - 1 <= along <= line.end + 1 for line in lines)


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
    said = ""
    for line in _lines(words):
        text = " ".join(word.text for word in line)
        said = said[:-1] + text if said.endswith("\u00ad") else f"{said} {text}".strip()
    return said


def _lines(words: Sequence[Word]) -> list[list[Word]]:
    lines: list[list[Word]] = []
    for word in sorted(words, key=lambda word: (word.y0 + word.y1) / 2):
        first = lines[-1][0] if lines else None
        if first and (word.y0 + word.y1 - first.y0 - first.y1) / 2 < 0.5 * max(word.height, first.height):
            lines[-1].append(word)
        else:
            lines.append([word])
    return [sorted(line, key=lambda word: word.x0) for line in lines]


_SIGN = re.compile(r"[-–−(]?\s?(?:[$€£¥]|US\$)\s?[(]?")
_CLOSING = re.compile(r"[)%*†⁰¹²³⁴-⁹]{1,3}|%\)|\)%|(?:ppts?|pts?|bps)\.?")
_VALUE = (
    r"(?:[-–−+(]\s?)?(?:[$€£¥]\s?)?(?:[-–−(]\s?)?(?:\d[\d,.’']*|[—–])(?:\s?[)%]){0,2}"
    r"(?:[BMK]|x|×|\s?(?:ppts?|pts?|bps)\.?)?[⁰¹²³⁴-⁹]{0,2}"
)
_NONE = r"[—–-]|\*{1,3}|N/?[AM]|n/?[am]|NM|nil"
_DATA = re.compile(rf"{_VALUE}|{_NONE}")
_ONE = re.compile(_VALUE)
_YEAR = re.compile(r"(?:19|20)\d\d\.?")
_NUMBERING = re.compile(
    r"(?:item|note|part|section|article|chapter|exhibit)?\s?\(?(?:[0-9]{1,3}|[a-z]|[ivx]{1,5})[A-Z]?\s?[.):]{1,2}", re.I
)
_DIGIT = re.compile(r"\d")


def is_data(text: str) -> bool:
    """Return whether a cell is a value: a number with its signs, a dash or "N/A", and no year."""
    return bool(_DATA.fullmatch(text)) and not _YEAR.fullmatch(text)


def table_cells(cells: Sequence[PdfCell]) -> list[PdfCell]:
    """Return the cells of a line of a table, each value in its own cell with its detached signs."""
    mended: list[PdfCell] = []
    sign: PdfCell | None = None
    for cell in _parted(cells):
        if sign is not None:
            joint = "" if sign.text.endswith("(") else " "
            cell = cell._replace(text=f"{sign.text}{joint}{cell.text}", x0=sign.x0)
            sign = None
        if _SIGN.fullmatch(cell.text):
            sign = cell
        elif mended and _CLOSING.fullmatch(cell.text) and _DIGIT.search(mended[-1].text):
            mended[-1] = mended[-1]._replace(text=f"{mended[-1].text}{cell.text}", x1=cell.x1)
        else:
            mended.append(cell)
    return [*mended, sign] if sign is not None else mended


def _parted(cells: Sequence[PdfCell]) -> Iterator[PdfCell]:
    """Yield cells of one value each, and a sign of money at the end of a cell for itself."""
    for cell in cells:
        body, _, last = cell.text.rpartition(" ")
        if body and _SIGN.fullmatch(last) and (is_data(body) or _value_spans(body)):
            yield from _values(cell._replace(text=body, x1=_border(cell, len(body))))
            yield cell._replace(text=last, x0=_border(cell, len(body) + 1))
        else:
            yield from _values(cell)


def _values(cell: PdfCell) -> Iterator[PdfCell]:
    """Yield the values of a cell that has several and nothing else."""
    spans = _value_spans(cell.text)
    if len(spans) < 2:
        yield cell
        return
    for start, end in spans:
        yield cell._replace(text=cell.text[start:end], x0=_border(cell, start), x1=_border(cell, end))


def _value_spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of the values of a text of values alone; none if it has anything else."""
    spans: list[tuple[int, int]] = []
    place = 0
    while (match := _ONE.match(text, place)) is not None:
        spans.append(match.span())
        if match.end() == len(text):
            return spans
        if text[match.end()] != " " or text[match.end() - 1] == ",":  # a comma and a space: they are one value
            return []
        place = match.end() + 1
    return []


def _border(cell: PdfCell, place: int) -> float:
    return cell.x0 + (cell.x1 - cell.x0) * place / max(len(cell.text), 1)


_GAP = 2.2  # of a line's height: the widest gap between two lines of one table
_WRAPPED = 0.3  # of a line's height: how much more than usual the lines of one cell are apart
_LARGER = 1.15  # times the size of the line above: larger letters are no row
_HEADER_LINES = 8
_COLUMNS_MAX = 60
_CELL_CHARS = 80  # of half of a table's cells
_LABEL_CHARS = 200  # of a line between rows that names those below it


class FoundTable(NamedTuple):
    """A table and the lines of the page that it takes: `rows[start:stop]`."""

    start: int
    stop: int
    grid: Grid


class _TableLine(NamedTuple):
    cells: list[PdfCell]
    row: PdfRow


Column = tuple[float, float]


def tables_of(rows: Sequence[PdfRow]) -> list[FoundTable]:
    """Return the tables among the lines of a page, in order."""
    tables: list[FoundTable] = []
    place = 0
    while place < len(rows):
        if not _is_multiple(rows[place]):
            place += 1
            continue
        stop = _run_end(rows, place)
        first = _header_begin(rows, place, stop, tables[-1].stop if tables else 0)
        lines = [_TableLine(table_cells(row.cells), row) for row in rows[first:stop]]
        for begin, end in pairwise([0, *_new_headers(lines), len(lines)]):
            if (grid := _grid(lines[begin:end])) is not None:
                tables.append(FoundTable(first + begin, first + end, grid))
        place = stop
    return tables


def _new_headers(lines: Sequence[_TableLine]) -> Iterator[int]:
    """Yield where the header of another table begins below the values of one: bold lines over its columns."""
    border = min((cell.x0 for line in lines for cell in line.cells[1:] if is_data(cell.text)), default=0.0)
    seen = False
    for at, line in enumerate(lines):
        is_header = line.row.bold and not _has_data(line) and line.cells[-1].x1 > border and line.row.x1 > border
        if seen and is_header:
            yield at
            seen = False
        seen = seen or _has_data(line)


def _is_multiple(row: PdfRow) -> bool:
    return len(row.cells) > 2 or (len(row.cells) == 2 and not _NUMBERING.fullmatch(row.cells[0].text))


def _header_begin(rows: Sequence[PdfRow], place: int, stop: int, least: int) -> int:
    """Return the first line of a table's header: lines of one cell directly above its later columns."""
    border = min(row.cells[1].x0 for row in rows[place:stop] if _is_multiple(row))
    begin = place
    while begin > least and place - begin < _HEADER_LINES:
        above, below = rows[begin - 1], rows[begin]
        if above.column != below.column or below.y0 - above.y1 > 0.8 * below.size or above.x0 < border - below.size:
            break
        if above.x1 - above.x0 > 0.5 * (above.right - above.left):
            break
        begin -= 1
    return begin


def _run_end(rows: Sequence[PdfRow], place: int) -> int:
    border = rows[place].cells[1].x0
    stop = place + 1
    for at in range(stop, len(rows)):
        before, row = rows[at - 1], rows[at]
        is_near = -row.size < row.y0 - before.y1 <= _GAP * row.size
        if row.column != rows[place].column or not is_near or row.size > _LARGER * before.size:
            break
        if _is_multiple(row):
            border = min(border, row.cells[1].x0)
            stop = at + 1
        elif not _is_filler(row, border) or at - stop > 3:
            break
        elif stop == at:
            ends_label = row.x1 <= border and row.cells[0].text[:1].islower()
            stop += ends_label or _ends_value(before, row, border)
    return stop


def _ends_value(before: PdfRow, row: PdfRow, border: float) -> bool:
    """Return whether a line of one cell goes on with a later cell of the line above it: it begins below that, as near
    as lines of one paragraph."""
    is_below = any(abs(cell.x0 - row.x0) <= 0.2 * row.size for cell in before.cells)
    return is_below and row.x0 >= border - 0.2 * row.size and row.y0 - before.y1 <= _WRAPPED * row.size


def _is_filler(row: PdfRow, border: float) -> bool:
    """Return whether a line of one cell may occur between the rows of a table: a label, or a part of a cell."""
    is_label = row.x1 <= border or row.x0 >= border - row.size
    narrow = row.x1 - row.x0 < 0.45 * (row.right - row.left)
    return len(row.text) <= _LABEL_CHARS and (is_label or narrow)


def _grid(lines: Sequence[_TableLine]) -> Grid | None:
    if sum(len(line.cells) > 1 for line in lines) < 2:
        return None
    body = _body_begin(lines)
    columns = _columns(lines[body:] or lines)
    if not 2 <= len(columns) <= _COLUMNS_MAX:
        return None
    is_one_row = body > 0 and body + 1 == len(lines) and len(lines[body].cells) > 2
    if not is_one_row and not _is_aligned(lines[body:] or lines, columns):
        return None
    header = _header(lines[:body], columns)
    return Grid(header, *_rows(lines[body:], columns))


def _body_begin(lines: Sequence[_TableLine]) -> int:
    """Return the place of the first line below the header; a table of labels and values has none."""
    if _is_keyed(lines):
        return 0
    first = next((at for at, line in enumerate(lines) if _has_data(line)), None)
    if first is None:
        return _text_body(lines)
    label_end = min((cell.x0 for cell in lines[first].cells if is_data(cell.text)), default=0.0)
    while first and len(lines[first - 1].cells) == 1 and lines[first - 1].row.x0 < label_end:
        above = lines[first - 1].row
        if above.x1 > label_end and above.x0 > lines[first].row.x0 + 2 * above.size:
            break  # it is over the values
        first -= 1
    is_headed = any(len(line.cells) > 1 or line.row.x0 >= label_end - line.row.size for line in lines[:first])
    return first if is_headed else 0


def _is_keyed(lines: Sequence[_TableLine]) -> bool:
    """Return whether most lines begin with a label and a colon, as the fields of a form do, the first one included."""
    several = [line for line in lines if len(line.cells) > 1]
    labels = sum(line.cells[0].text.endswith(":") and not line.cells[1].text.endswith(":") for line in several)
    return len(several) > 1 and 2 * labels >= len(several) and several[0].cells[0].text.endswith(":")


def _has_data(line: _TableLine) -> bool:
    return any(is_data(cell.text) for cell in line.cells[1:]) or (len(line.cells) > 1 and is_data(line.cells[0].text))


def _text_body(lines: Sequence[_TableLine]) -> int:
    """Return where the body of a table without values begins: below bold lines, or below one of many short cells."""
    bold = 0
    while bold < len(lines) and lines[bold].row.bold:
        bold += 1
    if 0 < bold < len(lines):
        return bold
    cells = lines[0].cells
    is_names = len(cells) >= 3 and all(len(cell.text) <= 40 and not cell.text.endswith(":") for cell in cells)
    return 1 if is_names and len(cells) >= max(len(line.cells) for line in lines) else 0


def _columns(lines: Sequence[_TableLine]) -> list[Column]:
    columns: list[Column] = []
    for line in sorted(lines, key=lambda line: -len(line.cells)):
        if len(line.cells) == 1 and columns:
            continue
        for cell in line.cells:
            over = [at for at, column in enumerate(columns) if _overlap(cell, column) > 0]
            if not over:
                columns.append((cell.x0, cell.x1))
            elif len(over) == 1:
                left, right = columns[over[0]]
                columns[over[0]] = min(left, cell.x0), max(right, cell.x1)
    return sorted(columns)


def _overlap(cell: PdfCell, column: Column) -> float:
    return min(cell.x1, column[1]) - max(cell.x0, column[0])


def _is_aligned(lines: Sequence[_TableLine], columns: Sequence[Column]) -> bool:
    """Return whether a column beside the first has cells in several lines, as words with wide spaces have not."""
    filled = [0] * len(columns)
    for line in lines:
        for at in {_column_of(cell, columns) for cell in line.cells}:
            filled[at] += 1
    several = sum(len(line.cells) > 1 for line in lines)
    lengths = sorted(len(cell.text) for line in lines for cell in line.cells)
    is_short = lengths[len(lengths) // 2] <= _CELL_CHARS
    return sum(count >= 2 for count in filled) >= 2 and several >= 0.25 * len(lines) and is_short


def _column_of(cell: PdfCell, columns: Sequence[Column]) -> int:
    return max(range(len(columns)), key=lambda at: (_overlap(cell, columns[at]), -at))


def _first_column(cell: PdfCell, columns: Sequence[Column]) -> int:
    """Return the column of a cell: of text over several the one that it begins with."""
    near = [at for at, column in enumerate(columns) if abs(column[0] - cell.x0) <= 0.2 * cell.size]
    return near[0] if near and not is_data(cell.text) else _column_of(cell, columns)


def _header(lines: Sequence[_TableLine], columns: Sequence[Column]) -> list[str]:
    """Return the words above each column, from top to bottom; none if there are none."""
    words: list[list[str]] = [[] for _ in columns]
    for line in lines:
        for cell, spanned in zip(line.cells, _spans(line, columns), strict=True):
            for at in spanned:
                words[at].append(cell.text)
    return [" ".join(column) for column in words] if any(words) else []


def _spans(line: _TableLine, columns: Sequence[Column]) -> Iterator[Sequence[int]]:
    """Yield the columns below each cell of a header's line.

    A name over a group of columns may be shorter than the group: if the groups are equally wide in columns, each name
    has as many.
    """
    values = range(1, len(columns))
    names = [cell for cell in line.cells if _column_of(cell, columns) or cell.x0 >= columns[0][1]]
    share = len(values) // len(names) if names and len(values) % len(names) == 0 else 1
    number = 0
    for cell in line.cells:
        over = [at for at, column in enumerate(columns) if _overlap(cell, column) > 0] or [_column_of(cell, columns)]
        is_name = cell in names
        group = list(values[number * share : (number + 1) * share]) if is_name else []
        number += is_name
        left, right = (columns[group[0]][0], columns[group[-1]][1]) if group else (0.0, 0.0)
        is_over = abs(cell.x0 + cell.x1 - left - right) / 2 <= 0.15 * (right - left)  # the middle of the group
        if share > 1 and len(over) < share and set(over) <= set(group) and is_over:
            over = group
        elif not is_name:
            over = [0]
        elif len(over) == 1 and _overlap(cell, columns[over[0]]) <= 0:
            over = _nearest_two(cell, columns)
        yield over


def _nearest_two(cell: PdfCell, columns: Sequence[Column]) -> list[int]:
    nearest = sorted(range(1, len(columns)), key=lambda at: -_overlap(cell, columns[at]))[:2]
    if len(nearest) == 2 and -_overlap(cell, columns[nearest[1]]) > 2 - 1.5 * _overlap(cell, columns[nearest[0]]):
        nearest.pop()
    return sorted(nearest) or [0]


def _rows(lines: Sequence[_TableLine], columns: Sequence[Column]) -> tuple[list[list[str]], list[tuple[float, float]]]:
    """Return the rows of a table with their vertical ranges; lines that continue cells of the row above join it."""
    usual = min((after.row.y0 - before.row.y1 for before, after in pairwise(lines)), default=0.0)
    middle = (columns[0][0] + columns[-1][1]) / 2
    rows: list[list[str]] = []
    bands: list[tuple[float, float]] = []
    previous: _TableLine | None = None
    label_open = is_cut = False  # whether the last row is a label alone that may go on, or must
    for line in lines:
        texts = [""] * len(columns)
        for cell in line.cells:
            is_title = len(line.cells) == 1 and not is_data(cell.text) and cell.x0 < middle
            at = 0 if is_title and line.row.bold else _first_column(cell, columns)
            texts[at] = f"{texts[at]} {cell.text}".strip()
        if previous is not None and (is_cut or _goes_on(previous, line, texts, label_open, usual)):
            rows[-1] = [_joined(above, below) for above, below in zip(rows[-1], texts, strict=True)]
            bands[-1] = bands[-1][0], max(bands[-1][1], line.row.y1)
        else:
            rows.append(texts)
            bands.append((line.row.y0, line.row.y1))
        label_open = bool(rows[-1][0]) and not any(rows[-1][1:]) and not rows[-1][0].endswith(":")
        is_cut = label_open and rows[-1][0].count("(") > rows[-1][0].count(")")
        previous = line
    return rows, bands


def _goes_on(before: _TableLine, line: _TableLine, texts: Sequence[str], label_open: bool, usual: float) -> bool:
    if line.row.y0 - before.row.y1 > usual + _WRAPPED * line.row.size:
        return False
    is_lower = texts[0][:1].islower()
    if label_open:
        return is_lower
    if _has_data(line):
        return not texts[0] and not _has_data(before)
    return not texts[0] or (is_lower and not (_has_data(before) and any(texts[1:])))


def _joined(above: str, below: str) -> str:
    if above.endswith("\u00ad"):
        return above[:-1] + below
    return f"{above} {below}".strip()
