"""The words of a page with their places, by pypdfium2; the records of layout analysis.

Words are upright and in points from the top left of the page as it is read, whichever way it is turned; letters that
are raised, lowered, struck out or printed twice are mended. Words of scripts that run from right to left are placed
where a layout from left to right reads them in order (by words, not letters, as PDFium has these in order: UAX #9).

Of a word only the first and the last character are located: 400 pages a second of real reports on one core, against 150
with every character. All letters are located only in words with a sign of such a change:
most words have none.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from typing import Any, NamedTuple

from rag_assets.steps.formats.blocks import Mark, shifted

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


class Word(NamedTuple):
    """A run between white space on a page."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    bold: bool = False

    @property
    def height(self) -> float:
        return self.y1 - self.y0


class PdfCell(NamedTuple):
    """Words side by side on one line, with nothing but spaces between them."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    size: float  # height of most of its letters, from ascender to descender
    bold: bool = False  # all of it


class PdfRow(NamedTuple):
    """The cells of one line, from left to right."""

    cells: tuple[PdfCell, ...]
    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    bold: bool
    column: int = 0  # number of its column of text on the page; 0: the page has one
    left: float = 0.0  # borders of that column
    right: float = 0.0

    @property
    def text(self) -> str:
        return " ".join(cell.text for cell in self.cells)


class Grid(NamedTuple):
    """A table: the words above each column, and its rows."""

    header: list[str]  # one text a column; empty: it has none
    rows: list[list[str]]
    bands: list[tuple[float, float]]  # top and bottom of each row


class RuledTable(NamedTuple):
    """A table with lines around its cells, and its box."""

    box: Box
    grid: Grid


class PageRows(NamedTuple):
    """One page: its lines in reading order, and its contents beside text."""

    page: int  # from 1
    width: float
    height: float
    rows: tuple[PdfRow, ...]
    ruled: tuple[RuledTable, ...] = ()  # from top to bottom; no row has their words
    tiny: int = 0  # words that are too small to be read
    struck: int = 0  # words that are left out because a line strikes them out
    aslant: str = ""  # text neither upright nor along a side
    fields: tuple[str, ...] = ()  # "name: value" of filled form fields
    images: int = 0  # that are large enough to show something
    letters: int = 0  # of the text layer
    turned: tuple[PageRows, ...] = ()  # lines of another rotation, in coordinates where these are upright


Place = Callable[[Box], Box]
_FIGURES = frozenset("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎")
_UP, _DOWN = 0.2, 0.03  # of the height: how much higher or lower letters of a raised or lowered figure begin
_SMALLER = 0.85  # times the height: a figure that is alone, or lower, is smaller
_JOINED = 0.1  # of the height: how far a raised figure is from the word that it belongs to
_MARK = 3  # figures of the mark of a note
_DOUBLED = re.compile(r"(?:(\S)\1++)+")
_TWICE = 0.5  # of a letter's width: how near the same letter is printed again
_SHIFT = 0.2  # of the height: how near the same word is printed again
_BLANK = 0.2  # of the height: the least space between words that are printed letter by letter
_THIN, _SHORT = 2.0, 2.0  # points: thickness of a line through words at most, its length at least
_MIDDLE = 0.17  # of the height: how far from the middle of words the line is
_ACROSS = 0.6  # of the line's length: as much at least is words; a grid goes on beside its labels
_HIGH = 40.0  # points: words that are higher are as high, for finding lines
_LOOKED_AT = 200_000  # pairs of a line and a word


class Marked(NamedTuple):
    """A word of the text layer. `uneven`: its letters are not all at the same height."""

    word: Word
    start: int
    uneven: bool


class _Letter(NamedTuple):
    sign: str
    box: Box


class _Stroke(NamedTuple):
    """The line that strikes out a word."""

    x0: float
    x1: float
    y: float


def as_meant(marked: Sequence[Marked], lines: Sequence[Box], layer: Any, placed: Place) -> tuple[list[Word], int]:
    """Return words without struck-out and doubly printed ones, raised and lowered figures as such; and the number
    struck out, wholly or in part. `lines`: boxes; `layer`: pypdfium2's; `placed`: as the words and lines are."""
    words = [one.word for one in marked]
    strokes = _strokes(words, lines)
    struck = 0
    for at, (word, start, uneven) in enumerate(marked):
        is_doubled = word.text[:1] == word.text[1:2] and _DOUBLED.fullmatch(word.text) and word.text[0].isalnum()
        if not (uneven or is_doubled or at in strokes):
            continue
        places = range(start, start + len(word.text))
        letters = [_Letter(sign, placed(_box(layer, place))) for place, sign in zip(places, word.text, strict=True)]
        if at in strokes:
            inks = [placed(_box(layer, place, is_loose=False)) for place in places]
            kept = [*_without(letters, inks, strokes[at])]
            struck += len(kept) < len(letters)
            letters = kept
        text = _levelled([*_once(letters)] if is_doubled else letters)
        words[at] = word._replace(text=text.strip())
    words = [word for word in words if word.text]
    return _with_notes(_without_copies(words)), struck


