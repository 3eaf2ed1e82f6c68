"""Read bodies and files within the limits of the configuration, in this process or in one of its own.

Small text is parsed here: the pure functions take time and memory in proportion to it, at most some seconds for
`HERE_MAX` bytes of the worst. All else, and every file that is no text, goes to the child. Of 2,000 pages of a real
wiki 14 do, and all take 1.1 times the processor time of parsing them here, the child's start included; if all went to
the child, they would take 1.6 times as much. OCR of scanned pages is a plug-in's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Protocol

from rag_assets.parsing.worker import result_of
from rag_assets.steps.files.composed import GROUP, SCANNED, is_installed_now, lack, missing_extra
from rag_assets.steps.files.file_text import FileError, FileText, file_text
from rag_assets.steps.files.records import MODULES, OcrPage, PagesDone
from rag_assets.steps.formats.blocks import (
    Budget,
    Content,
    blocks_body,
    blocks_content,
    content_of_json,
    noted,
    without_note,
)
from rag_assets.steps.formats.element_tree import PageError
from rag_assets.steps.formats.html import ExportedIndex, ExportedPage, exported_index, exported_page
from rag_assets.steps.sections.reading import DirectReader, Properties
from rag_serving.config.sections import Documents
from rag_serving.documents.kinds import TEXT_KINDS, Kind, KindError, kind_in
from rag_serving.isolation.child import Child, Frame, Limits, ParseError, module_command
from rag_serving.plugins import loaded, one

SETTINGS = "documents.ocr."
"""Begins the name of the setting in a reason that holds only as long as the setting does."""
FOLDER = "ocr"
"""Of `Store.source(key)`: where readings are kept."""
READ = "page read by OCR"
"""Begins the name of the ledger's row of pages that were read; the manner follows."""


class Prepared(NamedTuple):
    """A PDF that can be read. `received_sha256`: of the file that it was made from; None: it is that file."""

    content: bytes
    received_sha256: str | None = None
    recognized: Mapping[int, OcrPage] = MappingProxyType({})
    unread: Mapping[int, str] = MappingProxyType({})  # page from 1: why its text is not there


class ScannedDocuments(Protocol):
    """Makes the text of scanned pages readable."""

    def prepared(self, content: bytes, is_image: bool, pages_done: PagesDone | None) -> Prepared:
        """Return a PDF or an image (PNG, JPEG, TIFF) as a PDF whose scanned pages have a text layer. Raises FileError:
        an image is broken, or takes too much."""

    @property
    def manner(self) -> str:
        """The recognizer with its settings: after a change, earlier results are worth another try."""

    def is_past(self, reason: str) -> bool:
        """Return whether a reason, or a ledger's row, names a setting or a lack that is not there any more."""

    def remove_unnamed(self, documents: Collection[str]) -> None:
        """Remove the results of other documents than these [SHA-256 as received]."""

    def close(self) -> None:
        """End every process."""


def opened_scans(documents: Documents, folder: Path) -> ScannedDocuments | None:
    """Return the recognizer of scanned pages; None if the plug-in is not installed. `folder`: of cached results. Raises
    ConfigError: it is not installed, and `documents.ocr.enabled` is true."""
    if SCANNED not in loaded(GROUP) and documents.ocr.enabled is not True:
        return None
    scans: ScannedDocuments = one(GROUP, SCANNED)(documents, folder)
    return scans


WORKER = module_command("rag_assets.parsing.worker")
HERE_MAX = 128 * 1024
"""Characters of a body, bytes of a file, that are parsed in this process."""
_HERE = TEXT_KINDS - {"rst"}  # docutils takes a second for what others read in ten milliseconds


_NO_ANSWER = "its parser failed: it wrote something else than an answer"


class ReadDocument(NamedTuple):
    """The text of a file, and the file to keep: that with a text layer, where the one received had scanned pages."""

    text: FileText
    content: bytes
    received_sha256: str | None = None  # of the file as it came; None: `content` is that file


