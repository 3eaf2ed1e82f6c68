"""What a reader of documents asks of those who recognize scanned pages.

Belongs here: the protocol, and what becomes of a document that it is asked about.
Does not belong here: OCR itself (`rag_assets.ocr`, which lies above this room).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from rag_assets.steps.files.records import OcrPage, PagesDone

SETTINGS = "documents.ocr."
"""Begins the name of the setting in a reason that holds only as long as the setting does."""
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
        """Return a PDF or an image (PNG, JPEG, TIFF) as a PDF whose scanned pages have a text layer.

        Raises:
            FileError: an image is broken, or takes too much.
        """
        ...

    @property
    def manner(self) -> str:
        """How pages are read, and the settings that say so: with others, what was read is worth another try."""
        ...

    def is_past(self, reason: str) -> bool:
        """Return whether a reason, or a ledger's row, names a setting or a lack that is not there any more."""
        ...

    def close(self) -> None:
        """End every process."""
        ...