def _box(layer: Any, place: int, is_loose: bool = True) -> Box:
    from pypdfium2 import PdfiumError

    try:
        return layer.get_charbox(place, loose=is_loose)  # type: ignore[no-any-return]
    except PdfiumError:
        return 0.0, 0.0, 0.0, 0.0


def _strokes(words: Sequence[Word], lines: Sequence[Box]) -> Mapping[int, list[_Stroke]]:
    """Return the lines through the middle of words, by the places of these."""
    across = [line for line in lines if line[3] - line[1] <= _THIN and line[2] - line[0] >= _SHORT]
    strokes: defaultdict[int, list[_Stroke]] = defaultdict(list)
    if not across or not words:
        return strokes
    order = sorted(range(len(words)), key=lambda at: words[at].y0 + words[at].y1)
    middles = [(words[at].y0 + words[at].y1) / 2 for at in order]
    near = _MIDDLE * min(max(word.height for word in words), _HIGH)
    left = _LOOKED_AT
    for x0, y0, x1, y1 in across:
        y = (y0 + y1) / 2
        first, stop = bisect_left(middles, y - near), bisect_left(middles, y + near)
        left -= stop - first
        if left < 0:
            break
        struck = []
        for at, middle in zip(order[first:stop], middles[first:stop], strict=True):
            word = words[at]
            if abs(y - middle) <= _MIDDLE * word.height and word.x0 < x1 and x0 < word.x1:
                struck.append(at)
        if sum(min(words[at].x1, x1) - max(words[at].x0, x0) for at in struck) >= _ACROSS * (x1 - x0):
            for at in struck:
                strokes[at].append(_Stroke(x0, x1, y))
    return strokes


def _without(letters: Sequence[_Letter], inks: Sequence[Box], strokes: Sequence[_Stroke]) -> Iterator[_Letter]:
    """Yield the letters that no line strikes out: it goes through the ink of most of those it lies over."""
    over = [any(stroke.x0 <= (box[0] + box[2]) / 2 <= stroke.x1 for stroke in strokes) for _, box in letters]
    hit = [any(ink[1] < stroke.y < ink[3] for stroke in strokes) for ink in inks]
    is_struck = 2 * sum(one and other for one, other in zip(over, hit, strict=True)) > sum(over)
    yield from (letter for letter, one in zip(letters, over, strict=True) if not (one and is_struck))


def _once(letters: Sequence[_Letter]) -> Iterator[_Letter]:
    last: _Letter | None = None
    for letter in letters:
        x0, y0, x1, y1 = letter.box
        if last is not None and last.sign == letter.sign and x0 - last.box[0] < _TWICE * (x1 - x0):
            continue
        if last is not None and x0 - last.box[2] > _BLANK * (y1 - y0):
            yield _Letter(" ", letter.box)
        yield letter
        last = letter


def _levelled(letters: Sequence[_Letter]) -> str:
    high = max((box[3] - box[1] for _, box in letters), default=0.0)
    base = next((box[3] for _, box in letters if box[3] - box[1] >= 0.9 * high), 0.0)

    def mark_of(letter: _Letter) -> Mark:
        _, y0, _, y1 = letter.box
        is_lowered = y1 - base >= _DOWN * high and y1 - y0 <= _SMALLER * high
        return "raised" if base - y1 >= _UP * high else "lowered" if is_lowered else ""

    text = ""
    for mark, run in groupby(letters, key=mark_of):
        said = "".join(letter.sign for letter in run)
        text += shifted(said, mark, text) if mark else said
    return text


