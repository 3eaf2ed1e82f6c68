"""The words of a page with their places, by pypdfium2.

Belongs here: characters of the text layer as words, upright and from the top left, whichever way the page is turned.
Does not belong here: lines and what they mean.

Of a word the first and the last character are asked for their places: 400 pages a second of real reports on one core,
where asking each character allows 150 (`python -m evals.bench.pdf`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rag_assets.steps.files.pdf.directions import in_reading_order, is_right_to_left
from rag_assets.steps.files.pdf.marks import Marked, Place, as_meant
from rag_assets.steps.files.pdf.records import Box, Word

CHARS_MAX = 500_000
"""Characters of one page that are read."""
_TOKEN = re.compile("[^\\s\x02\ufffe]+[\x02\ufffe]?")
_HYPHEN = "\u00ad"
_BOLD = re.compile(rb"bold|black|heavy|semibold|demi", re.I)
_BOLD_WEIGHT = 600
_NAME_BYTES = 128
_INNER = re.compile(r"\d(?!\d|[.,]\d|$)")
_EVEN = 0.05  # of the height: how far apart letters of one line begin and end
_LEANING = 0.16  # across, for each step along: letters that are turned more stand aslant
_ASLANT, _FLIPPED = -1, 4
_HOSTILE = 1e6  # points; what lies farther away is nowhere


class PageWords(NamedTuple):
    """Words of a page that are turned alike, in the order of its text layer."""

    width: float
    height: float
    words: list[Word]
    turned: int  # quarter turns, clockwise, by which the shown page is turned to be read
    mirrored: bool  # its lines run from right to left: places are measured from the right
    placed: Place  # where what the file says to stand somewhere stands on the page as it is read
    struck: int  # words that are left out, wholly or in part, because a line strikes them out


class PageText(NamedTuple):
    """The text layer of a page."""

    parts: list[PageWords]  # most letters first
    aslant: str  # words that stand at another angle
    letters: int


def page_text(page: Any, lines: Sequence[Box] = ()) -> PageText:
    """Return the words of a page of pypdfium2. Raises pypdfium2.PdfiumError where it has no readable text layer.

    `lines`: thin ones that the page shows, and those in the middle of what annotations strike out.
    """
    layer = page.get_textpage()
    try:
        text = _text(layer)
        by_manner: defaultdict[int, list[Marked]] = defaultdict(list)
        for marked, manner in _placed(layer, text):
            by_manner[manner].append(marked)
        aslant = " ".join(one.word.text for one in by_manner.pop(_ASLANT, ()))
        most = sorted(by_manner, key=lambda manner: (-sum(len(one.word.text) for one in by_manner[manner]), manner))
        mirrored = is_right_to_left(text)
        parts = [_part(page, layer, by_manner[manner], manner, mirrored, lines) for manner in most or [0]]
    finally:
        layer.close()
    return PageText(parts, aslant, sum(map(str.isalnum, text)))


def _part(
    page: Any, layer: Any, marked: Sequence[Marked], manner: int, mirrored: bool, lines: Sequence[Box]
) -> PageWords:
    """Return the words of a page that are turned alike as they stand where these are upright."""
    left, bottom, right, top = _bounds(page)
    width, height = (right - left, top - bottom) if manner % 2 == 0 else (top - bottom, right - left)
    placed = _turn(manner % 4, left, bottom, right, top)
    if mirrored or manner >= _FLIPPED:
        placed = _mirror(placed, width if mirrored else None, height if manner >= _FLIPPED else None)
    upright = [Marked(Word(word.text, *placed(word[1:5]), word.bold), start, uneven) for word, start, uneven in marked]
    words, struck = as_meant(upright, [placed(line) for line in lines], layer, placed)
    turned = (manner - page.get_rotation() // 90) % 4
    return PageWords(width, height, in_reading_order(words, mirrored), turned, mirrored, placed, struck)


def turned_place(x: float, y: float, width: float, height: float, turned: int) -> tuple[float, float]:
    """Return where a point of the page as it is shown lies on the page as it is read.

    `width`, `height`: of the page as it is read.
    """
    match turned:
        case 1:
            return width - y, x
        case 2:
            return width - x, height - y
        case 3:
            return y, height - x
        case _:
            return x, y


def _text(layer: Any) -> str:
    """Return the text of a page, one character for each that has a place."""
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
    return "".join(map(_sign, (raw.FPDFText_GetUnicode(layer, index) for index in range(count))))


def _sign(code: int) -> str:
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"


def _placed(layer: Any, text: str) -> Iterator[tuple[Marked, int]]:
    """Yield the words in the coordinates of the file, and in which manner their letters stand (`_manner`)."""
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
        for place in _probed(sign, first, last):
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


def _probed(sign: str, first: int, last: int) -> Iterator[int]:
    """Yield the places of letters of a word that may stand higher than its first one: the last, ends of numbers."""
    if last > first:
        yield last
        if not sign.isalpha():
            yield from (first + inner.start() for inner in _INNER.finditer(sign))


def _manner(a: float, b: float, c: float, d: float) -> int:
    """Return the quarter turns, counter-clockwise, by which a matrix turns letters, and _FLIPPED more where it mirrors
    them."""
    if abs(b) <= _LEANING * abs(a):
        quarter = 0 if a >= 0 else 2
    elif abs(a) <= _LEANING * abs(b):
        quarter = 1 if b > 0 else 3
    else:
        return _ASLANT
    return quarter + _FLIPPED * (a * d < b * c)


def _bounds(page: Any) -> tuple[float, float, float, float]:
    """Return left, bottom, right and top of what a page shows, in its own coordinates."""
    left, bottom, right, top = page.get_bbox()
    if left < right and bottom < top:
        return left, bottom, right, top
    return 0.0, 0.0, 612.0, 792.0


def _turn(quarter: int, left: float, bottom: float, right: float, top: float) -> Place:
    """Return what gives a place from the top left when letters turned by so many quarters stand upright."""
    match quarter:
        case 1:  # letters run upwards
            return lambda box: (box[1] - bottom, box[0] - left, box[3] - bottom, box[2] - left)
        case 2:
            return lambda box: (right - box[2], box[1] - bottom, right - box[0], box[3] - bottom)
        case 3:
            return lambda box: (top - box[3], right - box[2], top - box[1], right - box[0])
        case _:
            return lambda box: (box[0] - left, top - box[3], box[2] - left, top - box[1])


def _mirror(placed: Place, width: float | None, height: float | None) -> Place:
    """Return what gives a place as `placed` does, from the right of a width, or from the bottom of a height."""

    def mirrored(box: Box) -> Box:
        x0, y0, x1, y1 = placed(box)
        x0, x1 = (x0, x1) if width is None else (width - x1, width - x0)
        y0, y1 = (y0, y1) if height is None else (height - y1, height - y0)
        return x0, y0, x1, y1

    return mirrored
