"""A folder, a zip or a prefix of an object store as a source: each file is a page, members of archives included;
and the upload inbox: each document is a page, with the readers that were chosen for it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from rag_assets.sources import base
from rag_assets.sources.base import READING_VERSION, Progress, SourceError, SyncResult, closed_notes, finish, rows_by_id
from rag_assets.sources.documents import document_pages
from rag_assets.sources.documents.document_pages import (
    CLOSED,
    DocumentFile,
    DocumentPages,
    FileSource,
    RowMaker,
    content_digest,
    identify,
    known_files,
    rows_by_content,
)
from rag_assets.sources.sites.site import MOST_FILES, FileTree, LargeFileError, check_size
from rag_assets.steps.files.file_text import ZipMembers
from rag_assets.steps.files.records import FileError
from rag_serving.config.sources import Files
from rag_serving.documents.inbox import Entry, Inbox, ReadState, Stage
from rag_serving.documents.kinds import KindError, kind_by_name, kind_in

DEEPEST = 2
"""Archives within archives that are opened."""


class MembersTree:
    """The files of a tree; in place of an archive its members, as `archive.zip/member`. An archive that cannot be
    opened stays a file of its own, which then fails with a reason; `unopened` names it."""

    def __init__(self, tree: FileTree, key: str, max_bytes: int) -> None:
        """`max_bytes`: a larger member cannot be read, as no larger file can."""
        self._tree, self._max_bytes = tree, max_bytes
        self._where: dict[str, tuple[str, ...]] = {}  # by name: the file, then members of members
        self._stamps: dict[str, str] = {}
        self._written: dict[str, datetime] = {}  # of members
        self._open: tuple[tuple[str, ...], ZipMembers] | None = None  # the archive that was read last
        self.unopened: set[str] = set()
        for name in tree.names:
            for label, path, stamp in self._found((name,)):
                self._where[label], self._stamps[label] = path, stamp
                if len(path) > 1 and (written := self._members(path[:-1]).written_at(path[-1])) is not None:
                    self._written[label] = written
            if len(self._where) > MOST_FILES:
                raise SourceError(f"source {key!r} has more than {MOST_FILES:,} files; make several sources of it")
        self._open = None
        self.names: Sequence[str] = sorted(self._where)

    def stamp(self, name: str) -> str:
        """Return a value that changes with a file; for a member its size and checksum."""
        return self._stamps[name]

    def written_at(self, name: str) -> datetime:
        """Return when a file's content was written; of a member as its archive says, else when that was."""
        return self._written.get(name) or self._tree.written_at(self._where[name][0])

    def touched_at(self, name: str) -> float:
        return 0.0 if self.is_member(name) else self._tree.touched_at(name)

    def is_member(self, name: str) -> bool:
        """Return whether a file lies in an archive."""
        return len(self._where[name]) > 1

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises KeyError: there is none of that name. Raises FileError: it cannot be
        read, or is larger than allowed."""
        path = self._where[name]
        return self._content(path)

    def _found(self, path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...], str]]:
        label = "/".join(path)
        stamp = self._tree.stamp(path[0]) if len(path) == 1 else self._members(path[:-1]).stamp(path[-1])
        members = None
        if kind_by_name(path[-1]) == "archive" and len(path) <= DEEPEST:
            try:
                members = self._members(path)
            except LargeFileError:
                pass
            except (FileError, KindError):
                self.unopened.add(label)
        if members is None or not members.names:
            yield label, path, stamp
            return
        for name in members.names:
            yield from self._found((*path, name))

    def _members(self, path: tuple[str, ...]) -> ZipMembers:
        """Return the members of an archive. Raises FileError, KindError: it cannot be opened, or is no archive."""
        if self._open is None or self._open[0] != path:
            content = self._content(path)
            if kind_in(path[-1], content) != "archive":
                raise KindError
            self._open = (path, ZipMembers(content))
        return self._open[1]

    def _content(self, path: tuple[str, ...]) -> bytes:
        if len(path) == 1:
            return self._tree.read(path[0])
        members = self._members(path[:-1])
        check_size(members.size(path[-1]), self._max_bytes)
        return members.read(path[-1])


class DocumentFolder(FileSource[Files]):
    """The files of a folder and of those below it, of a zip, or of a prefix of an object store."""

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Read the files with new content; the others keep their text."""
        began, known, reading = time.time(), known_files(state), self._reading
        before = rows_by_id(previous)
        with self._tree() as whole, nullcontext(reading.reader) if reading.reader else reading.limited() as reader:
            tree = MembersTree(whole, self.key, self._settings.max_file_bytes)
            digests = {name: content_digest(tree, name, known.get(name), state.get("began")) for name in tree.names}
            unopened = tuple(f"{archive}/" for archive in tree.unopened)  # what was read from them is kept
            kept = {name: one.sha256 for name, one in known.items() if name.startswith(unopened)}
            page_ids = identify(self.key, {name: one for name, one in digests.items() if one} | kept, known)
            maker = RowMaker(self.key, self._settings, reader, reading.originals)
            twins = rows_by_content(known, before, self._settings.id_prefix)
            pages = DocumentPages(tree, before, {one.page_id: one for one in known.values()}, maker, twins)
            for done, name in enumerate(tree.names, start=1):
                pages.take(self._document(name, page_ids.get(name), digests[name], tree))
                if progress is not None:
                    progress(done, len(tree.names))
            for name in kept:
                row_id = self._row_id(known[name].page_id, name)
                pages.keep(name, known[name], row_id, "its archive cannot be opened")
        return finish(
            self._settings,
            before,
            pages.rows,
            seen=len(tree.names) + len(kept),
            excluded=pages.excluded.items(),
            failures=pages.failures.items(),
            notes=closed_notes(self._settings, self.key, CLOSED),
            files={self._id(one.page_id): name for name, one in known.items()},
            state={
                "files": {name: one.dump() for name, one in pages.now.items()},
                "began": began,
                "reading": READING_VERSION,
            },
        )

    def _document(self, name: str, page_id: str | None, sha256: str | None, tree: MembersTree) -> DocumentFile:
        row_id = self._row_id(page_id, name)
        base = None if tree.is_member(name) else self._settings.base_url  # nothing serves a file inside another
        quoted = quote(name, errors="surrogateescape")
        url = self._reading.address(row_id) if base is None else f"{base.rstrip('/')}/{quoted}"
        return DocumentFile(name, page_id, row_id, sha256, tree.stamp(name), tree.written_at(name), url)


