"""The process that inspects PDF files for OCR: `python -m citelock_formats.ocr.worker`, one request after the other.

Belongs here: the last document, its pages without a usable text layer, calling the pure functions of this room for
requests.
Does not belong here: limits and the loop (`rag_serving.isolation.serving`), requests (`child`), the engine.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, NamedTuple

from citelock_formats.ocr import pictures, records
from citelock_formats.ocr.records import ScannedPage, Why, words_of_json
from citelock_formats.ocr.searchable import searchable_pdf
from rag_assets.steps.files.pdf.reading import opened, shown_objects
from rag_assets.steps.files.records import FileError
from rag_serving.isolation.child import Frame, Limits
from rag_serving.isolation.serving import run, within_limits

ENOUGH_LETTERS = 150
"""Letters and digits; a page with more has a text layer, whatever pictures lie behind it."""
_STRAY = 10  # letters that say nothing: a page number, a stamp
_WHOLE_PAGE, _SOME = 0.5, 0.1  # shares of the page that pictures cover: with few letters, with hardly any
_BROKEN = 0.3  # share of signs without meaning
_FEWEST_SIGNS = 20
_OUTLINES = 300  # paths; so many without a letter are letters
_MOST_OBJECTS = 50_000
_GRID = 32  # a page is looked at in so many rows and columns
_PLAIN = frozenset("\t\r\n\x02\ufffe")  # PDFium writes the last two for hyphens


class OcrWorker:
    """Answers requests about a document, which is sent once, and then named."""

    def __init__(self) -> None:
        self._name = ""
        self._document: Any = None

    def answer(self, request: Frame, requests: IO[bytes]) -> Frame:
        """Return the answer; a fault of one document is a reason."""
        facts = request.facts
        try:
            with within_limits(Limits(*facts["limits"]), requests):
                return self._done(facts, request.content)
        except FileError as error:
            return Frame({"reason": str(error)})
        except MemoryError:
            return Frame({"memory": True})
        except Exception as error:  # the next document is looked at
            return Frame({"reason": " ".join(f"unexpected {type(error).__name__}: {error}"[:300].split())})

    def _done(self, facts: Mapping[str, Any], content: bytes) -> Frame:
        if facts["do"] == "image_pdf":
            return Frame({"result": True}, pictures.image_pdf(content, facts["dpi"]))
        if content:
            self._open(facts["name"], content)
        if self._name != facts["name"]:
            return Frame({"unknown": True})
        match facts["do"]:
            case "look":
                return self._look(facts["first"], facts["most"])
            case "picture":
                return self._picture(facts["page"], facts["dpi"])
            case _:
                return self._searchable(facts["pages"], facts["dpi"])

    def _open(self, name: str, content: bytes) -> None:
        self._close()
        self._document, self._name = opened(content), name

    def _close(self) -> None:
        document, self._document, self._name = self._document, None, ""
        if document is not None:
            with suppress(Exception):
                document.close()

    def _look(self, first: int, most: int) -> Frame:
        count = len(self._document)
        numbers = range(first, min(first + most, count + 1))
        return Frame({"result": {"count": count, "pages": [*pages_without_text(self._document, numbers)]}})

    def _picture(self, number: int, dpi: int) -> Frame:
        page = self._document[number - 1]
        try:
            shown = pictures.picture(page, dpi)
        finally:
            page.close()
        facts = {"width": shown.width, "height": shown.height, "dpi": shown.dpi, "ink": pictures.has_ink(shown)}
        return Frame({"result": facts}, shown.pixels)

    def _searchable(self, pages: list[Any], dpi: int) -> Frame:
        read = {number: (ScannedPage(number, why), words_of_json(words)) for number, why, words in pages}
        try:
            content, recognized = searchable_pdf(self._document, read, dpi)
        finally:
            self._close()  # it is another document now
        return Frame({"result": recognized}, content)


class _Signs(NamedTuple):
    letters: int
    unreadable: int
    total: int


def pages_without_text(document: Any, numbers: Sequence[int]) -> Iterator[ScannedPage]:
    """Yield those of the pages [numbers from 1] that need OCR; an empty page does not."""
    for number in numbers:
        page = document[number - 1]
        try:
            if why := _why(page):
                yield ScannedPage(number, why)
        finally:
            page.close()


def _why(page: Any) -> Why | None:
    layer = page.get_textpage()
    try:
        signs = _signs(layer.get_text_range())
    finally:
        layer.close()
    if signs.total >= _FEWEST_SIGNS and signs.unreadable > _BROKEN * signs.total:
        return "broken"
    if signs.letters >= ENOUGH_LETTERS:
        return None
    covered, paths = _drawn(page)
    if covered >= _WHOLE_PAGE or (signs.letters < _STRAY and covered >= _SOME):
        return "scan"
    return "outlines" if signs.letters < _STRAY and paths >= _OUTLINES else None


def _signs(text: str) -> _Signs:
    letters = unreadable = total = 0
    for sign in text:
        if sign.isspace() or sign in _PLAIN:
            continue
        total += 1
        if sign.isalnum():
            letters += 1
        elif sign == "\ufffd" or unicodedata.category(sign) in ("Cc", "Cn", "Co", "Cs"):
            unreadable += 1
    return _Signs(letters, unreadable, total)


def _drawn(page: Any) -> tuple[float, int]:
    """Return the share of the page that pictures cover, and how many paths it has."""
    import numpy as np
    from pypdfium2 import raw

    left, bottom, right, top = page.get_bbox()
    width, height = right - left, top - bottom
    if not (width > 0 and height > 0):
        return 0.0, 0
    grid, paths = np.zeros((_GRID, _GRID), bool), 0
    for kind, (x0, y0, x1, y1) in shown_objects(page, _MOST_OBJECTS):
        if kind == raw.FPDF_PAGEOBJ_PATH:
            paths += 1
            continue
        columns = [round(min(max((x - left) / width, 0), 1) * _GRID) for x in (x0, x1)]
        rows = [round(min(max((y - bottom) / height, 0), 1) * _GRID) for y in (y0, y1)]
        grid[rows[0] : rows[1], columns[0] : columns[1]] = True
    return float(grid.mean()), paths


if __name__ == "__main__":
    run(OcrWorker().answer, ("pypdfium2", "pypdfium2.raw", "numpy", records.__name__))