def _with_notes(words: Sequence[Word]) -> list[Word]:
    """Return words with raised figures beside a larger word marked as such, and joined to it if no space intervenes."""
    noted: list[Word] = []
    for at, word in enumerate(words):
        if len(word.text) <= _MARK and word.text.isdecimal():
            beside = (*words[max(at - 1, 0) : at], *words[at + 1 : at + 2])
            if any(_is_raised(word, other) for other in beside):
                word = word._replace(text=shifted(word.text, "raised"))
        before = noted[-1] if noted else None
        if (
            before
            and (word.text[0] in _FIGURES or before.text[-1] in _FIGURES)
            and abs(word.x0 - before.x1) < _JOINED * before.height
            and before.y0 < word.y1
            and word.y0 < before.y1
        ):
            noted[-1] = before._replace(text=before.text + word.text, x1=word.x1)
        else:
            noted.append(word)
    return noted


def _is_raised(word: Word, other: Word) -> bool:
    apart = max(word.x0, other.x0) - min(word.x1, other.x1)
    is_smaller = word.height <= _SMALLER * other.height and apart < other.height
    return is_smaller and word.y1 <= other.y1 - _UP * other.height and word.y1 > other.y0


def _without_copies(words: Sequence[Word]) -> list[Word]:
    """Return words without those that are printed again on the same place, as some programs make bold letters."""
    if len({(word.text, round(word.x0 / 6), round(word.y0 / 6)) for word in words}) == len(words):
        return list(words)
    seen: defaultdict[tuple[str, int, int], list[Word]] = defaultdict(list)
    kept: list[Word] = []
    for word in words:
        x, y, far = round(word.x0 / 6), round(word.y0 / 6), _SHIFT * word.height
        near = (other for dx in (-1, 0, 1) for dy in (-1, 0, 1) for other in seen.get((word.text, x + dx, y + dy), ()))
        apart = ((word.x0 - other.x0, word.y0 - other.y0, word.x1 - other.x1) for other in near)
        if not any(max(map(abs, sides)) < far for sides in apart):
            kept.append(word)
            seen[word.text, x, y].append(word)
    return kept


RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_LETTER = re.compile(r"[^\W\d_]")
_DIGIT = re.compile(r"\d")
_KINDS = {"R": RIGHT_TO_LEFT, "L": _LETTER, "N": _DIGIT}
_RUNS = {True: re.compile("L(?:[LN.]*[LN])?"), False: re.compile("R(?:[RN.]*R)?")}
"""What runs against its line, by whether that goes from right to left: as it stands, from the left."""
_SPACE = 1.0  # of the height: the widest space within a line
_SAME_LINE = 0.4  # of the height: how far the middles of two words of one line are apart


def _in_reading_order(words: Sequence[Word], mirrored: bool) -> list[Word]:
    """Return words with those against the page's direction moved to their reading position; the order is kept.
    `mirrored`: the page goes from right to left, and its words are mirrored already."""
    if not mirrored and not any(RIGHT_TO_LEFT.search(word.text) for word in words if not word.text.isascii()):
        return list(words)
    placed = list(words)
    for line in _lines(words):
        seen = line[::-1] if mirrored else line
        kinds = "".join(next((kind for kind in _KINDS if _KINDS[kind].search(words[at].text)), ".") for at in seen)
        backwards = mirrored if kinds.count("R") == kinds.count("L") else kinds.count("R") > kinds.count("L")
        if backwards != mirrored:
            _reverse(placed, seen)
        for run in _RUNS[backwards].finditer(kinds):
            _reverse(placed, seen[run.start() : run.end()])
    return placed


def _lines(words: Sequence[Word]) -> Iterator[list[int]]:
    """Yield the indexes of words side by side, from left to right."""
    rows: list[list[int]] = []
    for at in sorted(range(len(words)), key=lambda at: words[at].y0 + words[at].y1):
        first = words[rows[-1][0]] if rows else words[at]
        apart = (words[at].y0 + words[at].y1 - first.y0 - first.y1) / 2
        if rows and apart < _SAME_LINE * max(first.height, words[at].height):
            rows[-1].append(at)
        else:
            rows.append([at])
    for row in rows:
        line: list[int] = []
        for at in sorted(row, key=lambda at: words[at].x0):
            if line and words[at].x0 - words[line[-1]].x1 > _SPACE * words[at].height:
                yield line
                line = []
            line.append(at)
        yield line


