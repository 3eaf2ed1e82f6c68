"""What `citelock doctor` says of OCR, where a source may have scanned pages.

Belongs here: one finding. Does not belong here: OCR itself (`rag_assets.ocr`), the doctor, which calls this by
`source_health`.
"""

from __future__ import annotations

from collections.abc import Iterator

from rag_assets.ocr.engine import Tesseract
from rag_assets.ocr.scans import obstacle
from rag_serving.cli.finding import Finding
from rag_serving.config.loading import Config
from rag_serving.config.sources import Files, Source


def ocr_findings(config: Config) -> Iterator[Finding]:
    """Yield whether scanned pages can be read, and in which languages; nothing where no source reads PDF files."""
    settings = config.documents.ocr
    if not any(map(_reads_pdf, config.sources.values())):
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


def _reads_pdf(source: Source) -> bool:
    return isinstance(source, Files) or getattr(source, "attachments", "none") == "all"
