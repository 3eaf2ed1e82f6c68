"""Documents as rows of PAGES: one from its file, and those of a folder, or beside the pages of a site, in a sync."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rag_assets.sources.base import (
    READING_VERSION,
    OriginalFacts,
    Row,
    SourceError,
    digest,
    is_kept,
    keep_original,
    settings_digest,
)
from rag_assets.sources.envelope import content_hash
from rag_assets.sources.sites.site import FileTree, LargeFileError, opened_tree
from rag_assets.steps.files.records import FileError, PagesDone, needs
from rag_assets.steps.readers import space_readers
from rag_serving.config.sections import Documents
from rag_serving.config.sources import Files, SiteSource
from rag_serving.documents import kinds

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
        """Return the row of a document; `pages_done` receives the progress in a paged one. Raises ExcludedError: its
        format is not supported, or it is empty or too large. Raises UnreadableError: it is broken, encrypted, or takes
        too much."""
        if not content.strip():
            raise ExcludedError("it is empty")
        if len(content) > self.settings.max_file_bytes:
            raise ExcludedError(f"it is larger than {self.settings.max_file_bytes} bytes (max_file_bytes)")
        try:
            kind = kinds.kind_in(facts.name, content)
        except kinds.BrokenFileError as error:
            raise UnreadableError(str(error)) from None
        except kinds.KindError as error:
            raise ExcludedError(str(error)) from None
        document = self._read(facts.name, content, pages_done)
        text = document.text
        original = None
        if self.originals and kind in _RENDERED:
            original = keep_original(
                self.originals, document.content, kinds.media_type("pdf"), text.page_count, document.received_sha256
            )
        return self._row(facts, text.body, text.body_format, title_of(facts.name, kind), original)

    def kept(self, row: Row, facts: DocumentFacts) -> Row | None:
        """Return the row of a document with unchanged bytes: its facts may have changed. None if it has to be read
        again: it was cut by a limit that has changed, or its file is not stored."""
        original = row["original"]
        if self.reader.is_outdated(row["body"], row["body_format"]):
            return None
        if original is not None and (self.originals is None or not is_kept(self.originals, original)):
            return None
        path = PurePosixPath(facts.name)
        has_ending = bool(path.suffix) and row["title"].endswith(path.suffix)
        return self._row(
            facts, row["body"], row["body_format"], path.name if has_ending else (path.stem or path.name), original
        )

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
            raise (ExcludedError if str(error) == kinds.PASSWORD else UnreadableError)(str(error)) from None
        except ImportError as error:
            raise UnreadableError(needs(error)) from None
        if not document.text.body.strip():
            raise ExcludedError("it has no text")
        return document


def title_of(name: str, kind: kinds.Kind) -> str:
    """Return the title of a document: its file name, without the ending where that only says how it is written."""
    path = PurePosixPath(name)
    return (path.stem if kind != "code" and path.suffix else path.name) or name


@dataclass(frozen=True)
class Known:
    """A file as the last sync saw it; `left_out`: `failed` or `excluded`, and why, where it gave no row."""

    page_id: str  # without the source's prefix
    sha256: str
    version: int
    stamp: list[Any]
    left_out: list[str] | None = None

    def dump(self) -> list[Any]:
        """Return it as JSON has it."""
        return [self.page_id, self.sha256, self.version, self.stamp, self.left_out]

    @classmethod
    def load(cls, value: Any) -> Known | None:
        """Return the object written by `dump`; None for anything else."""
        match value:
            case [str(page_id), str(sha256), int(version), [*stamp], None | [str(), str()] as left_out]:
                return cls(page_id, sha256, version, stamp, left_out)
        return None


def identify(key: str, digests: Mapping[str, str], known: Mapping[str, Known]) -> dict[str, str]:
    """Return the page of each file, by name; ids of two sources differ. `digests`: SHA-256 of the files that there are,
    `known`: those of the last sync, by name."""
    page_ids = {name: known[name].page_id for name in digests if name in known}
    new, gone = digests.keys() - known.keys(), known.keys() - digests.keys()
    of_new, of_gone = Counter(digests[name] for name in new), Counter(known[name].sha256 for name in gone)
    renamed = {
        known[name].sha256: known[name].page_id
        for name in gone
        if of_gone[known[name].sha256] == 1 == of_new[known[name].sha256]
    }
    taken = {*page_ids.values(), *renamed.values()}
    for name in sorted(new):
        page_id = renamed.get(digests[name]) or _free_id(key, name, taken)
        taken.add(page_id)
        page_ids[name] = page_id
    return page_ids


def _free_id(key: str, name: str, taken: set[str]) -> str:
    """Return an id made from the name; another one where a renamed file took its id along."""
    again: list[str] = []
    while (page_id := f"{MARK}{digest(key, name, *again)[:16]}") in taken:
        again.append("again")
    return page_id


S = TypeVar("S", bound=Files | SiteSource)
SETTLED_S = 2.0
"""Seconds after which a file's times tell whether it was written to again: file systems keep them that coarsely."""


