"""The words on a page with their places, and the rectangles of a quote among them.

Belongs here: pure functions over characters with rectangles, in points from the top left of the page.
Does not belong here: where characters come from (`worker`), which of them a quote is (`finding`), whether it is true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from rag_serving.rendering.finding import NOTHING, QuoteContext, SignText

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
        """Yield the range of each word, a run without white space."""
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
