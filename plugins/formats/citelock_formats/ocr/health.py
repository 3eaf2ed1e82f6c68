"""OCR in `citelock doctor`, if a source may have scanned pages.

Belongs here: one finding. Does not belong here: OCR itself (`engine`), the doctor, which calls this by its entry point.
"""

from __future__ import annotations

from collections.abc import Iterator

from citelock_formats.ocr.engine import Tesseract
from citelock_formats.ocr.scans import obstacle
from rag_assets.monitoring.source_health import reads_pdf
from rag_serving.cli.printing import Finding
from rag_serving.config.loading import Config


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
