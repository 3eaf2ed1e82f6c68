"""What an ingest run leaves beside its tables: the settings and fingerprints they were made from, and their counts.

Belongs here: the shape of `ingest_state.json` and reading it with forgiveness: an unreadable one means "never built".
Does not belong here: the source's own memory of its last sync (`sync_state.json`, see `rag_assets.sources`).
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from rag_serving.store import Store, StoreError, read_json, write_json


class _State(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class PagesState(_State):
    """What `pages` were synced with."""

    settings: str
    fingerprint: str | None
    pages_seen: int
    pages_changed: int
    pages_deleted: int
    pages_failed: int


class SectionsState(_State):
    """What `sections` were made with."""

    settings: str
    failed: dict[str, str]  # page id -> reason
    macros_lost: int


class ChunksState(_State):
    """What `chunks` were made with; written last, so it speaks for the whole source."""

    settings: str
    fingerprint: str | None
    digest: str  # of the whole table
    chunks: int
    chunks_new: int


class IngestState(_State):
    """All of a source; a part is missing until its asset was materialized."""

    pages: PagesState | None = None
    sections: SectionsState | None = None
    chunks: ChunksState | None = None


def read_state(store: Store, source: str) -> IngestState:
    """The source's state; empty where there is none or it cannot be read."""
    try:
        return IngestState.model_validate(read_json(store.source(source) / "ingest_state.json"))
    except (StoreError, ValidationError):
        return IngestState()


def update_state(store: Store, source: str, **parts: Any) -> IngestState:
    """Write some parts of the state and keep the others."""
    state = read_state(store, source).model_copy(update=parts)
    write_json(store.source(source) / "ingest_state.json", state.model_dump())
    return state
