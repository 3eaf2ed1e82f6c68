"""What is done to single letters of a page: raised or lowered, struck out, printed twice.

Belongs here: words as they are meant, from the places of their letters. Does not belong here: which words there are
(`words`), lines and annotations of a page (`page_objects`).

Letters are asked for their places only in words that show a sign of it: most words have none.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from rag_assets.steps.files.pdf.records import Box, Word
from rag_assets.steps.formats.text_marks import Mark, shifted

Place = Callable[[Box], Box]

_FIGURES = frozenset("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎")
_UP, _DOWN = 0.2, 0.03  # of the height: how much higher or lower letters of a raised or lowered figure begin
_SMALLER = 0.85  # times the height: a figure that stands alone, or lower, is smaller
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
    """A word of the text layer. `uneven`: its letters do not all stand equally high."""

    word: Word
    start: int
    uneven: bool


class _Letter(NamedTuple):
    sign: str
    box: Box


class _Stroke(NamedTuple):
    """Where a line strikes out a word."""

    x0: float
    x1: float
    y: float


def as_meant(marked: Sequence[Marked], lines: Sequence[Box], layer: Any, placed: Place) -> tuple[list[Word], int]:
    """Return words without what is struck out or printed again, raised and lowered figures as such; and how many are
    struck out, wholly or in part.

    `lines`: boxes; `layer`: pypdfium2's; `placed`: as the words and lines are.
    """
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
    """Return where a character stands in the file, as high as its font or as its ink."""
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
        struck = [at for at in order[first:stop] if _is_through(words[at], x0, y, x1)]
        if sum(min(words[at].x1, x1) - max(words[at].x0, x0) for at in struck) >= _ACROSS * (x1 - x0):
            for at in struck:
                strokes[at].append(_Stroke(x0, x1, y))
    return strokes


def _is_through(word: Word, x0: float, y: float, x1: float) -> bool:
    is_middle = abs(y - (word.y0 + word.y1) / 2) <= _MIDDLE * word.height
    return is_middle and word.x0 < x1 and x0 < word.x1


def _without(letters: Sequence[_Letter], inks: Sequence[Box], strokes: Sequence[_Stroke]) -> Iterator[_Letter]:
    """Yield the letters that no line strikes out: it goes through the ink of most of those it lies over."""
    over = [any(stroke.x0 <= (box[0] + box[2]) / 2 <= stroke.x1 for stroke in strokes) for _, box in letters]
    hit = [any(ink[1] < stroke.y < ink[3] for stroke in strokes) for ink in inks]
    is_struck = 2 * sum(one and other for one, other in zip(over, hit, strict=True)) > sum(over)
    yield from (letter for letter, one in zip(letters, over, strict=True) if not (one and is_struck))


def _once(letters: Sequence[_Letter]) -> Iterator[_Letter]:
    """Yield each letter of a word once whose letters are printed twice, and spaces between words."""
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
    """Return the letters of a word, raised and lowered figures as such."""
    high = max((box[3] - box[1] for _, box in letters), default=0.0)
    base = next((box[3] for _, box in letters if box[3] - box[1] >= 0.9 * high), 0.0)
    text = ""
    for mark, run in groupby(letters, key=lambda letter: _mark(letter.box, base, high)):
        said = "".join(letter.sign for letter in run)
        text += shifted(said, mark, text) if mark else said
    return text


def _mark(box: Box, base: float, high: float) -> Mark:
    if base - box[3] >= _UP * high:
        return "raised"
    return "lowered" if box[3] - base >= _DOWN * high and box[3] - box[1] <= _SMALLER * high else ""


def _with_notes(words: Sequence[Word]) -> list[Word]:
    """Return words, figures that stand raised beside a larger word as raised ones, and joined to it where no space
    parts them."""
    noted: list[Word] = []
    for at, word in enumerate(words):
        if len(word.text) <= _MARK and word.text.isdecimal():
            beside = (*words[max(at - 1, 0) : at], *words[at + 1 : at + 2])
            if any(_is_raised(word, other) for other in beside):
                word = word._replace(text=shifted(word.text, "raised"))
        before = noted[-1] if noted else None
        if before and (word.text[0] in _FIGURES or before.text[-1] in _FIGURES) and _touches(before, word):
            noted[-1] = before._replace(text=before.text + word.text, x1=word.x1)
        else:
            noted.append(word)
    return noted


def _touches(word: Word, after: Word) -> bool:
    return abs(after.x0 - word.x1) < _JOINED * word.height and word.y0 < after.y1 and after.y0 < word.y1


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
        x, y = round(word.x0 / 6), round(word.y0 / 6)
        near = (other for dx in (-1, 0, 1) for dy in (-1, 0, 1) for other in seen.get((word.text, x + dx, y + dy), ()))
        if not any(_is_copy(word, other) for other in near):
            kept.append(word)
            seen[word.text, x, y].append(word)
    return kept


def _is_copy(word: Word, other: Word) -> bool:
    far = _SHIFT * word.height
    return abs(word.x0 - other.x0) < far and abs(word.y0 - other.y0) < far and abs(word.x1 - other.x1) < far
