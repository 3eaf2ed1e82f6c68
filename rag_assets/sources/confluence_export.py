"""A Confluence space export: the zip that a space's administrator downloads, in XML or HTML.

HTML has neither versions, labels nor restrictions, and an administrator's export holds restricted pages, too. So its
pages are hidden unless the settings say that none of them is restricted.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from rag_assets.parsing.reader import LimitedReader
from rag_assets.sources.base import (
    Progress,
    Row,
    SourceError,
    SyncResult,
    closed_notes,
    digest,
    finish,
    rows_by_id,
    settings_digest,
)
from rag_assets.sources.confluence_dump import MAX_ARCHIVE_BYTES, opened, read_entry, unpacked
from rag_assets.sources.envelope import (
    Attached,
    Comment,
    EnvelopeError,
    Origin,
    attachment_rows,
    comments_row,
    content_hash,
    exclusion_of,
    moment_of,
    row_of,
)
from rag_assets.sources.exported_space import (
    BODIES,
    DETAILS,
    Entity,
    Envelope,
    ExportedSpace,
    entities,
    number_of,
    page_bodies,
)
from rag_assets.steps.formats.element_tree import PageError
from rag_assets.steps.formats.html import ExportedPage, page_id_in
from rag_assets.steps.readers import UNNAMED, EffectiveReaders, Grants, effective_readers, space_readers
from rag_serving.access.principals import EVERYONE, NOBODY
from rag_serving.config.sections import Documents
from rag_serving.config.sources import ConfluenceExport as Settings

INDEX = "index.html"
_FILE = re.compile(r"(?:^|/)attachments/([0-9]+)/([0-9]+)\.\w+\Z")
_EDITORS = (
    re.compile(r"last modified by (.{1,99}?) on "),
    re.compile(r"[Cc]reated by (.{1,99}?)(?:, last modified)? on "),
)
_DATE = re.compile(r"\bon ([A-Z][a-z]{2} [0-9]{2}, [0-9]{4})\s*$")


@dataclass
class HtmlReading:
    """The data in the files; pages by raw id."""

    rows: dict[str, Row] = field(default_factory=dict)
    grants: dict[str, Grants] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    attached: list[Attached] = field(default_factory=list)


def index_of(archive: zipfile.ZipFile) -> str | None:
    """Return the name of the index; the topmost if there are several."""
    indexes = [name for name in archive.namelist() if PurePosixPath(name).name == INDEX]
    return min(indexes, key=lambda name: (name.count("/"), name), default=None)


def read_html(
    archive: zipfile.ZipFile,
    index: str,
    settings: Settings,
    origin: Origin,
    progress: Progress | None,
    reader: LimitedReader,
) -> HtmlReading:
    """Return every page beside the index. A broken or missing file is a failure of its own. Raises SourceError: the
    index is not one of a Confluence export, or does not name the space."""
    folder = index.removesuffix(INDEX)
    try:
        exported = reader.exported_index(read_entry(archive, archive.getinfo(index)))
    except (EnvelopeError, PageError) as error:
        raise SourceError(f"{index}: {error}") from None
    space = settings.space or exported.key
    if space is None:
        raise SourceError(f"{INDEX} does not tell the key of the space; set the source's space")
    files = {page_id: name for name in archive.namelist() if (page_id := _page_id(name, folder))}
    if not files:
        raise SourceError("it has no page with an id in its file's name; export the space again")
    reading = HtmlReading()
    for page_id in sorted(set(exported.page_ids) - files.keys()):
        reading.failures[page_id] = f"{INDEX} names it, and its file is not in the export"
    for done, (page_id, name) in enumerate(sorted(files.items()), start=1):
        try:
            page = reader.exported_page(read_entry(archive, archive.getinfo(name)))
            reading.rows[page_id] = row = _row(page, page_id, space, settings, origin)
            reading.attached += _files_of(archive, folder, page, page_id, settings)
        except (EnvelopeError, PageError) as error:
            reading.failures[page_id] = f"{name}: {error}"
            continue
        above = tuple(one.removeprefix(settings.id_prefix) for one in row["ancestors"])
        reading.grants[page_id] = Grants(above, None)
        if progress is not None:
            progress(done, len(files))
    return reading


def _row(page: ExportedPage, page_id: str, space: str, settings: Settings, origin: Origin) -> Row:
    above = [(one or UNNAMED, title) for one, title in page.crumbs]
    match = _DATE.search(page.changed)
    try:
        moment: str | None = datetime.strptime(match[1], "%b %d, %Y").replace(tzinfo=UTC).isoformat() if match else None
    except ValueError:
        moment = None
    envelope = {
        "id": page_id,
        "title": page.title.removeprefix(f"{above[0][1]} : ") if above and above[0][1] else page.title,
        "space": {"key": space},
        "version": {"number": 1, "when": moment, "by": {"displayName": _editor(page.changed)}},
        "ancestors": [{"id": one, "title": title} for one, title in above[1:]],
        "body": {"storage": {"value": page.body}},
        "_links": {"base": settings.base_url},
    }
    row = row_of(envelope, origin)
    format_columns = {"body_format": "html", "anchor_flavor": "html"}
    return {**row, **format_columns, "content_hash": content_hash(row["title"], row["body"], "html", "html")}


def _page_id(name: str, folder: str) -> str | None:
    """Return the id of a page's file; files of folders below are no pages."""
    rest = name.removeprefix(folder)
    return page_id_in(rest) if name.startswith(folder) and "/" not in rest else None


