"""A Confluence dump: a folder or zip of REST v1 page envelopes, one JSON file a page.

Belongs here: what a dump means as a whole: which file speaks for a page, what a broken file leaves standing, and who
may read pages whose ancestors the dump lacks.
Does not belong here: single files (`dump_files`) and envelopes (`envelope`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from rag_assets.parsing.reader import LimitedReader
from rag_assets.sources.attachments import Attached, attachment_rows
from rag_assets.sources.base import Progress, Row, SyncResult, digest, finish, rows_by_id, settings_digest
from rag_assets.sources.dump_files import DumpFile, DumpFiles, attached_to, dump_files
from rag_assets.sources.envelope import (
    EnvelopeError,
    Origin,
    exclusion_of,
    load_envelope,
    page_id_of,
    row_of,
    version_of,
)
from rag_assets.steps.readers import (
    EffectiveReaders,
    Grants,
    effective_readers,
    grants_of,
    space_readers,
)
from rag_serving.access.principals import EVERYONE, NOBODY
from rag_serving.config.sources import ConfluenceDump as Settings


@dataclass
class _DumpContent:
    """What the files of a dump said."""

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
        """Return a digest of names, contents and settings: times would miss what was written within one clock tick.

        300 pages take about 20 ms, unpacked.
        """
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
            notes=self._notes(),
            origins=effective.origins,
            state={"files": reading.files, "fingerprint": self._fingerprint(reading.digests)},
        )

    def _wanted(self, files: DumpFiles) -> list[DumpFile]:
        return files.envelopes + (files.attached if self._settings.attachments != "none" else [])

    def _attached(self, files: DumpFiles, reading: _DumpContent) -> Iterator[Attached]:
        """Files of pages; they have no ids, so where they stand names them."""
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
        """Keep the last row of pages whose files cannot be read now, and name each failure by its page.

        Who could read the page when it was last read stands in its row. Unless the file still says who may, that
        counts as the page's own restriction: settings and ancestors can narrow it further, nothing can widen it.
        """
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

    def _notes(self) -> list[str]:
        if self._settings.readers != "from_source":
            return []
        return [
            f"a dump does not say who may read the space, so nobody can read source {self.key!r}; "
            f"set sources.{self.key}.readers to everyone or to a list of group:NAME and user:NAME"
        ]


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
