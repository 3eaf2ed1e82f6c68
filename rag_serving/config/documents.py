"""The section `documents` of `config/app.yaml`: what one page or attached file may cost.

Belongs here: the limits. Does not belong here: what keeps to them (`rag_assets.parsing`, `rag_assets.steps.formats`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import Field

from rag_serving.config.sources import Section


class Ocr(Section):
    """Text recognition by Tesseract (needs citelock[formats]) for images (PNG, JPEG, TIFF) and for pages of PDF files
    without a text layer or with a broken one. In Debian the package is tesseract-ocr, and tesseract-ocr-deu for a
    language. Results are kept."""

    enabled: Union[Literal["auto"], bool] = "auto"
    """auto: on if tesseract is installed; otherwise such pages are recorded with the reason. true: a document is left
    out unless all of its pages can be recognized. false: off."""
    command: str = Field("tesseract", min_length=1)
    """Name or path of the program."""
    languages: list[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_/-]{1,40}$")]] = Field([])
    """Language codes of tesseract, such as eng and deu; empty: all that are installed. If there are several, the first
    pages of a document decide which one it is in."""
    dpi: int = Field(200, ge=72, le=600)
    """Resolution of the recognized pictures, in pixels per inch."""
    max_pages: int = Field(500, ge=1)
    """Pages of one document that are recognized; further pages are recorded."""
    timeout_s: float = Field(60, ge=1, le=3600)
    """Seconds for one page; a page that takes longer is recorded."""


class Documents(Section):
    """Limits for one page or attached file. Longer ones are cut; those that take too much time or memory are left out.
    Both are recorded with the reason, and all other pages are read as usual."""

    max_text_chars: int = Field(2_000_000, ge=1000)
    """Characters of text; a longer document is cut."""
    max_headings: int = Field(10_000, ge=1)
    """Headings; a document with more is cut. Each becomes a section."""
    max_blocks: int = Field(100_000, ge=1)
    """Paragraphs, list items, table rows, blocks of code and links; a document with more is cut."""
    max_cells: int = Field(200_000, ge=1)
    """Cells of all tables, merged and missing ones included; a document with more is cut."""
    max_seconds: int = Field(30, ge=1, le=3600)
    """Seconds of processor time for one document; a document that takes longer is left out."""
    max_memory_mb: int = Field(512, ge=64)
    """Megabytes of memory for one document (on Linux); a document that takes more is left out."""

    ocr: Ocr = Ocr()
    """How scanned pages are read."""

    def changed(self) -> dict[str, Any]:
        """Return the limits that are not the defaults."""
        usual = type(self)().model_dump()
        return {name: value for name, value in self.model_dump().items() if value != usual[name]}
