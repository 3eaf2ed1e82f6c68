"""The section `documents` of `config/app.yaml`: what one page or attached file may cost.

Belongs here: the limits. Does not belong here: what keeps to them (`rag_assets.parsing`, `rag_assets.steps.formats`).
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from rag_serving.config.sources import Section


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

    def changed(self) -> dict[str, Any]:
        """Return the limits that are not the defaults."""
        return {
            name: value for name, value in self.model_dump().items() if value != type(self).model_fields[name].default
        }
