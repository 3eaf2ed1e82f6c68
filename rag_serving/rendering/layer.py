"""The words on a page with their places, in points from the top left, and the rectangles of a quote among them. A
stored text differs from the page's text layer: lines are joined and hyphenated words mended, cells of a row have bars
between them, an item its marker, and text between two columns or above the page is gone. So white space, hyphens, bars
and typography do not count; a quote that is nowhere in one piece is searched in pieces, cell by cell and then by runs
of words, as close to each other as possible."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, NamedTuple

Span = tuple[int, int]
"""A range of a page's characters."""

_IGNORED = frozenset("-\u00ad\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufffe\x02|*\\\\•‣▪◦●○■□·")
_SIGNS = str.maketrans("‘’‚‛′´`“”„‟″«»", "'''''''\"\"\"\"\"\"\"")
_BETWEEN = re.compile(r"(?<!\\)\||\n")
_TRIED = 100  # places of a quote that are looked at
_TRIED_OF_PIECE = 30
_MOST_PIECES = 64
_AROUND = 60  # compared signs before and after a quote
_MISSING = 0.1  # share of a quote that may be nowhere on the page
_LINE = 8.0  # how much farther a point is to the next line than along the line
_HINT = 0.2  # weight of a quote's surroundings beside the quote itself


class QuoteContext(NamedTuple):
    """A quote with its surrounding text, which distinguishes it from the same words elsewhere."""

    quote: str
    before: str = ""
    after: str = ""


NOTHING = QuoteContext("")