def _editor(changed: str) -> str | None:
    """Return the author of the last change, if given in English."""
    return next((match[1] for editor in _EDITORS if (match := editor.search(changed))), None)


def _files_of(
    archive: zipfile.ZipFile, folder: str, page: ExportedPage, page_id: str, settings: Settings
) -> Iterator[Attached]:
    """Yield the files that a page lists below its text; the list alone knows their names."""
    entries: Mapping[str, zipfile.ZipInfo] = archive.NameToInfo
    for href, name in page.links:
        path = unquote(href)
        match, entry = _FILE.search(path), entries.get(folder + path)
        if match is None or entry is None or match[1] != page_id:
            continue
        yield Attached(
            id=match[2],
            page_id=f"{settings.id_prefix}{page_id}",
            name=name,
            read=partial(read_entry, archive, entry),
            size=entry.file_size,
            url=f"{settings.base_url.rstrip('/')}/download/attachments/{page_id}/{quote(name, safe='')}",
        )


def attached_files(archive: zipfile.ZipFile, space: ExportedSpace, settings: Settings) -> Iterator[Attached]:
    """Yield the files of the space's pages in their current versions; a deleted one is none."""
    for one in space.attachments:
        page_id = one.ref("containerContent", "content")
        if page_id in space.contents and one.text("contentStatus") in ("current", ""):
            name = one.text("title", "fileName")
            entry = archive.NameToInfo.get(f"attachments/{page_id}/{one.id}/{number_of(one) or 1}")
            yield Attached(
                id=one.id,
                page_id=f"{settings.id_prefix}{page_id}",
                name=name,
                read=partial(_bytes_of, archive, entry, settings.max_file_bytes),
                version=number_of(one),
                updated_at=moment_of(space.moment(one)),
                size=entry.file_size if entry else None,
                url=f"{settings.base_url.rstrip('/')}/download/attachments/{page_id}/{quote(name, safe='')}",
            )


def comment_rows(
    space: ExportedSpace, bodies: Mapping[str, str], pages: Mapping[str, Row], prefix: str
) -> dict[str, Row]:
    """Return the rows of the comments on these pages; `bodies` are theirs by id."""
    said: dict[str, list[Comment]] = defaultdict(list)
    for one in space.comments:
        if one.id in bodies and one.text("contentStatus") in ("current", ""):
            page_id = f"{prefix}{one.ref('containerContent', 'owner', 'page')}"
            said[page_id].append(Comment(one.id, bodies[one.id], number_of(one) or 1, moment_of(space.moment(one))))
    rows = (comments_row(pages[page_id], comments, prefix) for page_id, comments in said.items() if page_id in pages)
    return {row["page_id"]: row for row in rows if row}


def _bytes_of(archive: zipfile.ZipFile, entry: zipfile.ZipInfo | None, limit: int) -> bytes:
    if entry is None:
        raise EnvelopeError("it is not in the export; export the space with attachments")
    return unpacked(archive, entry, limit)


_ENTITIES = "entities.xml"
_DESCRIPTOR = "exportDescriptor.properties"


@dataclass
class _ExportContent:
    """The data in the export; pages by raw id."""

    rows: dict[str, Row] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)  # comment id -> body


