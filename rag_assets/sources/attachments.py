"""Files and comments of pages, as rows of PAGES: their text is searched, cited and guarded like a page's.

Comments have a row of their own and are no part of the page's body: a comment makes no version of its page, and a
citation of a page version must stay true whatever later comments say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from rag_assets.parsing.reader import LimitedReader
from rag_assets.sources.base import COMMENTS_MARK, MARK, OriginalFacts, Row, SourceError, is_kept, keep_original
from rag_assets.sources.envelope import EnvelopeError, content_hash
from rag_assets.steps.files.file_text import FileError
from rag_assets.steps.files.records import needs
from rag_serving.config.sections import Documents
from rag_serving.config.sources import AttachmentSource, SourceBase
from rag_serving.documents.kinds import TEXT_KINDS, Kind, KindError, kind_by_name, kind_in

NOTHING: Mapping[str, Textless] = MappingProxyType({})
_OF_FILES = ("files",)


@dataclass(frozen=True)
class Attached:
    """A file of a page, before anybody has looked into it."""

    id: str  # unique in the source, without MARK
    page_id: str  # with the source's prefix
    name: str
    read: Callable[[], bytes]  # raises EnvelopeError
    version: int | None = None  # None: not known, so it is read in each sync
    updated_at: datetime | None = None
    size: int | None = None
    url: str | None = None  # None: the page's


Textless = list[str | int]
"""Of a file that was read and gave no text: version, name, and why. The next sync need not read it again."""


@dataclass
class AttachmentRows:
    """The outcome of the files: each is in one of the three, by page id."""

    rows: dict[str, Row] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    textless: dict[str, Textless] = field(default_factory=dict)  # of the excluded, what had to be read for that

    @property
    def seen(self) -> int:
        """The number of files; a failed one may have kept its row."""
        return len(self.rows.keys() | self.excluded.keys() | self.failures.keys())


def attachment_rows(
    attachments: Iterable[Attached],
    pages: Mapping[str, Row],
    settings: AttachmentSource,
    before: Mapping[str, Row],
    textless: Mapping[str, Textless] = NOTHING,
    reader: LimitedReader | None = None,
    originals: Path | None = None,
) -> AttachmentRows:
    """Return the rows of files whose page is among `pages` (by id, with their readers), under the page's readers.
    `before`: rows of the last sync that may be used again where the version is the same, `textless`: what that sync
    says of files without text; `originals`: folder for the files that serving renders (PDF), None: none is stored.
    Raises SourceError: PDFs are to be read, and their reader is not installed."""
    with nullcontext(reader) if reader else LimitedReader(Documents()) as reading:
        return _rows_of(attachments, pages, before, textless, _FileReader(settings, reading, originals))


def _rows_of(
    attachments: Iterable[Attached],
    pages: Mapping[str, Row],
    before: Mapping[str, Row],
    textless: Mapping[str, Textless],
    files: _FileReader,
) -> AttachmentRows:
    settings, reader = files.settings, files.reader
    result = AttachmentRows()
    for one in attachments:
        page = pages.get(one.page_id)
        if page is None:
            continue
        row_id = f"{settings.id_prefix}{MARK}{one.id}"
        if reason := _unwanted(one, settings):
            result.excluded[row_id] = f"{one.name} of page {one.page_id}: {reason}"
            continue
        known = textless.get(row_id)
        if known and known[:-1] == [one.version, one.name] and not reader.is_past(str(known[-1])):
            result.textless[row_id] = known
            result.excluded[row_id] = f"{one.name} of page {one.page_id}: {known[-1]}"
            continue
        try:
            result.rows[row_id] = _row(row_id, one, page, before.get(row_id), files)
        except FileError as error:
            result.excluded[row_id] = f"{one.name} of page {one.page_id}: {error}"
            if one.version is not None:
                result.textless[row_id] = [one.version, one.name, str(error)]
        except EnvelopeError as error:
            result.failures[row_id] = f"{one.name} of page {one.page_id}: {error}"
            if kept := before.get(row_id):
                result.rows[row_id] = kept_row(kept, page)
                result.failures[row_id] += "; its last version stays"
        except ImportError as error:
            raise SourceError(f"{needs(error)}, or set attachments to text") from None
    return result


def kept_row(row: Row, page: Row) -> Row:
    """Return the unchanged row of an attachment or comments, under the present readers of its page."""
    own = ("page_id", "version", "title", "url", "updated_at", "body", "body_format", "content_hash", "original")
    return {**beside(page), **{name: row[name] for name in own}}


def page_kind(page_id: str, settings: SourceBase) -> str:
    """Return the kind of a row of PAGES: page, comments, attachment, or document (a file without a page)."""
    if getattr(settings, "kind", "") in _OF_FILES:
        return "document"
    own = page_id.removeprefix(settings.id_prefix)
    return "attachment" if own.startswith(MARK) else "comments" if own.startswith(COMMENTS_MARK) else "page"


def _unwanted(one: Attached, settings: AttachmentSource) -> str | None:
    kind = kind_by_name(one.name)
    if kind is None or kind == "image":
        return "files of this type are not read"
    if kind not in TEXT_KINDS and settings.attachments != "all":
        return f"{'PDF' if kind == 'pdf' else 'such'} files are read with attachments: all"
    if one.size is not None and one.size > settings.max_file_bytes:
        return f"it is larger than {settings.max_file_bytes} bytes"
    return None


@dataclass(frozen=True)
class _FileReader:
    """The reader of files, its selection, and the folder of originals for rendering."""

    settings: AttachmentSource
    reader: LimitedReader
    originals: Path | None

    def kept_text(self, one: Attached, before: Row | None) -> _FileText | None:
        """Return the text of the last sync, if file and limits are the same and its original is still stored. Its page
        may have another title since."""
        if before is None or one.version is None or before["version"] != one.version:
            return None
        named = before["title"].startswith(f"{one.name} (attachment of ")
        is_past = self.reader.is_outdated(before["body"], before["body_format"])
        original = before["original"]
        if self.originals and (original is not None or kind_by_name(one.name) in _RENDERED):
            named = named and original is not None and is_kept(self.originals, original)
        return _FileText(before["body"], before["body_format"], original) if named and not is_past else None

    def text(self, one: Attached) -> _FileText:
        """Read a file. Raises FileError: it has no text that can be read. Raises EnvelopeError: its bytes cannot be
        had."""
        content = one.read()
        if len(content) > self.settings.max_file_bytes:
            raise FileError(f"it is larger than {self.settings.max_file_bytes} bytes")
        document = self.reader.document(one.name, content)
        read = document.text
        if not read.body.strip():
            raise FileError("it is empty")
        try:
            kind: Kind | None = kind_in(one.name, content)
        except KindError:
            kind = None
        media_type = _RENDERED.get(kind)
        original = None
        if self.originals and media_type:
            original = keep_original(
                self.originals, document.content, media_type, read.page_count, document.received_sha256
            )
        return _FileText(read.body, read.body_format, original)


class _FileText(NamedTuple):
    """The text of a file, and what is kept of it."""

    body: str
    body_format: str
    original: OriginalFacts | None


_RENDERED: Mapping[Kind | None, str] = MappingProxyType({"pdf": "application/pdf"})
"""Media types of the kinds of file that serving renders, so that their originals are kept."""


def _row(row_id: str, one: Attached, page: Row, before: Row | None, files: _FileReader) -> Row:
    row = {
        **beside(page),
        "page_id": row_id,
        "version": one.version or 1,
        "title": f"{one.name} (attachment of {page['title']})",
        "url": one.url or page["url"],
        "updated_at": one.updated_at or page["updated_at"],
    }
    body, body_format, original = files.kept_text(one, before) or files.text(one)
    sha256 = original["sha256"] if original else None
    digest = content_hash(row["title"], body, body_format, row["anchor_flavor"], sha256)
    return {**row, "body": body, "body_format": body_format, "content_hash": digest, "original": original}


def beside(page: Row) -> Row:
    """Return the fields of a row that come from its page: its readers above all."""
    return {
        **page,
        "anchor_flavor": "html",  # no heading of the page is above it: links lead to the top, or to its own target
        "ancestors": [*page["ancestors"], page["page_id"]],
        "ancestor_titles": [*page["ancestor_titles"], page["title"]],
        "position": None,
        "original": None,
        "author": None,
    }


@dataclass(frozen=True)
class Comment:
    """One comment in its current version."""

    id: str
    body: str  # storage format
    version: int
    updated_at: datetime | None


def comments_row(page: Row, comments: Sequence[Comment], id_prefix: str) -> Row | None:
    """Return the row of a page's comments, oldest first; None if there are none. Its version is the sum of theirs, so
    that it grows with each comment and each edit."""
    said = sorted(comments, key=lambda one: (one.updated_at or datetime.min.replace(tzinfo=UTC), one.id))
    body = "".join(f"<div>{one.body}</div>" for one in said if one.body.strip())
    if not body:
        return None
    title = f"Comments on {page['title']}"
    row = beside(page)
    return {
        **row,
        "page_id": comments_id(page, id_prefix),
        "version": sum(one.version for one in said),
        "title": title,
        "updated_at": said[-1].updated_at or page["updated_at"],
        "body": body,
        "body_format": "storage",
        "content_hash": content_hash(title, body, "storage", row["anchor_flavor"]),
    }


def comments_id(page: Row, id_prefix: str) -> str:
    """Return the id of the row of a page's comments."""
    return f"{id_prefix}{COMMENTS_MARK}{page['page_id'].removeprefix(id_prefix)}"


def unchanged_comments(page: Row, before: Row) -> Row:
    """Return the row of comments that are the same, below a page that may have changed."""
    row = beside(page)
    title = f"Comments on {page['title']}"
    columns = {name: before[name] for name in ("page_id", "version", "updated_at", "body", "body_format")}
    return {**row, **columns, "title": title, "content_hash": content_hash(title, before["body"], "storage", "html")}


def moment_of(when: object) -> datetime | None:
    """Return an ISO 8601 date with its zone, to the millisecond, in UTC; None for anything else."""
    try:
        moment = datetime.fromisoformat(when).astimezone(UTC) if isinstance(when, str) else None
    except (ValueError, OverflowError):
        return None
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000) if moment else None
