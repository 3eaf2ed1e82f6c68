"""The outcome of uploaded documents, and the original files of a generation's pages."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.publishing.workspace import BuildWorkspace
from rag_assets.sources.base import ORIGINALS_FOLDER, remove_unnamed
from rag_assets.sources.documents.folder import StateWriter
from rag_serving.artifacts.contents import KnownDigests, sized_stamp
from rag_serving.artifacts.manifest import read_manifest
from rag_serving.artifacts.schema import ORIGINALS, PAGES
from rag_serving.artifacts.store import Store, StoreError, map_table, move_file, read_table
from rag_serving.config.loading import Config
from rag_serving.documents.inbox import Entry, ReadState, inboxes_of, write_deletion
from rag_serving.indexes.generation_parts import map_chunks, parts_of
from rag_serving.indexes.originals import FILE, read_originals

_log = logging.getLogger(__name__)


def gather_originals(store: Store, tenant: str, sources: Collection[str]) -> pa.Table:
    """Link the originals of the dense step's pages into the tenant's folder; write and return ORIGINALS. A page whose
    file differs from its row, or which has another version now, has none: it is shown as text."""
    with store.lock(tenant):
        workspace = BuildWorkspace.of(store, tenant)
        versions = dict(page_versions(workspace.table()))
        rows = [row for key in sorted(sources) for row in _originals(store, tenant, key, versions)]
        table = ORIGINALS.table(sorted(rows, key=lambda row: str(row["page_id"])))
        workspace.write_originals(table)
    return table


def remove_unnamed_originals(store: Store, tenant: str, generations: Collection[str]) -> list[str]:
    """Remove the tenant's originals that none of these generations names, nor the build under way. Raises StoreError:
    the files of one of them are unknown, and nothing was removed."""
    folders = [store.generation(tenant, name) for name in generations]
    workspace = BuildWorkspace.of(store, tenant).originals_folder
    tables = [map_table(path, ORIGINALS) for folder in (*folders, workspace) if (path := folder / FILE).exists()]
    return remove_unnamed(store.originals(tenant), {digest for one in tables for digest in one["sha256"].to_pylist()})


def page_versions(chunks: pa.Table) -> Iterator[tuple[str, int]]:
    """Yield id and version of the pages of chunks, and of those that were dropped as duplicates."""
    yield from zip(chunks["page_id"].to_pylist(), chunks["version"].to_pylist(), strict=True)
    places = pc.list_flatten(chunks["places"])
    for chunk_id in pc.struct_field(places, "chunk_id").to_pylist():
        page_id, version, _ = chunk_id.rsplit(":", 2)
        yield page_id, int(version)


def _originals(store: Store, tenant: str, key: str, versions: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    path = store.source(key) / "pages.parquet"
    try:
        pages = read_table(path, PAGES, ["page_id", "version", "original"])
    except StoreError as error:
        _log.warning("no original of source %s is published: %s", key, error)
        return
    for row in pages.filter(pc.is_valid(pages["original"])).to_pylist():
        original = row["original"]
        if versions.get(row["page_id"]) != row["version"]:
            continue
        if _in_place(store, tenant, key, original):
            yield {"page_id": row["page_id"], **original}
        else:
            _log.warning("the original of page %s is missing or was altered; its next sync reads it", row["page_id"])


def restore_originals(store: Store, tenant: str, generation_id: str) -> list[str]:
    """Link the damaged originals of a generation from the sources again; returns their names below the tenant's
    folder."""
    try:
        originals = {one.sha256: one for one in read_originals(store, tenant, generation_id).values()}
    except StoreError:
        return []
    damaged = [one for one in originals.values() if one.fault(thorough=True)]
    folders = sorted((store.home / "sources").glob(f"*/{ORIGINALS_FOLDER}"))
    return [
        f"{one.path.parent.name}/{one.sha256}"
        for one in damaged
        if any(_linked(folder, one.path.parent, one.sha256) for folder in folders)
    ]


def _in_place(store: Store, tenant: str, key: str, original: Any) -> bool:
    """Return whether the file is in the tenant's folder as it was read; it is linked there if it is not."""
    folder, sha256, known = store.originals(tenant), original["sha256"], KnownDigests(store, tenant)
    try:
        stamp = sized_stamp(folder / sha256, original["bytes"])
    except StoreError:
        return _linked(store.source(key) / ORIGINALS_FOLDER, folder, sha256)
    name = f"{folder.name}/{sha256}"
    if known.holds(name, stamp, sha256):
        return True
    if _digest(folder / sha256) != sha256:
        return _linked(store.source(key) / ORIGINALS_FOLDER, folder, sha256)
    known.add(name, stamp, sha256)
    known.save()
    return True