LEAST_PAUSE_S = 0.25
"""Seconds between two writes: nobody reads faster."""


class StateWriter:
    """The states of an inbox's documents; used by one build at a time, under the source's lock."""

    def __init__(self, inbox: Inbox) -> None:
        self._files = inbox.files
        self._states = {name: entry.state for name, entry in inbox.entries().items() if entry.state}
        self._written = self._dumped()
        self._last = float("-inf")

    def __getitem__(self, name: str) -> ReadState | None:
        return self._states.get(name)

    def set(
        self, name: str, version: int, stage: Stage, reason: str | None = None, pages: tuple[int, int] | None = None
    ) -> None:
        """Note the stage of a document; it is written soon, or by `flush`."""
        before = self._states.get(name)
        page, of = pages or (None, None)
        shown = before.shown if before else None
        self._states[name] = ReadState(version=version, stage=stage, page=page, of=of, reason=reason, shown=shown)
        if time.monotonic() - self._last >= LEAST_PAUSE_S:
            self.flush()

    def embedded(self, name: str, texts: int, of: int) -> None:
        """Note how many of the texts of a document that is being embedded are so; written by `flush`."""
        if state := self._states.get(name):
            self._states[name] = state.model_copy(update={"embedded": texts, "texts": of})

    def put(self, states: dict[str, ReadState]) -> None:
        """Replace all states, those that are not named included."""
        self._states = states
        self.flush()

    def flush(self) -> None:
        """Write the changes."""
        now = self._dumped()
        if now != self._written:
            self._files.write_states(now)
            self._written = now
        self._last = time.monotonic()

    def _dumped(self) -> dict[str, dict[str, object]]:
        return {name: state.model_dump(mode="json") for name, state in self._states.items()}


Unread = list[str]
"""Of a document that gave no row: SHA-256, what it is (`failed`, `excluded`), why."""


@dataclass
class _InboxSync:
    """The outcome of the documents, by page id."""

    before: Mapping[str, base.Row]
    unread_before: Mapping[str, Unread]
    states: StateWriter
    maker: document_pages.RowMaker
    may_reuse: bool
    rows: dict[str, base.Row] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    unread: dict[str, Unread] = field(default_factory=dict)