class LimitedReader:
    """Reads bodies (`BodyReader`) and files; what takes too much is an error of that one document."""

    def __init__(self, documents: Documents, child: Child | None = None, scans: ScannedDocuments | None = None) -> None:
        """`scans`: the reader of scanned pages; None: they have no text."""
        self._scans = scans
        self._wants_ocr = documents.ocr.enabled  # "auto": where it is installed
        self.limits = Limits(documents.max_seconds, documents.max_memory_mb)
        self._budget = Budget(
            documents.max_text_chars, documents.max_headings, documents.max_blocks, documents.max_cells
        )
        self._direct = DirectReader(self._budget)
        self._child = child or Child(self.limits, WORKER)

    def __enter__(self) -> LimitedReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.close()
        if self._scans is not None:
            self._scans.close()

    def content(self, body: str, body_format: str, lists: bool = False) -> Content:
        """See `BodyReader`."""
        if len(body) <= HERE_MAX:
            return self._direct.content(body, body_format, lists)
        content = self._content({"do": "content", "format": body_format, "lists": lists}, body)
        if content is None:
            raise PageError(_NO_ANSWER)
        return content

    def excerpt(self, body: str, name: str) -> Content | None:
        """See `BodyReader`."""
        if len(body) <= HERE_MAX:
            return self._direct.excerpt(body, name)
        return self._content({"do": "excerpt", "name": name}, body)

    def properties(self, body: str) -> list[Properties]:
        """See `BodyReader`."""
        if len(body) <= HERE_MAX:
            return self._direct.properties(body)
        return [Properties(str(name), dict(values)) for name, values in self._told({"do": "properties"}, _bytes(body))]

    def document(self, name: str, content: bytes, pages_done: PagesDone | None = None) -> ReadDocument:
        """Return the text of a file, that of its scanned pages included; errors as `attachment`."""
        kind = _kind(name, content)
        if self._scans is None or kind not in _PICTURED or find_spec("pypdfium2") is None:
            return ReadDocument(self._unrecognized(kind, name, content, pages_done), content)
        prepared = self._scans.prepared(content, kind != "pdf", pages_done)
        reasons = Counter(prepared.unread.values())
        why = _of_pages(reasons)
        if reasons and self._wants_ocr is True:
            raise FileError(why)
        try:
            told = None if prepared.recognized else pages_done
            text = self.attachment(name, prepared.content, told, prepared.recognized)
        except FileError as error:
            raise FileError(f"{error}; {why}") if reasons else error from None
        if reasons and not text.body.strip("\f \n"):
            raise FileError(why)
        text = _counted(text, prepared, reasons, self._scans.manner)
        return ReadDocument(text, prepared.content, prepared.received_sha256)

    def _unrecognized(self, kind: Kind, name: str, content: bytes, pages_done: PagesDone | None) -> FileText:
        """Return the text of a file; where OCR is not installed, a PDF's ledger has its pages without text."""
        text = self.attachment(name, content, pages_done)
        if kind != "pdf" or self._scans or self._wants_ocr is False or (extra := missing_extra(SCANNED)) is None:
            return text
        pages = {block.page for block in blocks_content(without_note(text.body)[0]).blocks}
        empty = len({*range(1, (text.page_count or 0) + 1)} - pages)
        return _counted(text, Prepared(content), {f"OCR needs {extra} ({SETTINGS}enabled)": empty} if empty else {}, "")

    def attachment(
        self,
        name: str,
        content: bytes,
        pages_done: PagesDone | None = None,
        recognized: Mapping[int, OcrPage] | None = None,
    ) -> FileText:
        """Return the text of a file; see `file_text`. `recognized`: the OCR text of its pages. Raises FileError: it
        cannot be read, takes too much, or its plug-in is not installed. Raises ImportError: the reader of its kind is
        not installed; `name` is the module's."""
        kind = _kind(name, content)
        if len(content) <= HERE_MAX and kind in _HERE:
            return file_text(name, content, self._budget)
        if (module := MODULES.get(kind)) and find_spec(module) is None:
            raise ImportError(f"{module} is not installed", name=module)
        if missing_extra(kind):
            raise FileError(lack(kind))
        try:
            facts = {"do": "attachment", "name": name, "recognized": [*(recognized or {}).values()]}
            body, body_format, page_count = self._asked(facts, content, pages_done)
        except ParseError as error:
            raise FileError(str(error)) from None
        return FileText(body, body_format, page_count)

    def exported_page(self, content: bytes) -> ExportedPage:
        """Return the contents of a page's file in an HTML export. Raises PageError if it is unreadable."""
        if len(content) <= HERE_MAX:
            return exported_page(content)
        title, crumbs, changed, body, links = self._told({"do": "exported_page"}, content)
        return ExportedPage(title, [*map(tuple, crumbs)], changed, body, [*map(tuple, links)])

    def exported_index(self, content: bytes) -> ExportedIndex:
        """Return the contents of an HTML export's index. Raises PageError if it is unreadable."""
        if len(content) <= HERE_MAX:
            return exported_index(content)
        return ExportedIndex(*self._told({"do": "exported_index"}, content))

    def is_past(self, reason: str) -> bool:
        """Return whether a reason names a limit that is another one now, so that the document is worth another try."""
        now = [self.limits.too_slow(), self.limits.too_large(), *map(self._budget.reason, Budget._fields)]
        if f"({SETTINGS}" in reason:
            return self._scans is not None and self._scans.is_past(reason)
        if is_installed_now(reason):
            return True
        return "(documents.max_" in reason and not any(one in reason for one in now)

    def is_outdated(self, body: str, body_format: str) -> bool:
        """Return whether a stored body was cut, or lacks pages, for a past reason, or OCR would read it otherwise."""
        if self.is_past(without_note(body)[1] or ""):
            return True
        if body_format != "blocks" or f"({SETTINGS}" not in body:
            return False
        try:
            return any(self.is_past(name) for name, _ in blocks_content(without_note(body)[0]).ledger)
        except PageError:
            return True

    def _content(self, facts: dict[str, Any], body: str) -> Content | None:
        try:
            return content_of_json(self._told(facts, _bytes(body)))
        except ValueError:
            raise PageError(_NO_ANSWER) from None

    def _told(self, facts: dict[str, Any], content: bytes) -> Any:
        try:
            return self._asked(facts, content)
        except ParseError as error:
            raise PageError(str(error)) from None

    def _asked(self, facts: dict[str, Any], content: bytes, pages_done: PagesDone | None = None) -> Any:
        request = Frame({**facts, "limits": self.limits, "budget": self._budget}, content)
        return result_of(self._child.ask(request, pages_done).facts, self.limits)


