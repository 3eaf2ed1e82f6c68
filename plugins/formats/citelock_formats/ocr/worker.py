"""The process that looks at PDF files for OCR: `python -m citelock_formats.ocr.worker`, one request after the other.

Belongs here: the document that it was sent last, and calling the pure functions of this room for requests.
Does not belong here: limits and the loop (`rag_serving.isolation.serving`), asking (`child`), the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from citelock_formats.ocr import pictures, records
from citelock_formats.ocr.records import ScannedPage, words_of_json
from citelock_formats.ocr.searchable import searchable_pdf
from citelock_formats.ocr.text_layers import pages_without_text
from rag_assets.steps.files.pdf.reading import opened
from rag_assets.steps.files.records import FileError
from rag_serving.isolation.frames import Frame
from rag_serving.isolation.limits import Limits
from rag_serving.isolation.serving import run, within_limits


class Worker:
    """Answers what is asked of a document; it is sent once, and then named."""

    def __init__(self) -> None:
        self._name = ""
        self._document: Any = None

    def answer(self, request: Frame, requests: IO[bytes]) -> Frame:
        """Return what was asked; a fault of one document is a reason."""
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


if __name__ == "__main__":
    run(Worker().answer, ("pypdfium2", "pypdfium2.raw", "numpy", records.__name__))