def _reverse(words: list[Word], places: Sequence[int]) -> None:
    """Reverse words side by side within the same space."""
    ends = min(words[at].x0 for at in places) + max(words[at].x1 for at in places)
    for at in places:
        words[at] = words[at]._replace(x0=ends - words[at].x1, x1=ends - words[at].x0)


CHARS_MAX = 500_000
"""Characters of one page that are read."""
_TOKEN = re.compile("[^\\s\x02\ufffe]+[\x02\ufffe]?")
_HYPHEN = "\u00ad"
_BOLD = re.compile(rb"bold|black|heavy|semibold|demi", re.I)
_BOLD_WEIGHT = 600
_NAME_BYTES = 128
_INNER = re.compile(r"\d(?!\d|[.,]\d|$)")
_EVEN = 0.05  # of the height: how far apart letters of one line begin and end
_LEANING = 0.16  # across, for each step along: letters turned further are aslant
_ASLANT, _FLIPPED = -1, 4
_HOSTILE = 1e6  # points; what lies farther away is nowhere


class PageWords(NamedTuple):
    """Words of a page that are turned alike, in the order of its text layer."""

    width: float
    height: float
    words: list[Word]
    turned: int  # quarter turns, clockwise, by which the shown page is turned to be read
    mirrored: bool  # its lines run from right to left: places are measured from the right
    placed: Place  # the mapping from the file's coordinates to those of the page as read
    struck: int  # words that are left out, wholly or in part, because a line strikes them out


class PageText(NamedTuple):
    """The text layer of a page."""

    parts: list[PageWords]  # most letters first
    aslant: str  # words at another angle
    letters: int


def page_text(page: Any, lines: Sequence[Box] = ()) -> PageText:
    """Return the words of a page of pypdfium2. Raises pypdfium2.PdfiumError if it has no readable text layer. `lines`:
    thin ones on the page, and those in the middle of text struck out by annotations."""
    with closing(page.get_textpage()) as layer:
        text = _text(layer)
        by_manner: defaultdict[int, list[Marked]] = defaultdict(list)
        for marked, manner in _placed(layer, text):
            by_manner[manner].append(marked)
        aslant = " ".join(one.word.text for one in by_manner.pop(_ASLANT, ()))
        most = sorted(by_manner, key=lambda manner: (-sum(len(one.word.text) for one in by_manner[manner]), manner))
        mirrored = not text.isascii() and 2 * len(RIGHT_TO_LEFT.findall(text)) > len(_LETTER.findall(text))
        parts = [_part(page, layer, by_manner[manner], manner, mirrored, lines) for manner in most or [0]]
    return PageText(parts, aslant, sum(map(str.isalnum, text)))


