"""One REST v1 content envelope as a row of PAGES; files and comments of pages as rows of their own, whose text is
searched, cited and guarded like a page's.

Comments are no part of the page's body: a comment makes no version of its page, and a citation of a page version must
stay true whatever later comments say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from rag_assets.parsing.reader import LimitedReader
from rag_assets.sources.base import COMMENTS_MARK, MARK, OriginalFacts, Row, SourceError, digest, is_kept, keep_original
from rag_assets.steps.files.file_text import FileError
from rag_assets.steps.files.records import needs
from rag_assets.steps.readers import UNNAMED
from rag_serving.access.principals import NOBODY
from rag_serving.config.sections import Documents
from rag_serving.config.sources import AttachmentSource, SourceBase
from rag_serving.documents.kinds import TEXT_KINDS, Kind, KindError, kind_by_name, kind_in
from rag_serving.escaping.redaction import RedactedError

Flavor = Literal["auto", "cloud", "datacenter"]

_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")  # no colon: chunk ids are `page:version:index`
_SURROGATES = re.compile("[\ud800-\udfff]")
_UNSAFE_IN_URL = re.compile(r"""[\s"<>\\^`{|}\x00-\x1f\x7f]""")
_SPACE_ADDRESS = re.compile(r"/rest/api/space/([^/?#]+)")
_CLOUD_PATH = re.compile(r"/spaces/[^/]+/(pages|blog)/\d+")
_MAX_VERSION = 2**31 - 1


class EnvelopeError(RedactedError):
    """This one page cannot be read; the message says why."""


@dataclass(frozen=True)
class Origin:
    """A row's fields from its source rather than from the envelope."""

    source: str
    tenant: str
    flavor: Flavor = "auto"
    id_prefix: str = ""
    base_url: str | None = None  # of pages that do not name their site