class SignText:
    """The characters of a page as they are compared."""

    def __init__(self, signs: Sequence[str], middles: Sequence[tuple[float, float]]) -> None:
        """`middles`: of each character, in points."""
        self._signs, self._middles = signs, middles
        found: list[str] = []
        self._places: list[int] = []
        for place, sign in enumerate(signs):
            kept = _compared_sign(sign)
            found.append(kept)
            self._places += [place] * len(kept)
        self._text = "".join(found)

    def spans(self, wanted: QuoteContext) -> list[Span]:
        """Return the character ranges of a quote, in order; none if it is not on the page. Of several occurrences,
        prefer one that begins and ends with a word and has the most of the quote's surroundings, then the first."""
        quote = compared(wanted.quote)
        if not quote:
            return []
        before, after = compared(wanted.before)[-_AROUND:], compared(wanted.after)[:_AROUND]
        whole = [*islice(self._starts(quote), _TRIED)]
        if whole:
            end = len(quote)
            best = max(
                whole, key=lambda at: (self._is_of_words(at, end), self._around(at, at + end, before, after), -at)
            )
            return [self._span(best, end)]
        return self._in_pieces(wanted.quote, before, after)

    def _in_pieces(self, quote: str, before: str, after: str) -> list[Span]:
        pieces, missing = self._pieces(quote)
        if not pieces or missing > _MISSING * len(compared(quote)):
            return []
        hints = [hint for hint in (before[-_AROUND // 3 :], after[: _AROUND // 3]) if hint and hint in self._text]
        places = [self._places_of(piece) for piece in pieces]
        around = [self._places_of(hint) for hint in hints]
        rarest = min(range(len(pieces)), key=lambda at: (len(places[at]), -len(pieces[at])))
        tried = (self._nearest(places, rarest, first, around) for first in places[rarest])
        _, chosen = min(tried, key=lambda found: found[0])
        return [self._span(at, len(piece)) for at, piece in zip(chosen, pieces, strict=True)]

    def _nearest(
        self, places: Sequence[Sequence[int]], rarest: int, first: int, around: Sequence[Sequence[int]]
    ) -> tuple[float, list[int]]:
        """Return the places of all pieces near one place of the rarest, each once, and how far off they are."""
        far, taken, chosen = 0.0, {first}, []
        for piece, starts in enumerate(places):
            free = [at for at in starts if at not in taken] or starts
            at = first if piece == rarest else min(free, key=lambda at: self._apart(first, at))
            taken.add(at)
            chosen.append(at)
            far += self._apart(first, at)
        return far + _HINT * sum(min(self._apart(first, at) for at in starts) for starts in around), chosen

    def _pieces(self, quote: str) -> tuple[list[str], int]:
        """Return the signs of a quote in pieces that each occur on the page, and the number that do not."""
        pieces: list[str] = []
        missing = 0
        for cell in _BETWEEN.split(quote):
            words = [word for word in map(compared, cell.split()) if word]
            while words and len(pieces) < _MOST_PIECES:
                run = self._longest_run(words)
                if run:
                    pieces.append("".join(words[:run]))
                else:
                    missing += len(words[0])
                words = words[max(run, 1) :]
            missing += sum(map(len, words))
        return pieces, missing

    def _longest_run(self, words: Sequence[str]) -> int:
        """Return the number of words from the first on that occur on the page in one piece."""
        low, high = 0, len(words)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if "".join(words[:middle]) in self._text else (low, middle - 1)
        return low

    def _places_of(self, piece: str) -> list[int]:
        """Return the occurrences of a piece, only those between word borders if there are any."""
        starts = [*islice(self._starts(piece), _TRIED)]
        own = [at for at in starts if self._is_of_words(at, len(piece))]
        return (own or starts)[:_TRIED_OF_PIECE]

    def _starts(self, wanted: str) -> Iterator[int]:
        start = self._text.find(wanted)
        while start >= 0:
            yield start
            start = self._text.find(wanted, start + 1)

    def _span(self, at: int, length: int) -> Span:
        return self._places[at], self._places[at + length - 1] + 1

    def _is_of_words(self, at: int, length: int) -> bool:
        start, stop = self._span(at, length)
        before = self._signs[start - 1] if start else " "
        after = self._signs[stop] if stop < len(self._signs) else " "
        return not before.isalnum() and not after.isalnum()

    def _around(self, start: int, end: int, before: str, after: str) -> int:
        """Return how many signs before and after a place are those that are wanted there."""
        said = self._text[max(start - len(before), 0) : start]
        return _common(before[::-1], said[::-1]) + _common(after, self._text[end : end + len(after)])

    def _apart(self, one: int, other: int) -> float:
        (x, y), (other_x, other_y) = self._middles[self._places[one]], self._middles[self._places[other]]
        return _LINE * abs(y - other_y) + abs(x - other_x)


def compared(text: str) -> str:
    """Return a text as it is compared."""
    kept = unicodedata.normalize("NFKC", text.translate(_SIGNS)).translate(_SIGNS)
    return "".join(one for one in kept if not one.isspace() and one not in _IGNORED and one.isprintable())


_compared_sign = lru_cache(maxsize=4096)(compared)


def _common(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


_APART = 2.5  # times the height of a line; what is farther apart has rectangles of its own
_BESIDE = 0.5  # share of the height that two characters of one line have in common


class Char(NamedTuple):
    """A character of a page's text layer; white space has no rectangle."""

    sign: str
    x0: float
    y0: float
    x1: float
    y1: float


class Box(NamedTuple):
    """A rectangle in points from the top left."""

    x0: float
    y0: float
    x1: float
    y1: float

    def payload(self) -> list[float]:
        return [round(value, 2) for value in self]


@dataclass(frozen=True)
class PageLayer:
    """A page's text layer. `width`, `height`: of the page as it is shown, in points."""

    label: str
    width: float
    height: float
    chars: tuple[Char, ...]

    def payload(self, page: int, wanted: QuoteContext = NOTHING) -> dict[str, Any]:
        """Return the JSON shape, with the rectangles of a quote."""
        return {
            "page": page,
            "label": self.label,
            "width": round(self.width, 2),
            "height": round(self.height, 2),
            "words": [[*box.payload(), word] for word, box in self.words],
            "boxes": [box.payload() for box in self.boxes(wanted)],
        }

    @cached_property
    def words(self) -> list[tuple[str, Box]]:
        """The words with their rectangles; one that a line's end parts is two."""
        words = []
        for start, stop in self._spans():
            for first, end in _lines(self.chars, start, stop):
                sign = "".join(char.sign for char in self.chars[first:end]).replace("\u00ad", "-")
                words.append((sign, _around(self.chars[first:end])))
        return words

    def boxes(self, wanted: QuoteContext) -> list[Box]:
        """Return the rectangles of a quote's words, one for each line; none if it is not on the page."""
        spans = self._text.spans(wanted)
        return [_around(self.chars[first:end]) for span in spans for first, end in _lines(self.chars, *span)]

    @cached_property
    def _text(self) -> SignText:
        middles = [((char.x0 + char.x1) / 2, (char.y0 + char.y1) / 2) for char in self.chars]
        return SignText([char.sign for char in self.chars], middles)

    def _spans(self) -> Iterator[tuple[int, int]]:
        start = None
        for place, char in enumerate(self.chars):
            if char.sign.isspace():
                if start is not None:
                    yield start, place
                start = None
            elif start is None:
                start = place
        if start is not None:
            yield start, len(self.chars)


def _lines(chars: Sequence[Char], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a range that lie on one line and close together, without white space around them."""
    first = last = None
    for place in range(start, stop):
        char = chars[place]
        if char.sign.isspace() or char.x1 <= char.x0 or char.y1 <= char.y0:
            continue
        if first is None or last is None:
            first = place
        elif not _follows(chars[last], char):
            yield first, last + 1
            first = place
        last = place
    if first is not None and last is not None:
        yield first, last + 1


def _follows(before: Char, char: Char) -> bool:
    """Return whether a character continues the line of the one before."""
    height = min(before.y1 - before.y0, char.y1 - char.y0)
    common = min(before.y1, char.y1) - max(before.y0, char.y0)
    return common >= _BESIDE * height and -height <= char.x0 - before.x1 <= _APART * height


def _around(chars: Sequence[Char]) -> Box:
    placed = [char for char in chars if char.x1 > char.x0]
    return Box(
        min(char.x0 for char in placed),
        min(char.y0 for char in placed),
        max(char.x1 for char in placed),
        max(char.y1 for char in placed),
    )
