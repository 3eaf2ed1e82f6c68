"""What runs leave beside their tables: what they were made from, and what they counted.

Belongs here: the shape of the small JSON files, and reading them with forgiveness: unreadable means "never built".
Does not belong here: the source's own memory of its last sync (see `rag_assets.sources`), the manifest of a generation.
"""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from rag_assets.state.fingerprints import table_digest
from rag_serving.artifacts.schema import CHUNKS
from rag_serving.artifacts.store import Store, StoreError, read_json, read_table, write_json
from rag_serving.artifacts.sync_times import write_sync_time

SETTLE_SECONDS = 10.0
"""How long to wait for a sync that is between writing its chunks and signing them."""

BEGUN = "begun"
"""The file beside a candidate from the first step of its build until it is published."""


class _State(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


State = TypeVar("State", bound=_State)


class PagesState(_State):
    """What the last sync saw."""

    fingerprint: str | None  # of the source before the sync; None: only a sync can tell
    pages_seen: int
    pages_changed: int
    pages_deleted: int
    pages_failed: int
    synced_at: datetime | None = None  # when it ended, or when a build found that nothing had changed since


class SectionsState(_State):
    """What `sections` were made with."""

    settings: str
    failed: dict[str, str]  # page id -> reason
    cut: dict[str, str] = {}  # page id -> why the rest of the page is left out
    macros_lost: int
    macros_unresolved: int = 0  # references to pages that were not found
    missed: list[str] = []  # pages with such references, which other sources of the tenant may answer
    pages: str = ""  # see `inputs.pages_digest`, of the pages that were read


class ChunksState(_State):
    """What `chunks` were made with; written last, so it speaks for the whole source."""

    settings: str  # of the whole source, see `inputs.ingest_settings`
    cut_by: str  # see `inputs.chunks_settings`
    fingerprint: str | None
    digest: str  # of the whole table
    chunks: int
    chunks_new: int


class IngestState(_State):
    """All of a source; a part is missing until its asset was materialized."""

    pages: PagesState | None = None
    sections: SectionsState | None = None
    chunks: ChunksState | None = None


class SourceAccount(_State):
    """The pages behind a chunk table, signed with the table's digest."""

    digest: str
    fingerprint: str | None
    enumerated: list[str]
    explained: dict[str, str]  # page id -> why it has no chunk


class CandidateState(_State):
    """What a candidate generation is made from, noted when its chunks were selected."""

    inputs: str  # see `inputs.tenant_inputs`
    embedder: str
    sources: dict[str, str | None]  # sync fingerprints
    enumerated: dict[str, list[str]]
    explained: dict[str, str]
    duplicates_dropped: int = 0
    selected: dict[str, int] = {}  # chunks to index, by source


class PublishState(_State):
    """A checked generation, and what it was made from."""

    generation: str
    inputs: str
    chunks: int
    shards: int
    gates: dict[str, bool]
    duplicates_dropped: int = 0
    override: str | None = None  # why a person published it although a gate of quality failed


def read_state(store: Store, source: str) -> IngestState:
    """Return the source's state; empty where there is none or it cannot be read."""
    return _read(store.source(source) / "ingest_state.json", IngestState) or IngestState()


def update_state(store: Store, source: str, **parts: Any) -> IngestState:
    """Write some parts of the source's state and keep the others; when it was synced, signed for the server as well."""
    state = read_state(store, source).model_copy(update=parts)
    write_json(store.source(source) / "ingest_state.json", state.model_dump(mode="json"))
    if "pages" in parts and state.pages and state.pages.synced_at:
        write_sync_time(store, source, state.pages.synced_at)
    return state


def note_unchanged(store: Store, source: str, now: datetime) -> None:
    """Note that a source was looked at and is as its tables say: as good as a sync."""
    pages = read_state(store, source).pages
    if pages is not None:
        update_state(store, source, pages=pages.model_copy(update={"synced_at": now}))


def last_sync(store: Store, source: str) -> datetime | None:
    """Return when the source was last synced as a whole; None where that never was, or nobody knows."""
    pages = read_state(store, source).pages
    return pages.synced_at if pages is not None else None


def read_publish_state(store: Store, tenant: str) -> PublishState | None:
    """Return the last publication, or None where there was none or it cannot be read."""
    return _read(store.tenant(tenant) / "publish_state.json", PublishState)


def write_publish_state(store: Store, tenant: str, state: PublishState) -> None:
    write_json(store.tenant(tenant) / "publish_state.json", state.model_dump())


def read_checked(store: Store, tenant: str) -> PublishState:
    """Return the candidate generation that was put together last.

    Raises:
        StoreError: there is none.
    """
    return _read_made(store.candidate(tenant) / "checked.json", PublishState, "generation", tenant)


def write_checked(store: Store, tenant: str, state: PublishState) -> None:
    write_json(store.candidate(tenant) / "checked.json", state.model_dump())


def read_candidate(store: Store, tenant: str) -> CandidateState:
    """Return what the candidate is made from.

    Raises:
        StoreError: its chunks were not selected.
    """
    return _read_made(store.candidate(tenant) / "inputs.json", CandidateState, "dedup_map", tenant)


def write_candidate(store: Store, tenant: str, state: CandidateState) -> None:
    write_json(store.candidate(tenant) / "inputs.json", state.model_dump())


def write_account(store: Store, source: str, account: SourceAccount) -> None:
    write_json(store.source(source) / "account.json", account.model_dump())


def settled_chunks(store: Store, source: str) -> tuple[pa.Table, SourceAccount]:
    """Return a source's chunks with the account of their pages, both of the same run.

    Table and account are two files, and a sync may be writing them: the account is signed with the table's digest, and
    when they differ the sync is given a moment to finish.

    Raises:
        StoreError: there are none, or they still differ.
    """
    folder = store.source(source)
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        table = read_table(folder / "chunks.parquet", CHUNKS)
        account = _read(folder / "account.json", SourceAccount)
        if account is not None and account.digest == table_digest(table):
            return table, account
        if time.monotonic() >= deadline:
            raise StoreError(f"the chunks in {folder} were not finished; run `citelock build {source} --full`")
        time.sleep(0.5)


def _read_made(path: Path, model: type[State], asset: str, tenant: str) -> State:
    state = _read(path, model)
    if state is None:
        raise StoreError(f"{path} is missing or unreadable; materialize `{asset}` of tenant {tenant!r} again")
    return state


def _read(path: Path, model: type[State]) -> State | None:
    try:
        return model.model_validate(read_json(path))
    except (StoreError, ValidationError):
        return None
