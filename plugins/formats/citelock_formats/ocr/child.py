"""Requests to the process that inspects PDF files for OCR, and the records that the parts of OCR pass on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from rag_assets.parsing.worker import result_of
from rag_assets.steps.files.records import FileError, OcrPage, OcrWord
from rag_serving.isolation.child import Child, Frame, Limits, ParseError, module_command

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


_WORKER = module_command("citelock_formats.ocr.worker")
_PAGES = 50  # that are looked at within one limit on time
UNKNOWN = "unknown"
"""The result of a request about a document that the process does not hold."""


class PdfChild:
    """One process for one document at a time. Threads take turns."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._child = Child(limits, _WORKER)

    def close(self) -> None:
        """End the process."""
        self._child.close()

    def ask(self, facts: Mapping[str, Any], content: bytes) -> Frame:
        """Return an answer with a result. Raises FileError if the document is broken, or takes too much."""
        try:
            answer = self._child.ask(Frame({**facts, "limits": self._limits}, content))
            result_of(answer.facts, self._limits)
        except (ParseError, ImportError) as error:
            raise FileError(str(error)) from None
        return answer


class PdfFile:
    """A PDF in the process. All methods raise FileError if it is broken, or takes too much."""

    def __init__(self, child: PdfChild, content: bytes) -> None:
        self._child = child
        self._content = content
        self._name = hashlib.sha256(content).hexdigest()

    def scanned_pages(self, most: int) -> tuple[int, list[ScannedPage]]:
        """Return how many pages there are, and those without a text layer; none of a file of more than `most`."""
        found: list[ScannedPage] = []
        first, count = 1, 1
        while first <= count:
            answer = self._ask({"do": "look", "first": first, "most": _PAGES}).facts["result"]
            count = int(answer["count"])
            if count > most:
                return count, []
            found += [ScannedPage(int(page), why) for page, why in answer["pages"]]
            first += _PAGES
        return count, found

    def picture(self, page: int, dpi: int) -> PagePicture | None:
        """Return a page's picture; None if it is empty."""
        answer = self._ask({"do": "picture", "page": page, "dpi": dpi})
        facts = answer.facts["result"]
        if not facts["ink"]:
            return None
        return PagePicture(int(facts["width"]), int(facts["height"]), answer.content, float(facts["dpi"]))

    def searchable(self, pages: Mapping[ScannedPage, RecognizedPage], dpi: int) -> tuple[bytes, dict[int, OcrPage]]:
        """Return the PDF with the recognized text on its pages, and the words as those show them, by page."""
        sent = [[*scanned, words] for scanned, words in pages.items()]
        answer = self._ask({"do": "searchable", "pages": sent, "dpi": dpi})
        read = [OcrPage(int(page), tuple(OcrWord(*word) for word in words)) for page, words in answer.facts["result"]]
        return answer.content, {page.page: page for page in read}

    def _ask(self, facts: Mapping[str, Any]) -> Frame:
        named = {**facts, "name": self._name}
        answer = self._child.ask(named, b"")
        return self._child.ask(named, self._content) if answer.facts["result"] == UNKNOWN else answer
