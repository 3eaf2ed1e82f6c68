"""A Confluence dump: a folder or zip of REST v1 page envelopes, one JSON file a page."""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

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
from rag_assets.sources.envelope import (
    Attached,
    EnvelopeError,
    Origin,
    attachment_rows,
    exclusion_of,
    load_envelope,
    page_id_of,
    row_of,
    version_of,
)
from rag_assets.steps.readers import EffectiveReaders, Grants, effective_readers, grants_of, space_readers
from rag_serving.access.principals import EVERYONE, NOBODY
from rag_serving.config.sources import ConfluenceDump as Settings

_ATTACHMENTS = "attachments"
MAX_FILE_BYTES = 32 * 1024**2
MAX_ARCHIVE_BYTES = 8 * 1024**3
"""Unpacked; a dump of 100,000 pages of ordinary size is 3 GiB."""


@dataclass(frozen=True)
class DumpFile:
    """A file by its name in the dump; `read` raises EnvelopeError if its bytes cannot be had."""

    name: str
    read: Callable[[], bytes]


@dataclass(frozen=True)
class DumpFiles:
    """The contents of a dump, by name: envelopes, and files attached to pages."""

    envelopes: list[DumpFile]
    attached: list[DumpFile]


@contextmanager
def dump_files(path: Path) -> Iterator[DumpFiles]:
    """Yield the files of a folder or zip, readable inside the block. Raises SourceError: there is no such dump, or no
    envelope in it."""
    if path.is_dir():
        yield _sorted(_folder_files(path), path)
    elif path.is_file():
        with opened(path, "dump") as archive:
            entries = {entry.filename: entry for entry in archive.infolist() if not entry.is_dir()}
            if sum(entry.file_size for entry in entries.values()) > MAX_ARCHIVE_BYTES:
                raise SourceError(
                    f"dump {path} unpacks to more than {MAX_ARCHIVE_BYTES} bytes; split it into several sources"
                )
            yield _sorted(
                [DumpFile(name, partial(read_entry, archive, entry)) for name, entry in entries.items()], path
            )
    else:
        raise SourceError(f"dump {path} does not exist; set the source's path to a folder or zip of page envelopes")


def attached_to(name: str) -> tuple[str, str] | None:
    """Return the page id and the file's name below it of `…/attachments/<page id>/<name>`; None for other files."""
    parts = PurePosixPath(name).parts
    at = parts.index(_ATTACHMENTS) if _ATTACHMENTS in parts else len(parts)
    return (parts[at + 1], "/".join(parts[at + 2 :])) if len(parts) > at + 2 else None


def _sorted(files: list[DumpFile], path: Path) -> DumpFiles:
    """Return the sorted files; an empty dump is a mistake in the path or a copy under way, not a space whose pages were
    all deleted."""
    files = sorted((file for file in files if not _is_hidden(file.name)), key=lambda file: file.name)
    attached = [file for file in files if attached_to(file.name)]
    envelopes = [file for file in files if file.name.lower().endswith(".json") and not attached_to(file.name)]
    if not envelopes:
        raise SourceError(f"dump {path} holds no *.json file; set the source's path to the folder or zip of envelopes")
    return DumpFiles(envelopes, attached)


def _folder_files(path: Path) -> list[DumpFile]:
    files = (Path(folder, name) for folder, _, names in os.walk(path, onerror=_unreadable) for name in names)
    return [
        DumpFile(file.relative_to(path).as_posix(), partial(_read_file, path, file)) for file in files if file.is_file()
    ]


def _unreadable(error: OSError) -> NoReturn:
    """A folder that cannot be listed hides pages that are still there."""
    raise SourceError(f"dump {error.filename} cannot be read ({error.strerror}); check its permissions")


def _read_file(dump: Path, file: Path) -> bytes:
    """Return a file of the folder; a link may lead to another file in it, not out of it."""
    try:
        if not file.resolve().is_relative_to(dump.resolve()):
            raise EnvelopeError("the file is a link that leads out of the dump")
        with file.open("rb") as stream:
            return _within_limit(stream.read(MAX_FILE_BYTES + 1))
    except OSError as error:
        raise EnvelopeError(f"the file cannot be read: {error.strerror}") from None