def _linked(source: Path, target: Path, sha256: str) -> bool:
    """Return whether the source has the file of that digest, which then is linked (or copied) into the target folder.
    One that was altered there is removed, so that the next sync reads it again."""
    path = source / sha256
    if not path.is_file():
        return False
    if _digest(path) != sha256:
        path.unlink()
        return False
    target.mkdir(parents=True, exist_ok=True)
    working = target / f".{sha256}"
    working.unlink(missing_ok=True)
    try:
        os.link(path, working)
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, working)
    move_file(working, target / sha256)
    return True


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_ON_THEIR_WAY = frozenset({"chunking", "embedding"})
PROGRESS_S = 1.0
"""Seconds between two notes of how far embedding is: each reads all records of an inbox."""
_NOTHING: Mapping[str, str] = {}
STOPPED = "what was built of it is not published; an operator finds out why with the run that failed"
"""Told to editors, who may not know of the pages that a failed check names."""


def begin_embedding(config: Config, tenant: str) -> None:
    """Mark the documents whose passages were cut as being embedded."""
    for inbox in inboxes_of(config, tenant):
        states = StateWriter(inbox)
        for name, entry in inbox.entries().items():
            if entry.state and entry.state.stage == "chunking":
                states.set(name, entry.state.version, "embedding")
        states.flush()


class EmbeddingProgress:
    """The number of embedded texts of each uploaded document, for waiting readers."""

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
    """Mark the documents in progress: their build was not published."""
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
    """Record published documents, and remove deleted ones that are no longer shown; nothing is done if the publication
    cannot be read. `source`: the only one to look at; `explained`: pages of the published generation without a chunk in
    it, with the reason."""
    inboxes = [inbox for inbox in inboxes_of(config, tenant) if source in (None, inbox.key)]
    store = Store(config.home)
    if not inboxes or (versions := _published(store, tenant)) is None:
        return
    for inbox in inboxes:
        with inbox.files.lock():
            indexed = _indexed(store, inbox.key)
            entries = inbox.entries()
            gone = [
                name
                for name, entry in entries.items()
                if entry.document.deleted_at and entry.page_id not in versions and entry.page_id not in indexed
            ]
            states = {name: _state(entry, versions, explained) for name, entry in entries.items() if name not in gone}
            StateWriter(inbox).put({name: state for name, state in states.items() if state is not None})
            inbox.files.sweep({entry.document.current.sha256 for name, entry in entries.items() if name not in gone})
            for entry in [entries[name] for name in gone]:
                tenant, current = inbox.settings.tenant, store.current(inbox.settings.tenant)
                older = [path.name for path in sorted(store.generations(tenant).glob("*")) if path.name != current]
                kept_in = [name for name in older if entry.page_id in (_versions_in(store, tenant, name) or {})]
                write_deletion(store, inbox, entry, current, kept_in)
                inbox.files.remove_document(entry.document.document_id)


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
    """Return the version of each page that is published; None if that cannot be read."""
    current = store.current(tenant)
    return {} if current is None else _versions_in(store, tenant, current)


def _versions_in(store: Store, tenant: str, generation: str) -> dict[str, int] | None:
    """Return the version of each page in a generation; None if that cannot be read."""
    try:
        parts = parts_of(read_manifest(store, tenant, generation))
        chunks = map_chunks(store.generation(tenant, generation), parts)
    except StoreError:
        return None
    return dict(page_versions(chunks))


def _indexed(store: Store, key: str) -> dict[str, int]:
    try:
        pages = read_table(store.source(key) / "pages.parquet", PAGES, ["page_id", "version"])
    except StoreError:
        return {}
    return dict(zip(pages["page_id"].to_pylist(), pages["version"].to_pylist(), strict=True))
