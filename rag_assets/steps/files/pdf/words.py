"""The words of a page with their places, by pypdfium2.

Belongs here: characters of the text layer as words, upright and from the top left, whichever way the page is turned.
Does not belong here: lines and what they mean.

Of a word the first and the last character are asked for their places: 400 pages a second of real reports on one core,
where asking each character allows 150 (`python -m evals.bench.pdf`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rag_assets.steps.files.pdf.records import Box, Word

CHARS_MAX = 500_000
"""Characters of one page that are read."""
_TOKEN = re.compile("[^\\s\x02\ufffe]+[\x02\ufffe]?")
_HYPHEN = "\u00ad"
_BOLD = re.compile(rb"bold|black|heavy|semibold|demi", re.I)
_BOLD_WEIGHT = 600
_NAME_BYTES = 128
_HOSTILE = 1e6  # points; what lies farther away is nowhere


class _Place(NamedTuple):
    x0: float
    y0: float
    x1: float
    y1: float


class PageWords(NamedTuple):
    """The words of a page in the order of its text layer; those that stand aslant are apart."""

    width: float
    height: float
    words: list[Word]
    stray: list[str]
    letters: int
    turned: int  # quarter turns, clockwise, by which the shown page is turned to be read
    placed: Callable[[Box], _Place]  # where what the file says to stand somewhere stands on the page as it is read


def page_words(page: Any) -> PageWords:
    """Return the words of a page of pypdfium2. Raises pypdfium2.PdfiumError where it has no readable text layer."""
    layer = page.get_textpage()
    try:
        text = _text(layer)
        found = list(_placed(layer.raw, text))
    finally:
        layer.close()
    rotation = page.get_rotation() // 90 % 4
    left, bottom, right, top = _bounds(page)
    turns = Counter[int]()
    for word, quarter in found:
        turns[quarter] += len(word.text)
    main = max(turns, key=lambda quarter: (turns[quarter], -quarter)) if turns else 0
    main = 0 if main < 0 else main
    turn = _turn(main, left, bottom, right, top)
    size = (right - left, top - bottom) if main % 2 == 0 else (top - bottom, right - left)
    words = [Word(word.text, *turn(word), word.bold) for word, quarter in found if quarter == main]
    stray = _joined([word.text for word, quarter in found if quarter != main])
    turned = (main - rotation) % 4
    letters = sum(map(str.isalnum, text))
    return PageWords(*size, words, stray, letters, turned, lambda box: turn(Word("", *box)))


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


def _placed(layer: Any, text: str) -> Iterator[tuple[Word, int]]:
    """Yield words in the coordinates of the file, and the quarter turns by which their letters are turned; -1: they
    stand aslant."""
    from ctypes import byref, c_int, create_string_buffer

    from pypdfium2 import raw

    box, name, flags = raw.FS_RECTF(), create_string_buffer(_NAME_BYTES), c_int()
    at, room = byref(box), byref(flags)
    bolds: dict[bytes, bool] = {}
    for match in _TOKEN.finditer(text):
        first, last = match.start(), match.end() - 1
        sign = match[0]
        if sign[-1] in "\x02\ufffe":
            sign = sign[:-1] + _HYPHEN
        if not raw.FPDFText_GetLooseCharBox(layer, first, at):
            continue
        x0, y0, x1, y1 = box.left, box.bottom, box.right, box.top
        if last > first and raw.FPDFText_GetLooseCharBox(layer, last, at):
            x0, y0, x1, y1 = min(x0, box.left), min(y0, box.bottom), max(x1, box.right), max(y1, box.top)
        if not (-_HOSTILE < x0 <= x1 < _HOSTILE and -_HOSTILE < y0 <= y1 < _HOSTILE):
            continue
        raw.FPDFText_GetFontInfo(layer, first, name, _NAME_BYTES, room)
        font = name.value
        if font not in bolds:
            bolds[font] = bool(_BOLD.search(font)) or raw.FPDFText_GetFontWeight(layer, first) >= _BOLD_WEIGHT
        yield Word(sign, x0, y0, x1, y1, bolds[font]), _quarter(raw.FPDFText_GetCharAngle(layer, first))


def _quarter(angle: float) -> int:
    """Return the quarter turns of an angle, counter-clockwise, -1 between them."""
    turns = angle / (math.pi / 2)
    nearest = round(turns)
    return nearest % 4 if abs(turns - nearest) < 0.1 else -1


def _bounds(page: Any) -> tuple[float, float, float, float]:
    """Return left, bottom, right and top of what a page shows, in its own coordinates."""
    left, bottom, right, top = page.get_bbox()
    if left < right and bottom < top:
        return left, bottom, right, top
    return 0.0, 0.0, 612.0, 792.0


def _turn(quarter: int, left: float, bottom: float, right: float, top: float) -> Callable[[Word], _Place]:
    """Return what gives a word's place from the top left when letters turned by so many quarters stand upright."""
    match quarter:
        case 1:  # letters run upwards
            return lambda word: _Place(word.y0 - bottom, word.x0 - left, word.y1 - bottom, word.x1 - left)
        case 2:
            return lambda word: _Place(right - word.x1, word.y0 - bottom, right - word.x0, word.y1 - bottom)
        case 3:
            return lambda word: _Place(top - word.y1, right - word.x1, top - word.y0, right - word.x0)
        case _:
            return lambda word: _Place(word.x0 - left, top - word.y1, word.x1 - left, top - word.y0)


def _joined(words: list[str]) -> list[str]:
    return [" ".join(words)] if words else []