def opened(path: Path, what: str) -> zipfile.ZipFile:
    """Return a zip file; raises SourceError, which calls it `what`, if it is none."""
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise SourceError(f"{what} {path} is not a readable zip file ({error}); export it again") from None


def read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a file in a zip; raises EnvelopeError if they cannot be had, or are more than
    MAX_FILE_BYTES."""
    return _within_limit(unpacked(archive, entry, MAX_FILE_BYTES))


def unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limit: int) -> bytes:
    """Return the bytes of a file in a zip, one more than the limit at most: the zip's sizes need not be true. Raises
    EnvelopeError: they cannot be had."""
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise EnvelopeError("the file is a link")
    try:
        with archive.open(entry) as stream:
            return stream.read(limit + 1)
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise EnvelopeError(f"the file cannot be unpacked: {error}") from None


def _within_limit(content: bytes) -> bytes:
    if len(content) > MAX_FILE_BYTES:
        raise EnvelopeError(f"the file is larger than {MAX_FILE_BYTES} bytes")
    return content


def _is_hidden(name: str) -> bool:
    """Return one of the companions that some systems add (`__MACOSX/._1.json`)."""
    return any(part == "__MACOSX" or (part.startswith(".") and part != "..") for part in PurePosixPath(name).parts)


@dataclass
class _DumpContent:
    rows: dict[str, Row] = field(default_factory=dict)
    grants: dict[str, Grants] = field(default_factory=dict)
    newest: dict[str, tuple[int, str]] = field(default_factory=dict)  # page id -> version, file name
    excluded: dict[str, str] = field(default_factory=dict)
    repeated: list[tuple[str, str]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)  # file name -> reason
    files: dict[str, str] = field(default_factory=dict)  # file name -> page id
    digests: list[str] = field(default_factory=list)
    carries_restrictions: bool = False

    def seen(self, failures: Mapping[str, str]) -> int:
        """Return how many pages the dump lists; a further copy of a page counts, because it is excluded or failed as
        such."""
        return len(self.rows.keys() | self.excluded.keys() | failures.keys()) + len(self.repeated)


class ConfluenceDumpSource:
    """Pages of a dump; the whole of it is read in each sync."""

    def __init__(
        self, key: str, settings: Settings, reader: LimitedReader | None = None, originals: Path | None = None
    ) -> None:
        self.key = key
        self._settings = settings
        self._reader = reader
        self._originals = originals
        self._origin = Origin(key, settings.tenant, settings.flavor, settings.id_prefix)

    def fingerprint(self) -> str:
        """Return a digest of names, contents and settings: times would miss writes within one clock tick. 300 pages
        take about 20 ms, unpacked."""
        with dump_files(self._settings.path) as files:
            return self._fingerprint([_file_digest(file.name, _content(file)) for file in self._wanted(files)])

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Read all files; one that cannot be read is a failure of its page alone."""
        reading = _DumpContent()
        before = rows_by_id(previous)
        with dump_files(self._settings.path) as files:
            for done, file in enumerate(files.envelopes, start=1):
                self._read(file, reading)
                if progress is not None:
                    progress(done, len(files.envelopes))
            failures = self._keep(before, state, reading)
            effective = self._readers(reading)
            rows = {page_id: {**row, "readers": effective.readers[page_id]} for page_id, row in reading.rows.items()}
            files_of_pages = self._attached(files, reading)
            attached = attachment_rows(
                files_of_pages, rows, self._settings, before, reader=self._reader, originals=self._originals
            )
        return finish(
            self._settings,
            before,
            {**rows, **attached.rows},
            seen=reading.seen(failures) + attached.seen,
            excluded=[*reading.excluded.items(), *reading.repeated, *attached.excluded.items()],
            failures=[*failures.items(), *attached.failures.items()],
            hidden=[(page_id, why) for page_id, why in effective.hidden.items() if page_id in reading.rows],
            notes=closed_notes(self._settings, self.key, "a dump does not say who may read the space"),
            origins=effective.origins,
            state={"files": reading.files, "fingerprint": self._fingerprint(reading.digests)},
        )

    def _wanted(self, files: DumpFiles) -> list[DumpFile]:
        return files.envelopes + (files.attached if self._settings.attachments != "none" else [])

    def _attached(self, files: DumpFiles, reading: _DumpContent) -> Iterator[Attached]:
        """Yield the files of pages; without ids, they are identified by their path."""
        for file in self._wanted(files)[len(files.envelopes) :]:
            content = _content(file)
            reading.digests.append(_file_digest(file.name, content))
            page_id, name = attached_to(file.name) or ("", "")
            yield Attached(
                id=f"{page_id}.{digest(name)[:12]}",
                page_id=f"{self._origin.id_prefix}{page_id}",
                name=PurePosixPath(name).name,
                read=partial(_given, content),
            )

    def _fingerprint(self, file_digests: list[str]) -> str:
        return digest(settings_digest(self.key, self._settings), *file_digests)

    def _read(self, file: DumpFile, reading: _DumpContent) -> None:
        content = _content(file)
        reading.digests.append(_file_digest(file.name, content))
        try:
            self._take(file.name, load_envelope(_given(content)), reading)
        except EnvelopeError as error:
            reading.failures[file.name] = f"{file.name}: {error}"

    def _take(self, name: str, envelope: dict[str, Any], reading: _DumpContent) -> None:
        page_id = page_id_of(envelope, self._origin.id_prefix)
        reading.files[name] = page_id
        version = version_of(envelope)
        grants = grants_of(envelope, self._origin.id_prefix)
        reading.carries_restrictions |= grants.own is not None
        excluded = exclusion_of(envelope)
        row = row_of(envelope, self._origin) if excluded is None else None
        if page_id in reading.newest:
            newest, newest_name = reading.newest[page_id]
            older = name if version <= newest else newest_name
            reading.repeated.append(
                (older, f"page {page_id} stands in {name} and in {newest_name}; the newest is kept")
            )
            if older == name:
                return
        reading.newest[page_id] = version, name
        reading.grants[page_id] = grants
        reading.rows.pop(page_id, None)
        reading.excluded.pop(page_id, None)
        if row is not None:
            reading.rows[page_id] = row
        elif excluded is not None:
            reading.excluded[page_id] = excluded

    def _keep(self, before: Mapping[str, Row], state: Mapping[str, Any], reading: _DumpContent) -> dict[str, str]:
        """Keep the last row of pages whose files are unreadable now, and name each failure by its page. The row has the
        page's readers as of its last reading. Unless the file still names them, they count as the page's own
        restriction: settings and ancestors can narrow it further, nothing can widen it."""
        known = state.get("files")
        known = known if isinstance(known, dict) else {}
        failures: dict[str, str] = {}
        for name, reason in reading.failures.items():
            stem = f"{self._origin.id_prefix}{PurePosixPath(name).stem}"
            page_id = reading.files.get(name) or known.get(name) or stem
            if page_id in reading.newest:
                reading.files[name] = page_id
                failures[name] = reason
            elif page_id in before:
                row = before[page_id]
                reading.files[name] = page_id
                reading.rows[page_id] = {**row, "source": self.key, "tenant": self._settings.tenant}
                reading.grants[page_id] = Grants(tuple(row["ancestors"]), row["readers"])
                failures[page_id] = f"{reason}; its last version stays"
            else:
                failures[reading.files.get(name, name)] = reason
        return failures

    def _readers(self, reading: _DumpContent) -> EffectiveReaders:
        """A scrape without restrictions cannot narrow; in one that has them, a page or ancestor without them hides."""
        space = space_readers(self._settings.readers)
        unknown = NOBODY if reading.carries_restrictions else EVERYONE
        return effective_readers(reading.grants, space, unsaid=unknown, missing=unknown)


def _content(file: DumpFile) -> bytes | EnvelopeError:
    try:
        return file.read()
    except EnvelopeError as error:
        return error


def _given(content: bytes | EnvelopeError) -> bytes:
    if isinstance(content, EnvelopeError):
        raise content
    return content


def _file_digest(name: str, content: bytes | EnvelopeError) -> str:
    data = str(content).encode() if isinstance(content, EnvelopeError) else content
    return f"{name}:{hashlib.blake2b(data, digest_size=16).hexdigest()}"
