"""A Confluence space export: the zip that a space's administrator downloads, in XML or HTML.

Belongs here: the zip, and what an export means as a whole: which pages are current, and who may read them.
Does not belong here: the objects in it (`entities_xml`, `space`), HTML files (`html`), envelopes
(`envelope`).
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from rag_assets.parsing.reader import LimitedReader
from rag_assets.sources.attachments import attachment_rows
from rag_assets.sources.base import Progress, Row, SourceError, SyncResult, digest, finish, rows_by_id, settings_digest
from rag_assets.sources.confluence_export.entities_xml import Entity, entities
from rag_assets.sources.confluence_export.files import attached_files, comment_rows
from rag_assets.sources.confluence_export.html import INDEX, index_of, read_html
from rag_assets.sources.confluence_export.space import BODIES, DETAILS, Envelope, ExportedSpace, page_bodies
from rag_assets.sources.dump_files import MAX_ARCHIVE_BYTES, opened
from rag_assets.sources.envelope import EnvelopeError, Origin, exclusion_of, row_of
from rag_assets.steps.readers.readers import EffectiveReaders, Grants, effective_readers, space_readers
from rag_serving.access.principals import EVERYONE, NOBODY
from rag_serving.config.documents import Documents
from rag_serving.config.sources import ConfluenceExport as Settings

_ENTITIES = "entities.xml"
_DESCRIPTOR = "exportDescriptor.properties"


@dataclass
class _Reading:
    """What the export said; pages by raw id."""

    rows: dict[str, Row] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)  # comment id -> body


class ConfluenceExport:
    """The pages of an export; the whole of it is read in each sync."""

    def __init__(
        self, key: str, settings: Settings, reader: LimitedReader | None = None, originals: Path | None = None
    ) -> None:
        self.key = key
        self._settings = settings
        self._reader = reader
        self._originals = originals

    def fingerprint(self) -> str:
        """Return a digest of what the zip's directory says of each file (size and checksum), and of the settings."""
        with self._archive() as archive:
            files = sorted((one.filename, one.file_size, one.CRC) for one in archive.infolist())
        return digest(settings_digest(self.key, self._settings), *map(repr, files))

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Read the objects, then the bodies of the pages that are current.

        Raises:
            SourceError: the export is not there, is cut or broken, or holds no pages; nothing is deleted.
        """
        fingerprint = self.fingerprint()
        before = rows_by_id(previous)
        with self._archive() as archive:
            if _ENTITIES not in archive.namelist():
                return self._sync_html(archive, before, fingerprint, progress)
            space, origin = self._space(archive)
            reading = self._read(archive, space, origin, progress)
            prefix = self._settings.id_prefix
            for raw_id in reading.failures:
                if kept := before.get(f"{prefix}{raw_id}"):
                    reading.rows[raw_id] = {**kept, "source": self.key, "tenant": self._settings.tenant}
                    reading.failures[raw_id] += "; its last version stays"
            effective, notes = self._readers(space)
            rows = {f"{prefix}{one}": {**row, "readers": effective.readers[one]} for one, row in reading.rows.items()}
            files = attached_files(archive, space, self._settings) if self._settings.attachments != "none" else ()
            known = before if "fingerprint" in state else {}
            attached = attachment_rows(
                files, rows, self._settings, known, reader=self._reader, originals=self._originals
            )
        comments = comment_rows(space, reading.comments, rows, prefix) if self._settings.comments else {}
        return finish(
            self._settings,
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
        settings, prefix = self._settings, self._settings.id_prefix
        origin = Origin(self.key, settings.tenant, settings.flavor, prefix, settings.base_url)
        with nullcontext(self._reader) if self._reader else LimitedReader(Documents()) as reader:
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
        attached = attachment_rows(files, rows, settings, {}, reader=self._reader, originals=self._originals)
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
        where, notes = f"sources.{self.key}", []
        if self._settings.readers == "from_source":
            notes.append(
                "HTML does not say who may read the space, so nobody can read it; "
                f"set {where}.readers to everyone or to a list of group:NAME and user:NAME"
            )
        if not self._settings.unrestricted:
            notes.append(
                "HTML does not say which pages are restricted, so all are hidden; export the space as XML, or, if none "
                f"of them is restricted, set {where}.unrestricted to true"
            )
        if self._settings.comments:
            notes.append("comments are read from XML only; export the space as XML")
        return notes

    def _space(self, archive: zipfile.ZipFile) -> tuple[ExportedSpace, Origin]:
        descriptor = _descriptor(archive)
        settings = self._settings
        space = ExportedSpace(settings.base_url, _zone(descriptor.get("timezoneId", "")))
        space.read(_objects(archive, DETAILS)).keep_only(settings.space)
        cloud = settings.flavor == "auto" and descriptor.get("source") == "cloud"
        flavor = "cloud" if cloud else settings.flavor
        return space, Origin(self.key, settings.tenant, flavor, settings.id_prefix, settings.base_url)

    def _read(
        self, archive: zipfile.ZipFile, space: ExportedSpace, origin: Origin, progress: Progress | None
    ) -> _Reading:
        reading = _Reading()
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

    def _take(self, envelope: Envelope, body: str | None, origin: Origin, reading: _Reading) -> None:
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
        setting = self._settings.readers
        readers = space_readers(setting, space.permissions())
        notes = []
        if readers == NOBODY and setting == "from_source":
            notes.append(
                f"the export names nobody who may view the space, so nobody can read source {self.key!r}; "
                f"set sources.{self.key}.readers to everyone or to a list of group:NAME and user:NAME"
            )
        grants = {page_id: space.grants(content) for page_id, content in space.contents.items()}
        return effective_readers(grants, readers, unsaid=EVERYONE, missing=NOBODY), notes

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        path = self._settings.path
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


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return ZoneInfo("UTC")