def load_envelope(content: bytes) -> dict[str, Any]:
    """Return a file's bytes as an envelope. Raises EnvelopeError: they are not one JSON object in UTF-8."""
    if not content.strip():
        raise EnvelopeError("the file is empty")
    try:
        envelope = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise EnvelopeError(f"the file is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        cut = ", the file ends too early" if error.pos >= len(error.doc.rstrip()) - 1 else ""
        raise EnvelopeError(f"not valid JSON: {error.msg} in line {error.lineno}{cut}; export the page again") from None
    except (ValueError, RecursionError) as error:
        raise EnvelopeError(f"not usable JSON: {error}") from None
    if not isinstance(envelope, dict):
        raise EnvelopeError(f"not a page envelope but a JSON {type(envelope).__name__}")
    return envelope


def page_id_of(envelope: Mapping[str, Any], id_prefix: str = "") -> str:
    """Return the page's id with the source's prefix. Raises EnvelopeError: there is none, or it could not be part of a
    chunk id."""
    identifier = envelope.get("id")
    text = str(identifier) if isinstance(identifier, str | int) and not isinstance(identifier, bool) else ""
    if not _ID.fullmatch(text):
        raise EnvelopeError("not a page envelope: no id" if not text else f"id {text[:40]!r} is not a page id")
    return id_prefix + text


def version_of(envelope: Mapping[str, Any]) -> int:
    """Return the page's version number. Raises EnvelopeError: there is none."""
    number = _member(envelope, "version").get("number")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= _MAX_VERSION:
        raise EnvelopeError("version.number is missing or is not a positive number")
    return number


def exclusion_of(
    envelope: Mapping[str, Any], types: Sequence[str] = ("page",), statuses: Sequence[str] = ("current",)
) -> str | None:
    """Return why a readable envelope is no page to index, or None; blog posts and archived pages are indexed by option.
    Raises EnvelopeError: type or status is missing."""
    kind, status = _string(envelope, "type"), _string(envelope, "status")
    if kind not in types:
        return f"its type is {kind!r}, not {' or '.join(map(repr, types))}"
    return None if status in statuses else f"its status is {status!r}, not {' or '.join(map(repr, statuses))}"


def space_keys(entry: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys by which an entry names its space (Cloud: key and alias), case-folded; empty if it names none.
    Keys of one site differ in more than case. A space that was not expanded is still named by its REST address."""
    space, expandable = entry.get("space"), entry.get("_expandable")
    if isinstance(space, dict):
        names = [space.get("key"), space.get("alias")]
    else:
        address = expandable.get("space") if isinstance(expandable, dict) else None
        match = _SPACE_ADDRESS.search(address) if isinstance(address, str) else None
        names = [unquote(match[1])] if match else []
    return frozenset(name.casefold() for name in names if isinstance(name, str) and name)


def foreign_space(keys: frozenset[str], space: str) -> str | None:
    """Return why a page that names its space by these keys is not one of `space`; None if it is, or names none."""
    if not keys or space.casefold() in keys:
        return None
    return f"it belongs to space {' or '.join(map(repr, sorted(keys)))}, not {space!r}"


def row_of(envelope: Mapping[str, Any], origin: Origin) -> Row:
    """Return the row of PAGES; its readers are nobody until all pages of the source are known. Raises EnvelopeError: a
    field is missing or of a wrong type."""
    page_id, version = page_id_of(envelope, origin.id_prefix), version_of(envelope)
    title, space = _string(envelope, "title"), _string(_member(envelope, "space"), "key")
    body = _member(_member(envelope, "body"), "storage").get("value")
    if not isinstance(body, str):
        raise EnvelopeError("body.storage.value is missing: export with expand=body.storage")
    body = _clean(body)
    ancestors = envelope.get("ancestors", [])
    if not isinstance(ancestors, list) or not all(isinstance(entry, dict) for entry in ancestors):
        raise EnvelopeError("ancestors is not a list of objects")
    url, flavor = _address(envelope, space, origin)
    name = _member(envelope, "space").get("name")
    user = _member(envelope, "version").get("by")
    told = user if isinstance(user, dict) else {}
    names = (told.get(name) for name in ("displayName", "publicName", "username"))
    return {
        "source": origin.source,
        "tenant": origin.tenant,
        "page_id": page_id,
        "version": version,
        "space": space,
        "title": title,
        "url": url,
        "status": _string(envelope, "status") if "status" in envelope else "current",
        "updated_at": _moment(_member(envelope, "version").get("when")),
        "labels": _labels(envelope),
        "ancestors": [page_id_of(one, origin.id_prefix) if one.get("id") else UNNAMED for one in ancestors],
        "ancestor_titles": [_clean(str(ancestor.get("title") or "")) for ancestor in ancestors],
        "position": _position(envelope),
        "readers": NOBODY,
        "body": body,
        "body_format": "storage",
        "anchor_flavor": flavor,
        "content_hash": content_hash(title, body, "storage", flavor),
        "original": None,
        "author": next((_clean(name) for name in names if isinstance(name, str) and name.strip()), None),
        "space_name": _clean(name) if isinstance(name, str) and name.strip() else None,
    }


def content_hash(title: str, body: str, body_format: str, anchor_flavor: str, original: str | None = None) -> str:
    """Return a digest of all that a page's sections depend on. `original`: digest of the file that is kept of it."""
    return digest(title, body, body_format, anchor_flavor, *([original] if original else []))


def _address(envelope: Mapping[str, Any], space: str, origin: Origin) -> tuple[str, str]:
    """Return the page's address without an anchor, and the flavor of its anchors."""
    raw = envelope.get("id")
    links = envelope.get("_links")
    links = links if isinstance(links, dict) else {}
    base = _base(links, origin.base_url)
    webui = links.get("webui")
    path = _clean(webui).partition("#")[0] if isinstance(webui, str) and webui.startswith("/") else ""
    flavor = origin.flavor if origin.flavor != "auto" else _guess_flavor(base, path)
    built = f"/spaces/{space}/pages/{raw}" if flavor == "cloud" else f"/pages/viewpage.action?pageId={raw}"
    return _UNSAFE_IN_URL.sub(lambda match: f"%{ord(match[0]):02X}", base + (path or built)), flavor


def _base(links: Mapping[str, Any], fallback: str | None) -> str:
    """Return the site's address; only http(s), because it becomes a link that people follow."""
    own = links.get("self")
    for base in (links.get("base"), own.partition("/rest/api/")[0] if isinstance(own, str) else None, fallback):
        if isinstance(base, str) and _is_site(base):
            return _clean(base).rstrip("/")
    raise EnvelopeError("_links.base is missing: the page has no address")


def _is_site(base: str) -> bool:
    try:
        parts = urlsplit(base)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not _UNSAFE_IN_URL.search(base)


def _guess_flavor(base: str, path: str) -> str:
    if (urlsplit(base).hostname or "").endswith(".atlassian.net"):
        return "cloud"
    return "cloud" if _CLOUD_PATH.match(path) else "datacenter"


def _labels(envelope: Mapping[str, Any]) -> list[str]:
    """Return names of the labels that all see: `my` ones are one user's private bookmarks."""
    metadata = envelope.get("metadata")
    collection = metadata.get("labels") if isinstance(metadata, dict) else None
    results = collection.get("results") if isinstance(collection, dict) else None
    entries = [entry for entry in results if isinstance(entry, dict)] if isinstance(results, list) else []
    names = {entry.get("name") for entry in entries if entry.get("prefix") != "my"}
    return sorted(_clean(name) for name in names if isinstance(name, str) and name)


def _position(envelope: Mapping[str, Any]) -> int | None:
    """Return the page's position among its siblings; the site says "none" if nobody arranged them."""
    extensions = envelope.get("extensions")
    position = extensions.get("position") if isinstance(extensions, dict) else None
    if not isinstance(position, int) or isinstance(position, bool) or abs(position) > _MAX_VERSION:
        return None
    return position


def _moment(when: object) -> datetime | None:
    """`version.when` to the millisecond, in UTC; a page without it is still a page."""
    if when is None:
        return None
    try:
        moment = datetime.fromisoformat(when) if isinstance(when, str) else None
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC) if moment else None
    except (ValueError, OverflowError):
        moment = None
    if moment is None:
        raise EnvelopeError("version.when is not a date")
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _member(mapping: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    member = mapping.get(key)
    if not isinstance(member, dict):
        raise EnvelopeError(f"{key} is missing or is not an object")
    return member


def _string(mapping: Mapping[str, Any], key: str) -> str:
    text = mapping.get(key)
    if not isinstance(text, str) or not text.strip():
        raise EnvelopeError(f"{key} is missing or is not a text")
    return _clean(text)


def _clean(text: str) -> str:
    """Return text that can be written as UTF-8: JSON may escape half a surrogate pair."""
    return _SURROGATES.sub("\ufffd", text)


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