_PICTURED = frozenset({"pdf", "image"})
"""Kinds of files whose pages may be pictures."""


def _kind(name: str, content: bytes) -> Kind:
    try:
        return kind_in(name, content)
    except KindError as error:
        raise FileError(str(error)) from None


def _of_pages(reasons: Mapping[str, int]) -> str:
    numbers = ((f"{count} page has" if count == 1 else f"{count} pages have", why) for why, count in reasons.items())
    return "; ".join(f"{pages} no text layer: {why}" for pages, why in numbers)


def _counted(text: FileText, prepared: Prepared, reasons: Mapping[str, int], manner: str) -> FileText:
    """Return the text with its pages that OCR read, how, and those that are missing, in its ledger."""
    if text.body_format != "blocks" or not (prepared.recognized or reasons):
        return text
    body, cut = without_note(text.body)
    content = blocks_content(body)
    ledger = Counter(content.ledger)
    if prepared.recognized:
        ledger[f"{READ} {manner}", "rendered"] += len(prepared.recognized)
    for why, count in reasons.items():
        ledger[f"page without a text layer: {why}", "lost"] += count
    return text._replace(body=noted(blocks_body(content._replace(ledger=ledger)), cut))


def _bytes(body: str) -> bytes:
    return body.encode("utf-8", "surrogatepass")
