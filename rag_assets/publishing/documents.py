"""What became of uploaded documents, once it is known: published, without a passage, or gone.

Belongs here: comparing an inbox with what is published, and removing what was deleted.
Does not belong here: stages before (`rag_assets.sources.documents.states`), the inbox (`rag_serving.documents`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from rag_assets.publishing.originals import page_versions
from rag_assets.sources.documents.states import StateWriter
from rag_serving.artifacts.manifest import read_manifest
from rag_serving.artifacts.schema import PAGES
from rag_serving.artifacts.store import Store, StoreError, read_table
from rag_serving.config.loading import Config
from rag_serving.documents.deletions import write_deletion
from rag_serving.documents.inbox import Inbox, inboxes_of
from rag_serving.documents.records import Entry, ReadState
from rag_serving.indexes.generation_parts import map_chunks, parts_of

_ON_THEIR_WAY = frozenset({"chunking", "embedding"})
PROGRESS_S = 1.0
"""Seconds between two notes of how far embedding is: each reads all records of an inbox."""
_NOTHING: Mapping[str, str] = {}
STOPPED = "what was built of it is not published; an operator finds out why with the run that failed"
"""Told to editors, who may not know of the pages that a failed check names."""


def begin_embedding(config: Config, tenant: str) -> None:
    """Note that the documents whose passages were cut are being embedded."""
    for inbox in inboxes_of(config, tenant):
        states = StateWriter(inbox)
        for name, entry in inbox.entries().items():
            if entry.state and entry.state.stage == "chunking":
                states.set(name, entry.state.version, "embedding")
        states.flush()


class EmbeddingProgress:
    """How many of the texts of each uploaded document are embedded, for those who wait for it."""

    def __init__(self, config: Config, tenant: str, pause_s: float = PROGRESS_S) -> None:
        self._inboxes = inboxes_of(config, tenant)
        self._of: Counter[str] = Counter()
        self._done: Counter[str] = Counter()
        self._pause_s, self._written_at = pause_s, float("-inf")

    def expect(self, pages: Sequence[str]) -> None:
        """Take in that texts of these pages, one each, have to be embedded."""
        self._of.update(page for page in pages if self._inboxes)

    def count(self, computed: Sequence[tuple[str, str]]) -> None:
        """Take in texts of pages that were embedded; they are written soon, or by `flush`."""
        self._done.update(page for page, _ in computed if self._inboxes)
        if time.monotonic() - self._written_at >= self._pause_s:
            self.flush()

    def flush(self) -> None:
        """Write how far the documents are."""
        self._written_at = time.monotonic()
        for inbox in self._inboxes if self._done else ():
            states = StateWriter(inbox)
            for name, entry in inbox.entries().items():
                of = self._of[entry.page_id]
                if of and entry.state and entry.state.stage == "embedding":
                    states.embedded(name, min(self._done[entry.page_id], of), of)
            states.flush()


def note_stopped(config: Config, tenant: str) -> None:
    """Note with documents that are on their way that what was built of them was not published."""
    for inbox in inboxes_of(config, tenant):
        entries = inbox.entries()
        states = {name: entry.state for name, entry in entries.items() if entry.state}
        StateWriter(inbox).put(
            {
                name: state.model_copy(update={"reason": STOPPED}) if state.stage in _ON_THEIR_WAY else state
                for name, state in states.items()
            }
        )


def settle_documents(
    config: Config, tenant: str, source: str | None = None, explained: Mapping[str, str] = _NOTHING
) -> None:
    """Note which documents are published, and remove those that were deleted and are shown no more.

    Nothing is done where what is published cannot be read.

    Args:
        config: the configuration.
        tenant: whose inboxes are looked at.
        source: the only one to look at; None: all.
        explained: pages of the published generation that have no chunk in it, with the reason.
    """
    inboxes = [inbox for inbox in inboxes_of(config, tenant) if source in (None, inbox.key)]
    store = Store(config.home)
    if not inboxes or (versions := _published(store, tenant)) is None:
        return
    for inbox in inboxes:
        with inbox.files.lock():
            for entry in _settle(inbox, versions, explained, _indexed(store, inbox.key)):
                _prove_gone(store, inbox, entry)


def _prove_gone(store: Store, inbox: Inbox, entry: Entry) -> None:
    """Write down that a deleted document is gone, and only then forget it."""
    tenant, current = inbox.settings.tenant, store.current(inbox.settings.tenant)
    older = [path.name for path in sorted(store.generations(tenant).glob("*")) if path.name != current]
    kept_in = [name for name in older if entry.page_id in (_versions_in(store, tenant, name) or {})]
    write_deletion(store, inbox, entry, current, kept_in)
    inbox.files.remove_document(entry.document.document_id)


def _settle(
    inbox: Inbox, versions: Mapping[str, int], explained: Mapping[str, str], indexed: Mapping[str, int]
) -> list[Entry]:
    """Note the states of documents, remove bytes that none needs. Return the deleted ones that are shown no more."""
    entries = inbox.entries()
    gone = [
        name
        for name, entry in entries.items()
        if entry.document.deleted_at and entry.page_id not in versions and entry.page_id not in indexed
    ]
    states = {name: _state(entry, versions, explained) for name, entry in entries.items() if name not in gone}
    StateWriter(inbox).put({name: state for name, state in states.items() if state is not None})
    inbox.files.sweep({entry.document.current.sha256 for name, entry in entries.items() if name not in gone})
    return [entries[name] for name in gone]


def _state(entry: Entry, versions: Mapping[str, int], explained: Mapping[str, str]) -> ReadState | None:
    shown, state = versions.get(entry.page_id), entry.state
    if shown is not None and shown == entry.document.current.version:
        return ReadState(version=shown, stage="published", shown=shown)
    if state is None:
        return None
    if shown is None and state.stage in _ON_THEIR_WAY | {"published"} and (why := explained.get(entry.page_id)):
        return state.model_copy(update={"stage": "excluded", "reason": why, "shown": None})
    return state.model_copy(update={"shown": shown})


def _published(store: Store, tenant: str) -> dict[str, int] | None:
    """Return the version of each page that is published; None where that cannot be read."""
    current = store.current(tenant)
    return {} if current is None else _versions_in(store, tenant, current)


def _versions_in(store: Store, tenant: str, generation: str) -> dict[str, int] | None:
    """Return the version of each page in a generation; None where that cannot be read."""
    try:
        parts = parts_of(read_manifest(store, tenant, generation))
        chunks = map_chunks(store.generation(tenant, generation), parts)
    except StoreError:
        return None
    return dict(page_versions(chunks))


def _indexed(store: Store, key: str) -> dict[str, int]:
    """Return the version of each page of a source's last sync."""
    try:
        pages = read_table(store.source(key) / "pages.parquet", PAGES, ["page_id", "version"])
    except StoreError:
        return {}
    return dict(zip(pages["page_id"].to_pylist(), pages["version"].to_pylist(), strict=True))
