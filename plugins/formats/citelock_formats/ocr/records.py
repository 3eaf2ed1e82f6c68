"""Records passed between the parts of OCR."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Why = Literal["scan", "outlines", "broken"]
"""`scan`: a picture; `outlines`: letters drawn as lines; `broken`: a text layer whose glyphs have no Unicode."""


_LONG = 4  # letters of a word that is wider than high


class ScannedPage(NamedTuple):
    """A page that has no text layer that can be used."""

    page: int  # from 1
    why: Why


class PagePicture(NamedTuple):
    """A page as shades of gray, a byte a pixel, rows from the top."""

    width: int  # of the picture, in pixels
    height: int
    pixels: bytes
    dpi: float


class RecognizedWord(NamedTuple):
    """A word with its box in pixels from the top left of the picture; `line`: number of its line."""

    text: str
    x0: int
    y0: int
    x1: int
    y1: int
    confidence: int  # 0 to 100
    line: int


class RecognizedPage(NamedTuple):
    """An engine's result for a picture, turned clockwise by `turn` degrees first so that its lines are level."""

    width: int  # of the turned picture, in pixels
    height: int
    turn: int  # 0, 90, 180 or 270
    words: tuple[RecognizedWord, ...]

    @property
    def text(self) -> str:
        """Return the words in their order."""
        return " ".join(word.text for word in self.words)

    @property
    def confidence(self) -> float:
        """Return the mean confidence of a character, 0 if there is none."""
        signs = sum(len(word.text) for word in self.words)
        return sum(len(word.text) * word.confidence for word in self.words) / signs if signs else 0.0

    @property
    def is_lying(self) -> bool:
        """Return whether most words are higher than wide: they were read from the side, and are not where they seem."""
        long = [word for word in self.words if len(word.text) >= _LONG]
        return sum(word.y1 - word.y0 > word.x1 - word.x0 for word in long) * 2 > len(long)


def words_of_json(payload: Any) -> RecognizedPage:
    """Return page words from JSON. Raises ValueError for anything else."""
    try:
        width, height, turn, words = payload
        read = tuple(RecognizedWord(str(text), *map(int, numbers)) for text, *numbers in words)
        return RecognizedPage(int(width), int(height), int(turn), read)
    except (TypeError, ValueError):
        raise ValueError("it holds something else than words of a page") from None
