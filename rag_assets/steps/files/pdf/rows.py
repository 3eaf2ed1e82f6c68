"""Words to lines, lines to paragraphs: what is beside or below each other, and in which order columns are read.

A footnote is read beside what it is about, not at the end of the page. It begins with its mark, in letters no larger
than those of the text; the mark is glued to a word or a cell above it, as no spaces are set before superscripts. A
note whose mark is nowhere above stays where it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from rag_assets.steps.files.pdf.words import Box, PageRows, PdfCell, PdfRow, Word

_NOTE = re.compile(r"(?P<mark>\(\d{1,2}\)|\([a-z]\)|\d{1,2}|[⁰¹²³⁴-⁹]{1,2}|[*†‡§]{1,3})\s?(?=[^\W\d_a-z]|[\"“(])")
_FIGURES, _RAISED = "0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"


class NoteCandidate(NamedTuple):
    """A paragraph or a table of a page, in reading order. `size`: of its letters; 0: of a table."""

    text: str
    size: float


def is_note(text: str) -> bool:
    """Return whether a text begins with the mark of a note."""
    return _NOTE.match(text) is not None


def beside_marks(parts: Sequence[NoteCandidate]) -> list[int]:
    """Return the places of the parts of a page in reading order: each note after the part that has its mark."""
    after: dict[int, list[int]] = {}
    stay: list[int] = []
    for at, part in enumerate(parts):
        match = _NOTE.match(part.text) if part.size else None
        marked = _marked(parts, at, match["mark"]) if match else None
        if marked is None:
            stay.append(at)
        else:
            after.setdefault(marked, []).append(at)
    return [place for at in stay for place in (at, *after.get(at, ()))]


def _marked(parts: Sequence[NoteCandidate], note: int, mark: str) -> int | None:
    """Return the place of the last part above a note that has its mark; None if none has."""
    marks = {mark, mark.translate(str.maketrans(_FIGURES, _RAISED)), mark.translate(str.maketrans(_RAISED, _FIGURES))}
    for at in range(note - 1, -1, -1):
        part = parts[at]
        is_smaller = part.size and parts[note].size > part.size
        if not is_note(part.text) and not is_smaller and any(_has_glued(part.text, one) for one in marks):
            return at
    return None


def _has_glued(text: str, mark: str) -> bool:
    """Return whether a mark is attached to a word, and no part of another number or word."""
    at = text.find(mark, 1)
    while at > 0:
        before, after = text[max(at - 2, 0) : at], text[at + len(mark) : at + len(mark) + 2]
        is_number = after[:1].isalnum() or after[:1] == "%" or (after[:1] in (".", ",") and after[1:].isdigit())
        ends_word = before[-1:].isalpha() or (before[-1:] in '.,)”"' and before[:1].isalpha())
        if not is_number and (mark[0] == "(" or mark[0] in _RAISED or ends_word):
            return True
        at = text.find(mark, at + 1)
    return False


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


def rows_of(words: Sequence[Word], width: float) -> list[PdfRow]:
    """Return the lines of a page in reading order; `width` is that of the page."""
    rows: list[PdfRow] = []
    for part, column in _regions(_segments(words), width):
        left, right = min(cell.x0 for cell in part), max(cell.x1 for cell in part)
        rows += (row._replace(column=column, left=left, right=right) for row in _rows(part))
    return rows


def readable(words: Sequence[Word]) -> Sequence[Word]:
    """Return the words that are not too small to be read beside the others."""
    least = min(_READABLE, _TINY * _usual_size((round(word.height, 1), word.text) for word in words))
    is_all = all(round(word.height, 1) >= least for word in words)
    return words if is_all else [word for word in words if word.height >= least]


def evened(rows: Sequence[PdfRow]) -> list[PdfRow]:
    """Return lines that OCR read, those about as high as most of the page's letters with that size: how high a line is
    depends on which letters it has."""
    usual = _usual_size((round(row.size), row.text) for row in rows)
    return [row._replace(size=usual) if abs(row.size - usual) <= _EVEN * usual else row for row in rows]


def is_bullet(text: str) -> bool:
    """Return whether a cell is only the mark of a list item."""
    return len(text) == 1 and (text in _BULLETS or "\ue000" <= text <= "\uf8ff")


def _segments(words: Sequence[Word]) -> list[PdfCell]:
    """Return the words that follow each other on one line, joined; the order is that of the file."""
    segments: list[list[Word]] = []
    for word in words:
        before = segments[-1][-1] if segments else None
        height = max(before.height, word.height) if before else 0.0
        if (
            before
            and abs(before.y0 + before.y1 - word.y0 - word.y1) / 2 < _SAME_LINE * height
            and -0.5 * height < word.x0 - before.x1 < _SPACE * height
        ):
            segments[-1].append(word)
        else:
            segments.append([word])
    return [_cell(members) for members in segments]


def _cell(words: Sequence[Word]) -> PdfCell:
    text = " ".join(word.text for word in words).translate(_LIGATURES)
    size = _usual_size((round(word.height, 1), word.text) for word in words)
    return PdfCell(text, *around(words), size, all(word.bold for word in words))


def _usual_size(texts: Iterable[tuple[float, str]]) -> float:
    """Return the size that most letters have; the larger one of two that are as frequent."""
    letters = Counter[float]()
    for size, text in texts:
        letters[size] += len(text)
    return max(letters, key=lambda size: (letters[size], size), default=0.0)


def _rows(cells: Sequence[PdfCell]) -> Iterator[PdfRow]:
    lines: list[list[PdfCell]] = []
    for cell in sorted(cells, key=lambda cell: (is_bullet(cell.text), cell.y0 + cell.y1, cell.x0)):
        middle = (cell.y0 + cell.y1) / 2
        if is_bullet(cell.text):  # of another font, maybe: it is on the line of a cell as high as its middle
            beside = [line for line in lines if line[0].y0 <= middle <= line[0].y1]
        else:
            near = ((middle - (line[0].y0 + line[0].y1) / 2, line) for line in lines[-1:])
            beside = [line for apart, line in near if apart < _SAME_LINE * max(line[0].size, cell.size)]
        if beside:
            beside[-1].append(cell)
        else:
            lines.append([cell])
    yield from sorted(map(_row, lines), key=lambda row: row.y0 + row.y1)


def _row(cells: Sequence[PdfCell]) -> PdfRow:
    merged: list[PdfCell] = []
    for cell in sorted(cells, key=lambda cell: cell.x0):
        follows_bullet = len(merged) == 1 and is_bullet(merged[0].text)
        if merged and (cell.x0 - merged[-1].x1 < _SPACE * cell.size or follows_bullet):
            merged[-1] = _merged(merged[-1], cell)
        else:
            merged.append(cell)
    size = _usual_size((cell.size, cell.text) for cell in merged)
    return PdfRow(tuple(merged), *around(merged), size, all(cell.bold for cell in merged))


def _merged(left: PdfCell, right: PdfCell) -> PdfCell:
    gap = "" if right.x0 - left.x1 < 0.05 * right.size and not is_bullet(left.text) else " "
    size = left.size if len(left.text) > len(right.text) else right.size
    return PdfCell(f"{left.text}{gap}{right.text}", *around((left, right)), size, left.bold and right.bold)


def around(parts: Sequence[Word | PdfCell | PdfRow]) -> Box:
    """Return the box around words or cells."""
    lefts, tops = (part.x0 for part in parts), (part.y0 for part in parts)
    return min(lefts), min(tops), max(part.x1 for part in parts), max(part.y1 for part in parts)


def _regions(cells: Sequence[PdfCell], width: float) -> Iterator[tuple[list[PdfCell], int]]:
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


def _banded(cells: Sequence[PdfCell], border: float, is_narrow: bool) -> list[list[list[PdfCell]]]:
    """Return the cells from top to bottom, and of each band the columns of running text; one if it has none."""
    bands: list[list[list[PdfCell]]] = []
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


def _gutters(cells: Sequence[PdfCell], width: float, least: int) -> list[tuple[int, float]]:
    """Return the blank strips between two columns of running text with at `least` so many characters a line, and the
    number of lines of the shorter one."""
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


def _bands(cells: Sequence[PdfCell], border: float) -> list[tuple[list[PdfCell], bool]]:
    """Return the cells from top to bottom in bands, and whether nothing in the band crosses the border."""
    bands: list[tuple[list[PdfCell], bool]] = []
    band: list[PdfCell] = []
    crossing: PdfCell | None = None
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


def _is_beside(above: PdfCell, cell: PdfCell) -> bool:
    return above.y1 - 0.3 * above.size > cell.y0


def _is_prose(cells: Sequence[PdfCell]) -> bool:
    if len(cells) < _COLUMN_LINES:
        return False
    width = max(cell.x1 for cell in cells) - min(cell.x0 for cell in cells)
    return sum(cell.x1 - cell.x0 > 0.6 * width and len(cell.text) >= _LONG for cell in cells) >= 0.5 * len(cells)


def _columns(cells: Sequence[PdfCell]) -> list[list[PdfCell]]:
    columns: list[list[PdfCell]] = []
    for cell in sorted(cells, key=lambda cell: cell.x0):
        if columns and cell.x0 - columns[-1][0].x0 < _INDENT * cell.size:
            columns[-1].append(cell)
        else:
            columns.append([cell])
    return [sorted(column, key=lambda cell: cell.y0) for column in columns]


def _are_wrapped(columns: Sequence[Sequence[PdfCell]]) -> bool:
    """Return whether lines of several words go on with one another: most begin as no cell of a table does, with a word
    that has no place on the line above."""
    lines = [line for column in columns for line in column]
    pairs = wrapped = 0
    for column in columns:
        right = max(line.x1 for line in column)
        for above, line in pairwise(column):
            first = len(line.text.split(" ", 1)[0]) / max(len(line.text), 1) * (line.x1 - line.x0)
            pairs += 1
            wrapped += above.x1 + first + 0.3 * (line.y1 - line.y0) > right
    goes_on = sum(line.text[0].isalpha() and not line.text[0].isupper() for line in lines)
    words = sum(line.text.count(" ") + 1 for line in lines)
    return wrapped >= 0.6 * pairs and goes_on >= 0.4 * len(lines) and words >= 2 * len(lines)


def _is_grid(left: Sequence[PdfCell], right: Sequence[PdfCell]) -> bool:
    """Return whether the blank strips between paragraphs run through both columns: then these are rows of a table."""
    gaps = [_gaps(side) for side in (left, right)]
    if not gaps[0] or not gaps[1]:
        return False
    common = sum(any(abs(top - other) < 6 for other in gaps[1]) for top in gaps[0])
    return common >= 2 and common >= 0.6 * min(len(gaps[0]), len(gaps[1]))


def _gaps(cells: Sequence[PdfCell]) -> list[float]:
    ordered = sorted(cells, key=lambda cell: cell.y0)
    steps = [after.y0 - before.y0 for before, after in pairwise(ordered)]
    usual = sorted(steps)[len(steps) // 2] if steps else 0.0
    return [cell.y0 for cell, step in zip(ordered[1:], steps, strict=True) if step > 1.3 * usual]


_SIZES_ALIKE = 0.08
_MORE = 0.35  # of a line's height: how much wider than usual the gap before a paragraph is
_ITEM_INDENT = 0.9  # of a line's height
_SHORT = 0.8  # of the column's width: a line that ends earlier may be a paragraph's last
_ORDERED = re.compile(r"\(?(?:\d{1,2}|[a-zA-Z]|[ivx]{1,5})[.)]\s")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+|[^\W\d_]{3,}")
_FIRST, _LAST = re.compile(r"[^\W\d_]+"), re.compile(r"(?<![^\W\d_])[^\W\d_]++\Z")
_HYPHENS = "-\u00ad\u2010"


class Lines(NamedTuple):
    """The lines of one paragraph, list item or heading."""

    rows: tuple[PdfRow, ...]
    is_item: bool = False


def usual_gap(pages: Iterable[PageRows]) -> float:
    """Return the gap between two lines of a paragraph that is most usual, as a share of their height."""
    gaps = Counter[float]()
    for page in pages:
        for before, row in pairwise(page.rows):
            if before.column == row.column and abs(before.size - row.size) < 0.5 and len(row.cells) == 1:
                gap = (row.y0 - before.y1) / max(row.size, 1.0)
                if -0.5 < gap < 1.5:
                    gaps[round(gap, 1)] += min(len(row.text), 120)
    return gaps.most_common(1)[0][0] if gaps else 0.1


def paragraphs_of(rows: Sequence[PdfRow], usual: float) -> Iterator[Lines]:
    """Yield the paragraphs and list items of lines that follow each other on one page."""
    members: list[PdfRow] = []
    is_item = False
    for row in rows:
        text = row.text
        is_marked = is_bullet(text[:1]) and text[1:2] == " " and len(text) > 3
        starts_item = is_marked and (text[0] not in "-–—" or text[2].isalpha())
        if members and (starts_item or _is_new(members, row, usual, is_item)):
            yield Lines(tuple(members), is_item)
            members = []
        if not members:
            is_item = starts_item
        members.append(row)
    if members:
        yield Lines(tuple(members), is_item)


def _is_new(members: Sequence[PdfRow], row: PdfRow, usual: float, is_item: bool) -> bool:
    before = members[-1]
    if abs(row.size - before.size) > _SIZES_ALIKE * max(row.size, before.size) or row.bold != before.bold:
        return True
    if row.column != before.column:
        return ends_sentence(before.text) or not row.text[:1].islower()
    gap = (row.y0 - before.y1) / max(row.size, 1.0)
    if gap > usual + _MORE or gap < -1.5:
        return True
    if _ORDERED.match(row.text) and (ends_sentence(before.text) or _ORDERED.match(members[0].text)):
        return True
    if is_note(row.text) and is_note(members[0].text) and row.x0 <= members[0].x0 + 1:
        return True
    width = max(row.right - row.left, 1.0)
    is_short = (before.x1 - row.left) / width < _SHORT
    ends = ends_sentence(before.text)
    if is_item:
        return row.x0 < members[0].x0 - 1 or (ends and is_short and row.x0 <= members[0].x0 + 1)
    if row.x0 - before.x0 > _ITEM_INDENT * row.size and ends:
        return True
    return ends and is_short and (before.x1 - row.left) / width < 0.7 and row.text[:1].isupper()


def ends_sentence(text: str) -> bool:
    """Return whether a text ends with a mark that ends a sentence or introduces the next."""
    return text.rstrip("\"'”’)]")[-1:] in tuple(".!?:;")


class WordVocabulary:
    """The words of a document that no line end splits; they decide which hyphens at line ends belong to the word."""

    def __init__(self, pages: Iterable[PageRows]) -> None:
        self._words = {word for page in pages for row in page.rows for word in _WORD.findall(row.text.casefold())}

    def joined(self, texts: Sequence[str]) -> str:
        """Return lines as one text, a word that a line's end parts mended."""
        if not texts:
            return ""
        parts = [texts[0]]
        for text in texts[1:]:
            parts[-1], gap = self._end(parts[-1], text)
            parts += [gap, text]
        return "".join(parts)

    def _end(self, before: str, after: str) -> tuple[str, str]:
        """Return a line's text as continued by the next one, and the separator."""
        if len(before) < 2 or before[-1] not in _HYPHENS or not before[-2].isalnum():
            return before, " "
        head, tail = _LAST.search(before[:-1]), _FIRST.match(after)
        if head is None or tail is None:
            return f"{before[:-1]}-", ""
        first, second = head[0].casefold(), tail[0].casefold()
        if first + second in self._words:
            return before[:-1], ""
        is_compound = f"{first}-{second}" in self._words or not tail[0][0].islower()
        return (f"{before[:-1]}-" if is_compound else before[:-1]), ""
