"""Documents with scanned pages, made readable: called by `LimitedReader` before it reads a PDF or an image."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from citelock_formats.ocr.child import PdfChild, PdfFile
from citelock_formats.ocr.engine import Tesseract
from citelock_formats.ocr.pictures import ScannedPage
from citelock_formats.ocr.recognition import OcrCache, Recognizer
from rag_assets.monitoring.source_health import reads_pdf
from rag_assets.parsing.reader import READ, SETTINGS, Prepared
from rag_assets.steps.files.records import FileError, PagesDone
from rag_serving.cli.printing import Finding
from rag_serving.config.loading import Config
from rag_serving.config.sections import Documents, Ocr
from rag_serving.isolation.child import Limits


def examine(config: Config) -> Iterator[Finding]:
    """Yield whether scanned pages can be read, and in which languages; nothing if no source reads PDF files."""
    settings = config.documents.ocr
    if not any(map(reads_pdf, config.sources.values())):
        return
    if settings.enabled is False:
        yield Finding("ocr", "ok", "off: scanned pages have no text")
        return
    engine = Tesseract(settings)
    if why := obstacle(settings, engine):
        lack, _, mend = why.partition(": ")
        yield Finding("ocr", "warn", f"{lack}; scanned pages have no text", mend)
        return
    languages = settings.languages or engine.languages
    yield Finding("ocr", "ok", f"tesseract {engine.version} reads scanned pages in {', '.join(languages)}")


MOST_PAGES = 2000
"""Of a document that is looked at."""


class Scans:
    """Fulfils `ScannedDocuments`: one engine, one process that looks at files."""

    def __init__(
        self,
        documents: Documents,
        folder: Path | None = None,
        engine: Tesseract | None = None,
        child: PdfChild | None = None,
    ) -> None:
        """`folder`: `Store.source(key) / FOLDER`, where readings are kept; None: none is."""
        self._settings = documents.ocr
        self._child = child or PdfChild(Limits(documents.max_seconds, documents.max_memory_mb))
        self._engine = engine or Tesseract(documents.ocr)
        self._cache = OcrCache(folder) if folder else None

    def remove_unnamed(self, documents: Collection[str]) -> None:
        """See `ScannedDocuments`."""
        if self._cache:
            self._cache.remove_unnamed(documents)

    def close(self) -> None:
        """End the process and the engine."""
        self._engine.close()
        self._child.close()

    def prepared(self, content: bytes, is_image: bool, pages_done: PagesDone | None) -> Prepared:
        """See `ScannedDocuments`."""
        received = hashlib.sha256(content).hexdigest()
        if is_image:
            content = self._child.image_pdf(content, self._settings.dpi)
        as_it_came = Prepared(content, received if is_image else None)
        file = self._child.document(content)
        try:
            count, pages = file.scanned_pages(MOST_PAGES)
        except FileError:  # whatever reads its text says why
            return as_it_came
        if not pages:
            return as_it_came
        if why := self._obstacle():
            return as_it_came._replace(unread=dict.fromkeys((page.page for page in pages), why))
        return self._recognized(file, as_it_came, received, pages, _PagesDone(pages_done, count, count - len(pages)))

    @property
    def manner(self) -> str:
        """See `ScannedDocuments`."""
        languages = f"in {'+'.join(self._settings.languages)}" if self._settings.languages else "in what is installed"
        return f"{languages} at {self._settings.dpi} dpi ({SETTINGS}languages, {SETTINGS}dpi)"

    def is_past(self, reason: str) -> bool:
        """See `ScannedDocuments`. Earlier results are kept while nothing can be recognized."""
        if reason.startswith(READ):
            return reason != f"{READ} {self.manner}" and self._obstacle() is None
        now = [self._obstacle(), self._too_many(), f"{self._settings.timeout_s:g} s ({SETTINGS}timeout_s)"]
        return f"({SETTINGS}" in reason and not any(one in reason for one in now if one)

    def _recognized(
        self, file: PdfFile, as_it_came: Prepared, received: str, pages: list[ScannedPage], done: _PagesDone
    ) -> Prepared:
        most = self._settings.max_pages
        result = Recognizer(self._settings, self._engine, self._cache).read(file, pages[:most], done)
        unread = {**result.unread, **dict.fromkeys((page.page for page in pages[most:]), self._too_many())}
        if self._cache:
            self._cache.name_pages(received, result.keys)
        if not result.words:
            return as_it_came._replace(unread=unread)
        try:
            content, recognized = file.searchable(result.words, self._settings.dpi)
        except FileError as error:
            lost: Mapping[int, str] = dict.fromkeys((page.page for page in result.words), str(error))
            return as_it_came._replace(unread={**unread, **lost})
        return Prepared(content, received, recognized, unread)

    def _obstacle(self) -> str | None:
        return obstacle(self._settings, self._engine)

    def _too_many(self) -> str:
        return f"OCR reads {self._settings.max_pages:,} pages of a document ({SETTINGS}max_pages)"


def obstacle(settings: Ocr, engine: Tesseract) -> str | None:
    """Return why nothing can be recognized and how to mend that, None if it can."""
    if settings.enabled is False:
        return f"OCR is off ({SETTINGS}enabled)"
    if engine.version is None:
        return f"OCR needs tesseract: install tesseract-ocr, and see that PATH has it ({SETTINGS}enabled)"
    missing = [name for name in settings.languages if name not in engine.languages]
    if missing or not engine.languages:
        package = (missing or ["eng"])[0].replace("_", "-")
        return f"tesseract lacks a language: install tesseract-ocr-{package} ({SETTINGS}languages)"
    return None


class _PagesDone:
    """Tells how many pages of a document are done, those that need no OCR first."""

    def __init__(self, pages_done: PagesDone | None, count: int, before: int) -> None:
        self._pages_done, self._count, self._before = pages_done, count, before

    def __call__(self, done: int) -> None:
        if self._pages_done is not None:
            self._pages_done(self._before + done, self._count)
