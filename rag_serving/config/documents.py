"""The section `documents` of `config/app.yaml`: what one page or attached file may cost.

Belongs here: the limits. Does not belong here: what keeps to them (`rag_assets.parsing`, `rag_assets.steps.formats`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import Field

from rag_serving.config.sources import Section


class Ocr(Section):
    """Pages of PDF files that have no text layer, or a broken one, and images (PNG, JPEG, TIFF): tesseract reads them.
    Debian has it as tesseract-ocr, a language as tesseract-ocr-deu. What was read is kept."""

    enabled: Union[Literal["auto"], bool] = "auto"
    """auto: where tesseract is installed, else such pages are recorded with the reason; true: a document whose pages
    cannot all be recognized is left out; false: never."""
    command: str = Field("tesseract", min_length=1)
    """Name or path of the program."""
    languages: list[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_/-]{1,40}$")]] = Field([])
    """Codes of languages as tesseract names them, such as eng and deu; empty: those that are installed. Of several, a
    document's own is told by its first pages."""
    dpi: int = Field(200, ge=72, le=600)
    """Pixels an inch of the pictures that are recognized."""
    max_pages: int = Field(500, ge=1)
    """Pages of one document that are recognized; the others are recorded."""
    timeout_s: float = Field(60, ge=1, le=3600)
    """Seconds for one page; a page that takes longer is recorded."""


class Documents(Section):
    """What one page or attached file may cost. Longer ones are cut; those that take too much time or memory are left
    out. Both are recorded with the reason, and all other pages are read as ever."""

    max_text_chars: int = Field(2_000_000, ge=1000)
    """Characters of text; a longer document is cut."""
    max_headings: int = Field(10_000, ge=1)
    """Headings; a document with more is cut. Each becomes a section."""
    max_blocks: int = Field(100_000, ge=1)
    """Paragraphs, list items, table rows, blocks of code and links; a document with more is cut."""
    max_cells: int = Field(200_000, ge=1)
    """Cells of all tables, merged and missing ones included; a document with more is cut."""
    max_seconds: int = Field(30, ge=1, le=3600)
    """Seconds of processor time for reading one document, and three times as many on the clock; a document that takes
    longer is left out."""
    max_memory_mb: int = Field(512, ge=64)
    """Megabytes of memory that reading one document may take (on Linux); a document that takes more is left out."""

    ocr: Ocr = Ocr()
    """How scanned pages are read."""

    def changed(self) -> dict[str, Any]:
        """Return the limits that are not the defaults."""
        usual = type(self)().model_dump()
        return {name: value for name, value in self.model_dump().items() if value != usual[name]}
