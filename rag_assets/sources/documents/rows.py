"""One document as a row of PAGES.

Belongs here: title, address, and the text of a file and its faults. Does not belong here: listing files (`folder`,
`inbox`), the text of each kind (`rag_assets.steps.files.file_text`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from rag_assets.sources.base import Row
from rag_assets.sources.envelope import content_hash
from rag_assets.sources.originals import OriginalFacts, is_kept, keep_original
from rag_assets.steps.files.records import FileError, PagesDone, needs
from rag_serving.config.sections import Documents
from rag_serving.config.sources import Files, SiteSource
from rag_serving.documents.kinds import PASSWORD, BrokenFileError, Kind, KindError, kind_in, media_type

if TYPE_CHECKING:
    from rag_assets.parsing.reader import LimitedReader, ReadDocument

MARK = "doc"
"""What the ids of documents begin with; those of pages are numbers."""
PAGE_PATH = "/p/"
"""Where Citelock itself shows a document."""
_RENDERED = frozenset({"pdf", "image"})


class ExcludedError(Exception):
    """A file that is left out on purpose; the message says why."""


class UnreadableError(Exception):
    """A file that should be read and cannot be; the message says why."""


@dataclass(frozen=True)
class DocumentReading:
    """The settings for reading a source's documents."""

    reader: LimitedReader | None = None  # None: one within the default limits
    originals: Path | None = None  # where files are kept that serving renders; None: none is kept
    public_url: str | None = None  # where people reach the server

    def limited(self) -> LimitedReader:
        """Return the reader, or a new one."""
        from rag_assets.parsing.reader import LimitedReader

        return self.reader or LimitedReader(Documents())

    def address(self, page_id: str) -> str:
        """Return the address where Citelock shows a document; relative if the server's own is unknown."""
        return f"{(self.public_url or '').rstrip('/')}{PAGE_PATH}{page_id}"


@dataclass(frozen=True)
class DocumentFacts:
    """A document before its text is read."""

    page_id: str
    version: int
    name: str
    url: str
    readers: str
    updated_at: datetime
    source_file: str | None = None  # its name below the folder; None: it lies in none


@dataclass(frozen=True)
class RowMaker:
    """Makes the rows of one source's documents."""

    key: str
    settings: Files | SiteSource
    reader: LimitedReader
    originals: Path | None

    def read(self, facts: DocumentFacts, content: bytes, pages_done: PagesDone | None = None) -> Row:
        """Return the row of a document; `pages_done` receives the progress in a paged one.

        Raises:
            ExcludedError: its format is not supported, or it is empty or too large.
            UnreadableError: it is broken, encrypted, or takes too much.
        """
        if not content.strip():
            raise ExcludedError("it is empty")
        if len(content) > self.settings.max_file_bytes:
            raise ExcludedError(f"it is larger than {self.settings.max_file_bytes} bytes (max_file_bytes)")
        try:
            kind = kind_in(facts.name, content)
        except BrokenFileError as error:
            raise UnreadableError(str(error)) from None
        except KindError as error:
            raise ExcludedError(str(error)) from None
        document = self._read(facts.name, content, pages_done)
        text = document.text
        original = None
        if self.originals and kind in _RENDERED:
            original = keep_original(
                self.originals, document.content, media_type("pdf"), text.page_count, document.received_sha256
            )
        return self._row(facts, text.body, text.body_format, title_of(facts.name, kind), original)

    def kept(self, row: Row, facts: DocumentFacts) -> Row | None:
        """Return the row of a document with unchanged bytes: its facts may have changed.

        None if it has to be read again: it was cut by a limit that has changed, or its file is not stored.
        """
        original = row["original"]
        if self.reader.is_outdated(row["body"], row["body_format"]):
            return None
        if original is not None and (self.originals is None or not is_kept(self.originals, original)):
            return None
        return self._row(facts, row["body"], row["body_format"], _same_title(row, facts.name), original)

    def _row(
        self, facts: DocumentFacts, body: str, body_format: str, title: str, original: OriginalFacts | None
    ) -> Row:
        flavor = "markdown" if body_format == "markdown" else "html"
        return {
            "source": self.key,
            "tenant": self.settings.tenant,
            "page_id": facts.page_id,
            "version": facts.version,
            "space": self.settings.space or self.key,
            "title": title,
            "url": facts.url,
            "status": "current",
            "updated_at": facts.updated_at,
            "labels": [],
            "ancestors": [],
            "ancestor_titles": [],
            "position": None,
            "readers": facts.readers,
            "body": body,
            "body_format": body_format,
            "anchor_flavor": flavor,
            "content_hash": content_hash(title, body, body_format, flavor, original["sha256"] if original else None),
            "original": original,
            "source_file": facts.source_file,
        }

    def _read(self, name: str, content: bytes, pages_done: PagesDone | None) -> ReadDocument:
        try:
            document = self.reader.document(name, content, pages_done)
        except FileError as error:
            raise (ExcludedError if str(error) == PASSWORD else UnreadableError)(str(error)) from None
        except ImportError as error:
            raise UnreadableError(needs(error)) from None
        if not document.text.body.strip():
            raise ExcludedError("it has no text")
        return document


def title_of(name: str, kind: Kind) -> str:
    """Return the title of a document: its file name, without the ending where that only says how it is written."""
    path = PurePosixPath(name)
    return (path.stem if kind != "code" and path.suffix else path.name) or name


def _same_title(row: Row, name: str) -> str:
    """Return the title that a name gives, with its ending where the row's title has one."""
    path = PurePosixPath(name)
    has_ending = bool(path.suffix) and row["title"].endswith(path.suffix)
    return path.name if has_ending else (path.stem or path.name)
