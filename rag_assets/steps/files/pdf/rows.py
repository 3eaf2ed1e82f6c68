"""Words to lines: what stands beside each other, and in which order columns are read.

Belongs here: cells, rows, columns of running text. Does not belong here: what a row means (table, heading, paragraph).
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from rag_assets.steps.files.pdf.records import Cell, Row, Word

_READABLE = 2.5  # points; smaller letters are not there to be read, where most of the page is larger
_TINY = 0.35  # of the height that most letters of the page have
_SPACE = 0.75  # of the height: the widest space between two words of one cell
_EVEN = 0.18  # of the height: how much higher or lower OCR may read a line of the same size
_SAME_LINE = 0.4  # of the height: how far the middles of two words of one line are apart
_LONG = 24  # characters of a line that looks like running text
_NARROW = 8  # the same, where columns are narrow
_COLUMN_LINES = 4  # lines of running text that make a column
_COLUMNS_MAX = 4
_INDENT = 3  # times the height: how far lines of one narrow column begin from each other
_BULLETS = frozenset("•▪■●○◦‣⁃∙·–—*-➢➤✓❖§\uf0b7\uf0a7\uf06f")
_LIGATURES = {sign: unicodedata.normalize("NFKC", chr(sign)) for sign in range(0xFB00, 0xFB07)}


def rows_of(words: Sequence[Word], width: float) -> list[Row]:
    """Return the lines of a page in reading order; `width` is that of the page."""
    segments = _segments(words)
    rows: list[Row] = []
    column = 0
    for part, number in _regions(segments, width):
        column = number
        left, right = min(cell.x0 for cell in part), max(cell.x1 for cell in part)
        rows += (row._replace(column=column, left=left, right=right) for row in _rows(part))
    return rows


def readable(words: Sequence[Word]) -> Sequence[Word]:
    """Return the words that are not too small to be read beside the others."""
    heights = Counter[float]()
    for word in words:
        heights[round(word.height, 1)] += len(word.text)
    most = max(heights, key=lambda height: (heights[height], height), default=0.0)
    least = min(_READABLE, _TINY * most)
    return words if min(heights, default=0.0) >= least else [word for word in words if word.height >= least]


def evened(rows: Sequence[Row]) -> list[Row]:
    """Return lines that OCR read, those about as high as most of the page's letters with that size: how high a line is
    depends on which letters it has."""
    letters = Counter[float]()
    for row in rows:
        letters[round(row.size)] += len(row.text)
    usual = max(letters, key=lambda size: (letters[size], size), default=0.0)
    return [row._replace(size=usual) if abs(row.size - usual) <= _EVEN * usual else row for row in rows]


def is_bullet(text: str) -> bool:
    """Return whether a cell is only the mark of a list item."""
    return len(text) == 1 and (text in _BULLETS or "\ue000" <= text <= "\uf8ff")


def _segments(words: Sequence[Word]) -> list[Cell]:
    """Return the words that follow each other on one line, joined; the order is that of the file."""
    segments: list[Cell] = []
    members: list[Word] = []
    for word in words:
        if members and not _continues(members[-1], word):
            segments.append(_cell(members))
            members = []
        members.append(word)
    return [*segments, _cell(members)] if members else segments


def _continues(before: Word, word: Word) -> bool:
    height = max(before.height, word.height)
    apart = abs(before.y0 + before.y1 - word.y0 - word.y1) / 2
    return apart < _SAME_LINE * height and -0.5 * height < word.x0 - before.x1 < _SPACE * height


def _cell(words: Sequence[Word]) -> Cell:
    sizes = Counter[float]()
    for word in words:
        sizes[round(word.height, 1)] += len(word.text)
    return Cell(
        " ".join(word.text for word in words).translate(_LIGATURES),
        min(word.x0 for word in words),
        min(word.y0 for word in words),
        max(word.x1 for word in words),
        max(word.y1 for word in words),
        max(sizes, key=lambda size: (sizes[size], size)),
        all(word.bold for word in words),
    )


def _rows(cells: Sequence[Cell]) -> Iterator[Row]:
    """Yield the lines of one column, from top to bottom."""
    lines: list[list[Cell]] = []
    for cell in sorted(cells, key=lambda cell: (is_bullet(cell.text), cell.y0 + cell.y1, cell.x0)):
        beside = lines[-1:] if not is_bullet(cell.text) else [line for line in lines if _holds(line[0], cell)]
        if beside and (is_bullet(cell.text) or _beside(beside[-1], cell)):
            beside[-1].append(cell)
        else:
            lines.append([cell])
    yield from sorted(map(_row, lines), key=lambda row: row.y0 + row.y1)


def _holds(cell: Cell, bullet: Cell) -> bool:
    """Return whether the mark of a list item stands on the line of a cell: marks may be of another font."""
    middle = (bullet.y0 + bullet.y1) / 2
    return cell.y0 <= middle <= cell.y1


def _beside(members: Sequence[Cell], cell: Cell) -> bool:
    first = members[0]
    size = max(first.size, cell.size)
    return (cell.y0 + cell.y1 - first.y0 - first.y1) / 2 < _SAME_LINE * size


def _row(cells: Sequence[Cell]) -> Row:
    merged: list[Cell] = []
    for cell in sorted(cells, key=lambda cell: cell.x0):
        if merged and (
            cell.x0 - merged[-1].x1 < _SPACE * cell.size or (len(merged) == 1 and is_bullet(merged[0].text))
        ):
            merged[-1] = _merged(merged[-1], cell)
        else:
            merged.append(cell)
    sizes = Counter[float]()
    for cell in merged:
        sizes[cell.size] += len(cell.text)
    return Row(
        tuple(merged),
        merged[0].x0,
        min(cell.y0 for cell in merged),
        max(cell.x1 for cell in merged),
        max(cell.y1 for cell in merged),
        max(sizes, key=lambda size: (sizes[size], size)),
        all(cell.bold for cell in merged),
    )


def _merged(left: Cell, right: Cell) -> Cell:
    gap = "" if right.x0 - left.x1 < 0.05 * right.size and not is_bullet(left.text) else " "
    return Cell(
        f"{left.text}{gap}{right.text}",
        min(left.x0, right.x0),
        min(left.y0, right.y0),
        max(left.x1, right.x1),
        max(left.y1, right.y1),
        left.size if len(left.text) > len(right.text) else right.size,
        left.bold and right.bold,
    )


def _regions(cells: Sequence[Cell], width: float) -> Iterator[tuple[list[Cell], int]]:
    """Yield the cells in the order in which they are read: band after band, and in a band column after column."""
    if not cells:
        return
    wide = _gutters(cells, width, _LONG)
    narrow = [] if wide else _gutters(cells, width, _NARROW)
    border = max(wide)[1] if wide else min((border for _, border in narrow), default=None)
    bands = _banded(cells, border, bool(narrow)) if border is not None else []
    if not wide and not any(len(columns) > 1 for columns in bands):
        yield list(cells), 0
        return
    for columns in bands:
        for number, column in enumerate(columns, start=1):
            if len(columns) > 1 and wide:
                yield from ((part, number * _COLUMNS_MAX + inner) for part, inner in _regions(column, width))
            else:
                yield column, number * _COLUMNS_MAX if len(columns) > 1 else 0


def _banded(cells: Sequence[Cell], border: float, is_narrow: bool) -> list[list[list[Cell]]]:
    """Return the cells from top to bottom, and of each band the columns of running text; one where it has none."""
    bands: list[list[list[Cell]]] = []
    for is_parted, group in groupby(_bands(cells, border), key=lambda band: band[1]):
        members = [cell for band, _ in group for cell in band]
        left = [cell for cell in members if cell.x1 <= border]
        right = [cell for cell in members if cell.x1 > border]
        if is_narrow:
            columns = _columns(members)
            is_prose = min(map(len, columns)) >= _COLUMN_LINES - 1 and _are_wrapped(columns)
        else:
            columns = [left, right]
            is_prose = _is_prose(left) and _is_prose(right)
        bands.append(columns if is_parted and is_prose and not _is_grid(left, right) else [members])
    return bands


def _gutters(cells: Sequence[Cell], width: float, least: int) -> list[tuple[int, float]]:
    """Return where a blank strip parts two columns of running text whose lines have at `least` so many characters, and
    how many lines the shorter one has."""
    long = [cell for cell in cells if len(cell.text) >= least]
    leftmost = min((cell.x0 for cell in long), default=0.0)
    gutters: list[tuple[int, float]] = []
    for start, count in Counter(round(cell.x0) for cell in long).items():
        if count < _COLUMN_LINES or start - leftmost < 0.15 * width:
            continue
        left = sum(cell.x1 <= start - 1 for cell in long)
        if left >= _COLUMN_LINES:
            gutters.append((min(left, count), start - 1.0))
    return gutters


def _bands(cells: Sequence[Cell], border: float) -> list[tuple[list[Cell], bool]]:
    """Return the cells from top to bottom in bands, and whether nothing in the band crosses the border."""
    bands: list[tuple[list[Cell], bool]] = []
    band: list[Cell] = []
    crossing: Cell | None = None
    for cell in sorted(cells, key=lambda cell: cell.y0):
        if cell.x0 < border < cell.x1:
            beside = [other for other in band if _is_beside(other, cell)]
            if above := [other for other in band if not _is_beside(other, cell)]:
                bands.append((above, True))
            bands.append(([*beside, cell], False))
            band, crossing = [], cell
        elif crossing is not None and not band and _is_beside(crossing, cell):
            bands[-1][0].append(cell)
        else:
            band.append(cell)
    return [*bands, (band, True)] if band else bands


def _is_beside(above: Cell, cell: Cell) -> bool:
    """Return whether a cell that begins lower than another stands beside it."""
    return above.y1 - 0.3 * above.size > cell.y0


def _is_prose(cells: Sequence[Cell]) -> bool:
    """Return whether most of a column's lines fill it."""
    if len(cells) < _COLUMN_LINES:
        return False
    width = max(cell.x1 for cell in cells) - min(cell.x0 for cell in cells)
    return sum(cell.x1 - cell.x0 > 0.6 * width and len(cell.text) >= _LONG for cell in cells) >= 0.5 * len(cells)


