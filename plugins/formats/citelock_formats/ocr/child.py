"""Requests to the process that inspects PDF files for OCR."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from citelock_formats.ocr.pictures import PagePicture, RecognizedPage, ScannedPage
from rag_assets.steps.files.records import FileError, OcrPage, OcrWord
from rag_serving.isolation.child import Child, Frame, Limits, ParseError, module_command

_WORKER = module_command("citelock_formats.ocr.worker")
_PAGES = 50  # that are looked at within one limit on time


class PdfChild:
    """One process for one document at a time. Threads take turns."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._child = Child(limits, _WORKER)

    def close(self) -> None:
        """End the process."""
        self._child.close()

    def image_pdf(self, content: bytes, dpi: int) -> bytes:
        """Return an image file as a PDF. Raises FileError if it is broken, or takes too much."""
        return self._answer({"do": "image_pdf", "dpi": dpi}, content).content

    def document(self, content: bytes) -> PdfFile:
        """Return a PDF to query; nothing is sent yet."""
        return PdfFile(self, content)

    def ask(self, name: str, content: bytes, facts: Mapping[str, Any]) -> Frame:
        """Return an answer about a document. Raises FileError."""
        answer = self._answer({**facts, "name": name}, b"")
        if answer.facts.get("unknown"):
            answer = self._answer({**facts, "name": name}, content)
        return answer

    def _answer(self, facts: Mapping[str, Any], content: bytes) -> Frame:
        try:
            answer = self._child.ask(Frame({**facts, "limits": list(self._limits)}, content))
        except ParseError as error:
            raise FileError(str(error)) from None
        if answer.facts.get("memory"):
            raise FileError(self._limits.too_large())
        if "result" not in answer.facts and "unknown" not in answer.facts:
            raise FileError(str(answer.facts.get("reason", "its parser failed")))
        return answer


class PdfFile:
    """A PDF in the process. All methods raise FileError if it is broken, or takes too much."""

    def __init__(self, child: PdfChild, content: bytes) -> None:
        self._child = child
        self._content = content
        self.sha256 = hashlib.sha256(content).hexdigest()

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
        return self._child.ask(self.sha256, self._content, facts)
