"""The upload inbox as a source: each document is a page, with the readers that were chosen for it.

Belongs here: which documents are read anew, and what becomes of one that cannot be.
Does not belong here: receiving documents (`documents.inbox`), the row of one (`rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rag_assets.sources.base import (
    READING_VERSION,
    Progress,
    Row,
    SyncResult,
    digest,
    finish,
    rows_by_id,
    settings_digest,
)
from rag_assets.sources.documents.rows import DocumentFacts, ExcludedError, Reading, RowMaker, UnreadableError
from rag_assets.sources.documents.states import StateWriter
from rag_serving.config.sources import Files
from rag_serving.documents.inbox import Inbox
from rag_serving.documents.records import Entry

Unread = list[str]
"""Of a document that gave no row: SHA-256, what it is (`failed`, `excluded`), why."""


@dataclass
class _Sync:
    """What becomes of the documents, by page id."""

    before: Mapping[str, Row]
    unread_before: Mapping[str, Unread]
    states: StateWriter
    maker: RowMaker
    may_reuse: bool
    rows: dict[str, Row] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    unread: dict[str, Unread] = field(default_factory=dict)


class InboxSource:
    """Documents that people upload."""

    def __init__(self, key: str, settings: Files, inbox: Inbox, reading: Reading) -> None:
        self.key = key
        self._settings = settings
        self._inbox = inbox
        self._reading = reading

    def fingerprint(self) -> str:
        """Return a digest of the records and settings; no document is opened."""
        return digest(
            settings_digest(self.key, self._settings), self._reading.public_url or "", self._inbox.fingerprint()
        )

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Read the documents that are new or were replaced; the others keep their text."""
        entries = {name: entry for name, entry in self._inbox.entries().items() if entry.document.deleted_at is None}
        reading, may_reuse = self._reading, state.get("reading") == READING_VERSION
        with nullcontext(reading.reader) if reading.reader else reading.limited() as reader:
            maker = RowMaker(self.key, self._settings, reader, reading.originals)
            sync = _Sync(rows_by_id(previous), _remembered(state), StateWriter(self._inbox), maker, may_reuse)
            for done, (name, entry) in enumerate(sorted(entries.items()), start=1):
                self._take(name, entry, sync)
                if progress is not None:
                    progress(done, len(entries))
        sync.states.flush()
        return finish(
            None,
            sync.before,
            sync.rows,
            seen=len(entries),
            excluded=sync.excluded.items(),
            failures=sync.failures.items(),
            state={"unread": sync.unread, "reading": READING_VERSION},
        )

    def _take(self, name: str, entry: Entry, sync: _Sync) -> None:
        current, page_id = entry.document.current, entry.page_id
        address = self._reading.address(page_id)
        facts = DocumentFacts(
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

    def _read(self, name: str, entry: Entry, facts: DocumentFacts, sync: _Sync) -> None:
        current = entry.document.current

        def pages_done(page: int, pages: int) -> None:
            sync.states.set(name, current.version, "extracting", pages=(page, pages))

        sync.states.set(name, current.version, "extracting")
        try:
            with self._inbox.files.open_content(current.sha256) as file:
                content = file.read(self._settings.max_file_bytes + 1)
            row = sync.maker.read(facts, content, pages_done)
        except ExcludedError as error:
            self._leave_out(name, entry, sync, [current.sha256, "excluded", str(error)])
        except UnreadableError as error:
            self._leave_out(name, entry, sync, [current.sha256, "failed", str(error)])
        except OSError as error:
            why = f"its bytes are not there any more ({error.strerror}); upload it again"
            self._leave_out(name, entry, sync, ["", "failed", why])
        else:
            sync.rows[entry.page_id] = row
            sync.states.set(name, current.version, "chunking")

    def _leave_out(self, name: str, entry: Entry, sync: _Sync, unread: Unread) -> None:
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
    """Return what the last sync could not read; nothing where that cannot be told."""
    known = state.get("unread")
    if state.get("reading") != READING_VERSION or not isinstance(known, dict):
        return {}
    return {name: unread for name, unread in known.items() if isinstance(unread, list) and len(unread) == 3}