def _columns(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Return the cells of narrow columns, each from top to bottom."""
    columns: list[list[Cell]] = []
    for cell in sorted(cells, key=lambda cell: cell.x0):
        if columns and cell.x0 - columns[-1][0].x0 < _INDENT * cell.size:
            columns[-1].append(cell)
        else:
            columns.append([cell])
    return [sorted(column, key=lambda cell: cell.y0) for column in columns]


def _are_wrapped(columns: Sequence[Sequence[Cell]]) -> bool:
    """Return whether lines of several words go on with one another: most begin as no cell of a table does, with a word
    that has no place on the line above."""
    lines = [line for column in columns for line in column]
    pairs = [(above, line, max(line.x1 for line in column)) for column in columns for above, line in pairwise(column)]
    wrapped = sum(not _fits(*pair) for pair in pairs)
    goes_on = sum(line.text[0].isalpha() and not line.text[0].isupper() for line in lines)
    words = sum(line.text.count(" ") + 1 for line in lines)
    return wrapped >= 0.6 * len(pairs) and goes_on >= 0.4 * len(lines) and words >= 2 * len(lines)


def _fits(above: Cell, line: Cell, right: float) -> bool:
    """Return whether the first word of a line would have had a place at the end of the line above."""
    first = len(line.text.split(" ", 1)[0]) / max(len(line.text), 1) * (line.x1 - line.x0)
    return above.x1 + first + 0.3 * (line.y1 - line.y0) <= right


def _is_grid(left: Sequence[Cell], right: Sequence[Cell]) -> bool:
    """Return whether the blank strips between paragraphs run through both columns: then these are rows of a table."""
    gaps = [_gaps(side) for side in (left, right)]
    if not gaps[0] or not gaps[1]:
        return False
    common = sum(any(abs(top - other) < 6 for other in gaps[1]) for top in gaps[0])
    return common >= 2 and common >= 0.6 * min(len(gaps[0]), len(gaps[1]))


def _gaps(cells: Sequence[Cell]) -> list[float]:
    """Return where a paragraph begins after a gap, from top to bottom."""
    ordered = sorted(cells, key=lambda cell: cell.y0)
    steps = [after.y0 - before.y0 for before, after in pairwise(ordered)]
    usual = sorted(steps)[len(steps) // 2] if steps else 0.0
    return [cell.y0 for cell, step in zip(ordered[1:], steps, strict=True) if step > 1.3 * usual]
