"""Which function reads which kind of office file.

Belongs here: the table of kinds. Does not belong here: any kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType

from rag_assets.steps.files.records import FileText, PagesDone
from rag_assets.steps.formats.budget import Budget

OfficeReader = Callable[[bytes, Budget, PagesDone | None], FileText]


def _reader(kind: str) -> OfficeReader:
    """Return a reader that imports what it needs when it is called: most processes meet no such file."""

    def read(content: bytes, budget: Budget, pages_done: PagesDone | None) -> FileText:
        module = import_module(f"rag_assets.steps.files.office.{kind}")
        text: FileText = getattr(module, f"{kind}_text")(content, budget, pages_done)
        return text

    return read


OFFICE_READERS: Mapping[str, OfficeReader] = MappingProxyType(
    {kind: _reader(kind) for kind in ("docx", "pptx", "xlsx", "odt", "ods", "odp", "rtf")}
)
"""Readers by kind; those of slides tell how far they are; each raises FileError where a file cannot be read or is
protected."""
