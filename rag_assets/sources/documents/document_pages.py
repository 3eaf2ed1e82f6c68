"""Files that are read as documents, one after the other: of a folder, and beside the pages of a site.

Belongs here: which of them are read anew, what becomes of one that cannot be read.
Does not belong here: finding the files (`folder`, `sites.planning`), the row of one (`rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from rag_assets.sources.base import Row
from rag_assets.sources.documents.renames import Known
from rag_assets.sources.documents.rows import DocumentFacts, ExcludedError, RowMaker, UnreadableError
from rag_assets.sources.sites.trees import LargeFileError
from rag_assets.steps.files.records import FileError
from rag_assets.steps.readers.readers import space_readers
from rag_serving.config.sources import SiteSource
from rag_serving.documents.kinds import extension_of
from rag_serving.documents.names import safe_name


class ReadableFiles(Protocol):
    """Where the content of files comes from."""

    def read(self, name: str, /) -> bytes: ...


@dataclass(frozen=True)
class Document:
    """A file before it is read."""

    name: str  # below the folder
    page_id: str | None  # without the source's prefix; None: it cannot be opened
    row_id: str
    sha256: str | None  # None: it cannot be opened
    stamp: str
    written_at: datetime
    url: str

    @property
    def base_name(self) -> str:
        """The name without folders, as it may be shown."""
        return safe_name(self.name.rpartition("/")[2])


@dataclass
class DocumentPages:
    """What becomes of the documents, by row id; `now`: what is remembered of them, by name."""

    files: ReadableFiles
    before: Mapping[str, Row]
    known: Mapping[str, Known]  # by page id
    maker: RowMaker
    read: dict[tuple[str, str], Row]  # by digest and ending: what a content gave
    rows: dict[str, Row] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    now: dict[str, Known] = field(default_factory=dict)

    def take(self, document: Document) -> None:
        """Read a document, unless its content gave a row or a reason before."""
        known = self.known.get(document.page_id) if document.page_id else None
        is_same = known is not None and known.sha256 == document.sha256
        version = 1 if known is None else known.version if is_same else known.version + 1
        readers = space_readers(self.maker.settings.readers)
        name, url, written_at = document.base_name, document.url, document.written_at
        file = shown_name(document.name)[:4096] if isinstance(self.maker.settings, SiteSource) else None
        facts = DocumentFacts(document.row_id, version, name, url, readers, written_at, file)
        left_out = known.left_out if known and is_same else None
        if left_out and self.maker.reader.is_past(left_out[1]):
            left_out = None
        elif is_same and not left_out and (row := self._kept(facts)):
            self.rows[document.row_id] = row
        if left_out is None and document.row_id not in self.rows:
            left_out = self._read(document, facts)
        if document.sha256 and document.page_id:
            self.now[document.name] = Known(document.page_id, document.sha256, version, [document.stamp], left_out)
        if left_out is not None:
            self._leave_out(document, facts, left_out)

    def keep(self, name: str, known: Known, row_id: str, why: str) -> None:
        """Keep what was read of a file that cannot be reached now, and record why it cannot."""
        self.now[name] = known
        if (row := self.before.get(row_id)) is not None:
            self.rows[row_id] = row
        self.failures[row_id] = f"{shown_name(name)}: {why}; its last version stays"

    def _kept(self, facts: DocumentFacts) -> Row | None:
        row = self.before.get(facts.page_id)
        return self.maker.kept(row, facts) if row is not None else None

    def _read(self, document: Document, facts: DocumentFacts) -> list[str] | None:
        """Read a file into its row; a content that another file had is not read again.

        Return what it is (`failed`, `excluded`) and why where it gives none.
        """
        content = (document.sha256 or "", extension_of(document.base_name))
        if (twin := self.read.get(content)) and (row := self.maker.kept(twin, facts)):
            self.rows[facts.page_id] = row
            return None
        try:
            self.rows[facts.page_id] = self.maker.read(facts, self.files.read(document.name))
        except (ExcludedError, LargeFileError) as error:
            return ["excluded", str(error)]
        except (UnreadableError, FileError) as error:
            return ["failed", str(error)]
        if content[0]:
            self.read[content] = self.rows[facts.page_id]
        return None

    def _leave_out(self, document: Document, facts: DocumentFacts, left_out: list[str]) -> None:
        """Record why a file gave no row of its version; the last one that could be read stays, as a failure's does."""
        kind, why = left_out
        label = shown_name(document.name)
        if kind == "excluded":
            self.excluded[facts.page_id] = f"{label}: {why}"
            return
        if (row := self.before.get(facts.page_id)) is not None:
            self.rows[facts.page_id] = {**row, "readers": facts.readers}
            why += "; its last version stays"
        self.failures[facts.page_id] = f"{label}: {why}"


def rows_by_content(known: Mapping[str, Known], before: Mapping[str, Row], prefix: str) -> dict[tuple[str, str], Row]:
    """Return the rows of the last sync by digest and ending of their file."""
    return {
        (one.sha256, extension_of(name.rpartition("/")[2])): row
        for name, one in known.items()
        if one.left_out is None and (row := before.get(f"{prefix}{one.page_id}"))
    }


def shown_name(name: str) -> str:
    """Return the name of a file as it may be shown: bytes that are no UTF-8 are replaced."""
    return name.encode("utf-8", "replace").decode()