def _part(
    page: Any, layer: Any, marked: Sequence[Marked], manner: int, mirrored: bool, lines: Sequence[Box]
) -> PageWords:
    """Return the words of a page of one rotation, in coordinates where these are upright."""
    left, bottom, right, top = page.get_bbox()  # of the visible area, in its own coordinates
    if left >= right or bottom >= top:
        left, bottom, right, top = 0.0, 0.0, 612.0, 792.0
    width, height = (right - left, top - bottom) if manner % 2 == 0 else (top - bottom, right - left)
    placed = _turn(manner % 4, left, bottom, right, top)
    if mirrored or manner >= _FLIPPED:
        placed = _mirror(placed, width if mirrored else None, height if manner >= _FLIPPED else None)
    upright = [Marked(Word(word.text, *placed(word[1:5]), word.bold), start, uneven) for word, start, uneven in marked]
    words, struck = as_meant(upright, [placed(line) for line in lines], layer, placed)
    turned = (manner - page.get_rotation() // 90) % 4
    return PageWords(width, height, _in_reading_order(words, mirrored), turned, mirrored, placed, struck)


def turned_place(x: float, y: float, width: float, height: float, turned: int) -> tuple[float, float]:
    """Return where a point of the page as it is shown lies on the page as it is read. `width`, `height`: of the page as
    it is read."""
    return ((x, y), (width - y, x), (width - x, height - y), (y, height - x))[turned]


def _text(layer: Any) -> str:
    from ctypes import c_ushort

    from pypdfium2 import raw

    count = min(layer.count_chars(), CHARS_MAX)
    if count <= 0:
        return ""
    buffer = (c_ushort * (count + 1))()
    written = raw.FPDFText_GetText(layer, 0, count, buffer)
    text = bytes(buffer)[: 2 * max(written - 1, 0)].decode("utf-16-le", "replace")
    if len(text) == count:
        return text
    codes = (raw.FPDFText_GetUnicode(layer, index) for index in range(count))
    return "".join(chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd" for code in codes)


def _placed(layer: Any, text: str) -> Iterator[tuple[Marked, int]]:
    """Yield the words in the coordinates of the file, and the manner of their letters (`_manner`)."""
    from ctypes import byref, c_int, create_string_buffer

    from pypdfium2 import raw

    box, name, flags, matrix = raw.FS_RECTF(), create_string_buffer(_NAME_BYTES), c_int(), raw.FS_MATRIX()
    at, room, turned = byref(box), byref(flags), byref(matrix)
    bolds: dict[bytes, bool] = {}
    for match in _TOKEN.finditer(text):
        first, last = match.start(), match.end() - 1
        sign = match[0]
        if sign[-1] in "\x02\ufffe":
            sign = sign[:-1] + _HYPHEN
        if not raw.FPDFText_GetLooseCharBox(layer, first, at):
            continue
        raw.FPDFText_GetMatrix(layer, first, turned)
        manner = _manner(matrix.a, matrix.b, matrix.c, matrix.d)
        x0, y0, x1, y1 = box.left, box.bottom, box.right, box.top
        low, high = (y0, y1) if manner % 2 == 0 else (x0, x1)
        uneven, tolerance = False, _EVEN * (high - low)
        probed = [last] if last > first else []  # may be higher than the first letter: the last, ends of numbers
        if probed and not sign.isalpha():
            probed += [first + inner.start() for inner in _INNER.finditer(sign)]
        for place in probed:
            if raw.FPDFText_GetLooseCharBox(layer, place, at):
                left, bottom, right, top = box.left, box.bottom, box.right, box.top
                x0, y0, x1, y1 = min(x0, left), min(y0, bottom), max(x1, right), max(y1, top)
                ends = (bottom, top) if manner % 2 == 0 else (left, right)
                uneven = uneven or abs(ends[0] - low) > tolerance or abs(ends[1] - high) > tolerance
        if not (-_HOSTILE < x0 <= x1 < _HOSTILE and -_HOSTILE < y0 <= y1 < _HOSTILE):
            continue
        raw.FPDFText_GetFontInfo(layer, first, name, _NAME_BYTES, room)
        font = name.value
        if font not in bolds:
            bolds[font] = bool(_BOLD.search(font)) or raw.FPDFText_GetFontWeight(layer, first) >= _BOLD_WEIGHT
        yield Marked(Word(sign, x0, y0, x1, y1, bolds[font]), first, uneven), manner


def _manner(a: float, b: float, c: float, d: float) -> int:
    """Return the counter-clockwise quarter turns by which a matrix turns letters, _FLIPPED more if it mirrors them."""
    if abs(b) <= _LEANING * abs(a):
        quarter = 0 if a >= 0 else 2
    elif abs(a) <= _LEANING * abs(b):
        quarter = 1 if b > 0 else 3
    else:
        return _ASLANT
    return quarter + _FLIPPED * (a * d < b * c)


def _turn(quarter: int, left: float, bottom: float, right: float, top: float) -> Place:
    """Return a function to coordinates from the top left in which letters turned by so many quarters are upright."""
    return (
        lambda box: (box[0] - left, top - box[3], box[2] - left, top - box[1]),
        lambda box: (box[1] - bottom, box[0] - left, box[3] - bottom, box[2] - left),  # letters run upwards
        lambda box: (right - box[2], box[1] - bottom, right - box[0], box[3] - bottom),
        lambda box: (top - box[3], right - box[2], top - box[1], right - box[0]),
    )[quarter]


def _mirror(placed: Place, width: float | None, height: float | None) -> Place:
    """Return a mapping like `placed`, from the right of a width, or from the bottom of a height."""

    def mirrored(box: Box) -> Box:
        x0, y0, x1, y1 = placed(box)
        x0, x1 = (x0, x1) if width is None else (width - x1, width - x0)
        y0, y1 = (y0, y1) if height is None else (height - y1, height - y0)
        return x0, y0, x1, y1

    return mirrored