class FileSource(Generic[S]):
    """A source whose pages are files of a folder, a zip or a prefix of an object store."""

    def __init__(self, key: str, settings: S, reading: DocumentReading) -> None:
        self.key = key
        self._settings = settings
        self._reading = reading

    def fingerprint(self) -> str:
        """Return a digest of settings, names, sizes and times (in a zip: checksums): no file is opened."""
        with self._tree() as tree:
            stamps = [f"{name}:{tree.stamp(name)}" for name in tree.names]
        return digest(settings_digest(self.key, self._settings), self._reading.public_url or "", *stamps)

    @contextmanager
    def _tree(self) -> Iterator[FileTree]:
        if self._settings.path is None:
            raise SourceError(f"sources.{self.key} has no path")
        with opened_tree(self._settings.path, self.key, self._settings.max_file_bytes) as tree:
            yield tree

    def _id(self, page_id: str) -> str:
        return f"{self._settings.id_prefix}{page_id}"

    def _row_id(self, page_id: str | None, name: str) -> str:
        """Return the id of a file's row; a file without a page of its own has the id of its name."""
        return self._id(page_id or f"{MARK}{digest(self.key, name)[:16]}")


def is_unchanged(tree: FileTree, name: str, known: Known | None, began: object) -> bool:
    """Return whether a file was not written to since the last sync, judging by its size and times; the file is not
    opened. Arguments as those of `content_digest`."""
    was_settled = isinstance(began, float) and tree.touched_at(name) < began - SETTLED_S
    return known is not None and known.stamp == [tree.stamp(name)] and was_settled


def content_digest(tree: FileTree, name: str, known: Known | None, began: object) -> str | None:
    """Return the SHA-256 of a file: the known one if nothing was written since; None if it cannot be read. `began`:
    when the last sync began, in seconds since 1970; anything else: not known."""
    if known is not None and is_unchanged(tree, name, known, began):
        return known.sha256
    try:
        return hashlib.sha256(tree.read(name)).hexdigest()
    except (FileError, KeyError):
        return None


def known_files(state: Mapping[str, Any]) -> dict[str, Known]:
    """Return the files of the last sync by name; none if they were read by other rules."""
    files = state.get("files")
    if state.get("reading") != READING_VERSION or not isinstance(files, dict):
        return {}
    return {name: one for name, value in files.items() if (one := Known.load(value)) is not None}


CLOSED = "files do not say who may read them"


@dataclass(frozen=True)
class DocumentFile:
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
        return kinds.safe_name(self.name.rpartition("/")[2])


@dataclass
class DocumentPages:
    """The outcome of the documents, by row id; `now`: the new memory of them, by name."""

    files: FileTree
    before: Mapping[str, Row]
    known: Mapping[str, Known]  # by page id
    maker: RowMaker
    read: dict[tuple[str, str], Row]  # by digest and ending: what a content gave
    rows: dict[str, Row] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    now: dict[str, Known] = field(default_factory=dict)

    def take(self, document: DocumentFile) -> None:
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
        """Keep the text of a file that is unreachable now, and record the reason."""
        self.now[name] = known
        if (row := self.before.get(row_id)) is not None:
            self.rows[row_id] = row
        self.failures[row_id] = f"{shown_name(name)}: {why}; its last version stays"

    def _kept(self, facts: DocumentFacts) -> Row | None:
        row = self.before.get(facts.page_id)
        return self.maker.kept(row, facts) if row is not None else None

    def _read(self, document: DocumentFile, facts: DocumentFacts) -> list[str] | None:
        """Read a file into its row; a content that another file had is not read again. Return its outcome (`failed`,
        `excluded`) and the reason if it gives none."""
        content = (document.sha256 or "", kinds.extension_of(document.base_name))
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

    def _leave_out(self, document: DocumentFile, facts: DocumentFacts, left_out: list[str]) -> None:
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
        (one.sha256, kinds.extension_of(name.rpartition("/")[2])): row
        for name, one in known.items()
        if one.left_out is None and (row := before.get(f"{prefix}{one.page_id}"))
    }


def shown_name(name: str) -> str:
    """Return the name of a file as it may be shown: bytes that are no UTF-8 are replaced."""
    return name.encode("utf-8", "replace").decode()
