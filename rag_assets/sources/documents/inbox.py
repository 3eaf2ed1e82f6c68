"""The upload inbox as a source: each document is a page, with the readers that were chosen for it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rag_assets.sources import base
from rag_assets.sources.documents import document_pages
from rag_serving.config.sources import Files
from rag_serving.documents.inbox import Entry, Inbox, ReadState, Stage

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
