"""The interface between a reader of documents and the recognizers of scanned pages.

Belongs here: the protocol, the outcome of a document, opening the plug-in's recognizer.
Does not belong here: OCR itself, which is a plug-in's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

from rag_assets.steps.files.plugged import GROUP, SCANNED
from rag_assets.steps.files.records import OcrPage, PagesDone
from rag_serving.config.sections import Documents
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
        """Return a PDF or an image (PNG, JPEG, TIFF) as a PDF whose scanned pages have a text layer.

        Raises:
            FileError: an image is broken, or takes too much.
        """
        ...

    @property
    def manner(self) -> str:
        """The recognizer with its settings: after a change, earlier results are worth another try."""
        ...

    def is_past(self, reason: str) -> bool:
        """Return whether a reason, or a ledger's row, names a setting or a lack that is not there any more."""
        ...

    def remove_unnamed(self, documents: Collection[str]) -> None:
        """Remove the results of other documents than these [SHA-256 as received]."""
        ...

    def close(self) -> None:
        """End every process."""
        ...


def opened_scans(documents: Documents, folder: Path) -> ScannedDocuments | None:
    """Return the recognizer of scanned pages; None if the plug-in is not installed. `folder`: of cached results.

    Raises:
        ConfigError: it is not installed, and `documents.ocr.enabled` is true.
    """
    if SCANNED not in loaded(GROUP) and documents.ocr.enabled is not True:
        return None
    scans: ScannedDocuments = one(GROUP, SCANNED)(documents, folder)
    return scans