class InboxSource:
    """Documents that people upload."""

    def __init__(self, key: str, settings: Files, inbox: Inbox, reading: document_pages.DocumentReading) -> None:
        self.key = key
        self._settings = settings
        self._inbox = inbox
        self._reading = reading

    def fingerprint(self) -> str:
        """Return a digest of the records and settings; no document is opened."""
        return base.digest(
            base.settings_digest(self.key, self._settings), self._reading.public_url or "", self._inbox.fingerprint()
        )

    def sync(
        self, previous: pa.Table | None, state: Mapping[str, Any], progress: base.Progress | None = None
    ) -> base.SyncResult:
        """Read the documents that are new or were replaced; the others keep their text."""
        entries = {name: entry for name, entry in self._inbox.entries().items() if entry.document.deleted_at is None}
        reading, may_reuse = self._reading, state.get("reading") == base.READING_VERSION
        with nullcontext(reading.reader) if reading.reader else reading.limited() as reader:
            maker = document_pages.RowMaker(self.key, self._settings, reader, reading.originals)
            sync = _InboxSync(base.rows_by_id(previous), _remembered(state), StateWriter(self._inbox), maker, may_reuse)
            for done, (name, entry) in enumerate(sorted(entries.items()), start=1):
                self._take(name, entry, sync)
                if progress is not None:
                    progress(done, len(entries))
        sync.states.flush()
        return base.finish(
            None,
            sync.before,
            sync.rows,
            seen=len(entries),
            excluded=sync.excluded.items(),
            failures=sync.failures.items(),
            state={"unread": sync.unread, "reading": base.READING_VERSION},
        )

    def _take(self, name: str, entry: Entry, sync: _InboxSync) -> None:
        current, page_id = entry.document.current, entry.page_id
        address = self._reading.address(page_id)
        facts = document_pages.DocumentFacts(
            page_id, current.version, entry.document.name, address, entry.readers, current.uploaded_at
        )
        row, known = sync.before.get(page_id), sync.unread_before.get(page_id)
        is_same = sync.may_reuse and row is not None and row["version"] == current.version
        if known and known[0] == current.sha256 and not sync.maker.reader.is_past(known[2]):
            self._leave_out(name, entry, sync, known)
        elif is_same and row is not None and (kept := sync.maker.kept(row, facts)) is not None:
            sync.rows[page_id] = kept
        else:
            self._read(name, entry, facts, sync)

    def _read(self, name: str, entry: Entry, facts: document_pages.DocumentFacts, sync: _InboxSync) -> None:
        current = entry.document.current

        def pages_done(page: int, pages: int) -> None:
            sync.states.set(name, current.version, "extracting", pages=(page, pages))

        sync.states.set(name, current.version, "extracting")
        try:
            with self._inbox.files.open_content(current.sha256) as file:
                content = file.read(self._settings.max_file_bytes + 1)
            row = sync.maker.read(facts, content, pages_done)
        except document_pages.ExcludedError as error:
            self._leave_out(name, entry, sync, [current.sha256, "excluded", str(error)])
        except document_pages.UnreadableError as error:
            self._leave_out(name, entry, sync, [current.sha256, "failed", str(error)])
        except OSError as error:
            why = f"its bytes are not there any more ({error.strerror}); upload it again"
            self._leave_out(name, entry, sync, ["", "failed", why])
        else:
            sync.rows[entry.page_id] = row
            sync.states.set(name, current.version, "chunking")

    def _leave_out(self, name: str, entry: Entry, sync: _InboxSync, unread: Unread) -> None:
        """Record why a document has no row of its version; where it failed, the last one that could be read stays."""
        _, stage, why = unread
        sync.unread[entry.page_id] = unread
        if stage == "excluded":
            sync.excluded[entry.page_id] = f"{entry.document.name}: {why}"
            sync.states.set(name, entry.document.current.version, "excluded", why)
            return
        row = sync.before.get(entry.page_id)
        if row is not None:
            sync.rows[entry.page_id] = {**row, "readers": entry.readers}
            why += f"; version {row['version']} stays"
        sync.failures[entry.page_id] = f"{entry.document.name}: {why}"
        sync.states.set(name, entry.document.current.version, "failed", why)


def _remembered(state: Mapping[str, Any]) -> dict[str, Unread]:
    """Return the files that the last sync could not read; none if unknown."""
    known = state.get("unread")
    if state.get("reading") != base.READING_VERSION or not isinstance(known, dict):
        return {}
    return {name: unread for name, unread in known.items() if isinstance(unread, list) and len(unread) == 3}