@dataclass
class ConfluenceExportSource:
    """The pages of an export; the whole of it is read in each sync."""

    key: str
    settings: Settings
    reader: LimitedReader | None = None
    originals: Path | None = None

    def fingerprint(self) -> str:
        """Return a digest of the zip's directory (size and checksum of each file), and of the settings."""
        with self._archive() as archive:
            files = sorted((one.filename, one.file_size, one.CRC) for one in archive.infolist())
        return digest(settings_digest(self.key, self.settings), *map(repr, files))

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Read the objects, then the bodies of the current pages. Raises SourceError: the export is missing, truncated
        or broken, or has no pages; nothing is deleted."""
        fingerprint = self.fingerprint()
        before = rows_by_id(previous)
        with self._archive() as archive:
            if _ENTITIES not in archive.namelist():
                return self._sync_html(archive, before, fingerprint, progress)
            space, origin = self._space(archive)
            reading = self._read(archive, space, origin, progress)
            prefix = self.settings.id_prefix
            for raw_id in reading.failures:
                if kept := before.get(f"{prefix}{raw_id}"):
                    reading.rows[raw_id] = {**kept, "source": self.key, "tenant": self.settings.tenant}
                    reading.failures[raw_id] += "; its last version stays"
            effective, notes = self._readers(space)
            rows = {f"{prefix}{one}": {**row, "readers": effective.readers[one]} for one, row in reading.rows.items()}
            files = attached_files(archive, space, self.settings) if self.settings.attachments != "none" else ()
            known = before if "fingerprint" in state else {}
            attached = attachment_rows(files, rows, self.settings, known, reader=self.reader, originals=self.originals)
        comments = comment_rows(space, reading.comments, rows, prefix) if self.settings.comments else {}
        return finish(
            self.settings,
            before,
            {**rows, **attached.rows, **comments},
            seen=len(space.contents) + attached.seen + len(comments),
            excluded=[*((f"{prefix}{one}", why) for one, why in reading.excluded.items()), *attached.excluded.items()],
            failures=[*((f"{prefix}{one}", why) for one, why in reading.failures.items()), *attached.failures.items()],
            hidden=[(f"{prefix}{one}", why) for one, why in effective.hidden.items() if one in reading.rows],
            notes=notes,
            origins=effective.origins.prefixed(prefix),
            state={"fingerprint": fingerprint},
        )

    def _sync_html(
        self, archive: zipfile.ZipFile, before: Mapping[str, Row], fingerprint: str, progress: Progress | None
    ) -> SyncResult:
        settings, prefix = self.settings, self.settings.id_prefix
        origin = Origin(self.key, settings.tenant, settings.flavor, prefix, settings.base_url)
        with nullcontext(self.reader) if self.reader else LimitedReader(Documents()) as reader:
            reading = read_html(archive, index_of(archive) or INDEX, settings, origin, progress, reader)
        for raw_id in reading.failures:
            if kept := before.get(f"{prefix}{raw_id}"):
                reading.rows[raw_id] = {**kept, "source": self.key, "tenant": settings.tenant}
                above = tuple(one.removeprefix(prefix) for one in kept["ancestors"])
                reading.grants[raw_id] = Grants(above, kept["readers"])
                reading.failures[raw_id] += "; its last version stays"
        unknown = EVERYONE if settings.unrestricted else NOBODY
        effective = effective_readers(reading.grants, space_readers(settings.readers), unsaid=unknown, missing=unknown)
        rows = {f"{prefix}{one}": {**row, "readers": effective.readers[one]} for one, row in reading.rows.items()}
        files = reading.attached if settings.attachments != "none" else ()
        attached = attachment_rows(files, rows, settings, {}, reader=self.reader, originals=self.originals)
        return finish(
            settings,
            before,
            {**rows, **attached.rows},
            seen=len(reading.rows.keys() | reading.failures.keys()) + attached.seen,
            excluded=attached.excluded.items(),
            failures=[*((f"{prefix}{one}", why) for one, why in reading.failures.items()), *attached.failures.items()],
            hidden=[(f"{prefix}{one}", why) for one, why in effective.hidden.items() if one in reading.rows],
            notes=self._html_notes(),
            origins=effective.origins.prefixed(prefix),
            state={"fingerprint": fingerprint},
        )

    def _html_notes(self) -> list[str]:
        notes = closed_notes(self.settings, self.key, "HTML does not say who may read the space")
        if not self.settings.unrestricted:
            notes.append(
                "HTML does not say which pages are restricted, so all are hidden; export the space as XML, or, if none "
                f"of them is restricted, set sources.{self.key}.unrestricted to true"
            )
        if self.settings.comments:
            notes.append("comments are read from XML only; export the space as XML")
        return notes

    def _space(self, archive: zipfile.ZipFile) -> tuple[ExportedSpace, Origin]:
        descriptor = _descriptor(archive)
        settings = self.settings
        try:
            zone = ZoneInfo(descriptor.get("timezoneId", "") or "UTC")
        except (ValueError, OSError, ZoneInfoNotFoundError):
            zone = ZoneInfo("UTC")
        space = ExportedSpace(settings.base_url, zone)
        space.read(_objects(archive, DETAILS)).keep_only(settings.space)
        cloud = settings.flavor == "auto" and descriptor.get("source") == "cloud"
        flavor = "cloud" if cloud else settings.flavor
        return space, Origin(self.key, settings.tenant, flavor, settings.id_prefix, settings.base_url)

    def _read(
        self, archive: zipfile.ZipFile, space: ExportedSpace, origin: Origin, progress: Progress | None
    ) -> _ExportContent:
        reading = _ExportContent()
        current, seen_ids = set(), set()
        for page_id, content in space.contents.items():
            try:
                excluded = exclusion_of(space.envelope(content))
            except EnvelopeError as error:
                reading.failures[page_id] = str(error)
                continue
            if excluded:
                reading.excluded[page_id] = excluded
            else:
                current.add(page_id)
                reading.failures[page_id] = "its body is not in the export; export the space again"
        for page_id, body in page_bodies(_objects(archive, BODIES), space):
            seen_ids.add(page_id)
            if page_id in current:
                self._take(space.envelope(space.contents[page_id], body), body, origin, reading)
                if progress is not None:
                    progress(len(reading.rows), len(current))
            elif page_id not in space.contents and body is not None:
                reading.comments[page_id] = body
        for page_id in current & reading.failures.keys() - seen_ids:  # an empty page has no body, and names none
            if not space.contents[page_id].lists.get("bodyContents"):
                self._take(space.envelope(space.contents[page_id], ""), "", origin, reading)
        return reading

    def _take(self, envelope: Envelope, body: str | None, origin: Origin, reading: _ExportContent) -> None:
        """A page with one of its bodies; an app may have stored others beside the one in storage format."""
        page_id = envelope["id"]
        if page_id in reading.rows:
            return
        try:
            if body is None:
                raise EnvelopeError("its body is not in storage format; edit the page in Confluence 4 or later")
            reading.rows[page_id] = row_of(envelope, origin)
            del reading.failures[page_id]
        except EnvelopeError as error:
            reading.failures[page_id] = str(error)

    def _readers(self, space: ExportedSpace) -> tuple[EffectiveReaders, list[str]]:
        readers = space_readers(self.settings.readers, space.permissions())
        notes = closed_notes(self.settings, self.key, "the export names nobody who may view the space")
        grants = {page_id: space.grants(content) for page_id, content in space.contents.items()}
        return effective_readers(grants, readers, unsaid=EVERYONE, missing=NOBODY), notes if readers == NOBODY else []

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        path = self.settings.path
        if not path.is_file():
            raise SourceError(f"export {path} does not exist; set the source's path to the zip of a space export")
        with opened(path, "export") as archive:
            try:
                if _ENTITIES not in archive.namelist() and index_of(archive) is None:
                    raise SourceError(f"it has neither {_ENTITIES} nor {INDEX}; export the space as XML")
                yield archive
            except SourceError as error:
                raise SourceError(f"export {path}: {error}") from None


def _objects(archive: zipfile.ZipFile, kinds: Collection[str]) -> Iterator[Entity]:
    if archive.getinfo(_ENTITIES).file_size > MAX_ARCHIVE_BYTES:
        raise SourceError(f"{_ENTITIES} unpacks to more than {MAX_ARCHIVE_BYTES} bytes")
    try:
        with archive.open(_ENTITIES) as stream:
            yield from entities(stream, kinds)
    except (OSError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise SourceError(f"{_ENTITIES} cannot be unpacked ({error}); export the space again") from None


def _descriptor(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return the export's own note of where and how it was made: `name=value` lines."""
    try:
        with archive.open(_DESCRIPTOR) as stream:
            lines = stream.read(64 * 1024).decode("utf-8", "replace").splitlines()
    except (KeyError, OSError, RuntimeError, zipfile.BadZipFile):
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}
