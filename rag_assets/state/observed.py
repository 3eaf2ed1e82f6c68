"""Observations before decisions: the sources' state, existing builds, documents left out.

Belongs here: gathering, from small files only: no table is read and no model is called; faulty documents, which a
tenant's builds leave out until they change, and their limit. Does not belong here: decisions (`planning`), detecting
faulty documents (`rag_assets.publishing.checks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from rag_assets.sources.registry import open_source
from rag_assets.state.locks import is_only_followed
from rag_assets.state.planning import SourceFacts
from rag_assets.state.records import (
    ingest_settings,
    page_facts,
    read_candidate,
    read_publish_state,
    read_state,
    tenant_inputs,
)
from rag_serving.artifacts.schema import SELECTED_CHUNKS
from rag_serving.artifacts.store import Store, StoreError, read_json, read_table, write_json
from rag_serving.config.loading import Config
from rag_serving.documents.inbox import inboxes_of
from rag_serving.documents.noted import NotedPages
from rag_serving.indexes.integrity import Damage, Depth, find_damage, publication_fault

if TYPE_CHECKING:
    from rag_serving.models.protocols import Embedder

FILE = "left_out.json"
MOST = 10
"""One page in so many may be left out, and one of fewer pages."""
_ROUNDS = 3
LeftOut = Mapping[str, tuple[str, str]]  # page id -> what it was (version and model), and the reason


def read_left_out(store: Store, tenant: str) -> LeftOut:
    """Return the documents that are left out; none if that cannot be read."""
    try:
        return {str(page): (str(mark), str(why)) for page, (mark, why) in read_json(_file(store, tenant)).items()}
    except (StoreError, ValueError, TypeError, AttributeError):
        return {}


def still_left_out(store: Store, tenant: str, chunks: pa.Table, embedder: str) -> dict[str, str]:
    """Return why pages are left out, and forget those of which there is another version or another model."""
    marks, known = _marks(chunks, embedder), read_left_out(store, tenant)
    kept = {page: one for page, one in known.items() if one[0] == marks.get(page, f"None {embedder}")}
    if kept != known:
        write_json(_file(store, tenant), kept)
    return {page: why for page, (_, why) in kept.items()}


def leave_out(store: Store, tenant: str, at_fault: Mapping[str, str]) -> bool:
    """Note documents of the candidate, with a reason each, that the next build leaves out; whether there are so few
    that it may."""
    state, before = read_candidate(store, tenant), read_left_out(store, tenant)
    selected = read_table(store.candidate(tenant) / "selected.parquet", SELECTED_CHUNKS, ["page_id", "version"])
    marks = _marks(selected, state.embedder)
    new = {page: (marks.get(page, f"None {state.embedder}"), why) for page, why in at_fault.items()}
    pages = marks.keys() | before.keys() | new.keys()
    if not new or len({**before, **new}) > max(1, len(pages) // MOST) or not marks.keys() - new.keys():
        return False
    write_json(_file(store, tenant), {**before, **new})
    return True


def left_out_inputs(store: Store, tenant: str) -> dict[str, str]:
    """Return the left-out documents as a part of the inputs of a build."""
    return {f"left out {page}": mark for page, (mark, _) in read_left_out(store, tenant).items()}


def attempts(store: Store, tenant: str) -> Iterator[None]:
    """Yield once, and again as long as the build meanwhile left out further documents."""
    for _ in range(_ROUNDS):
        before = read_left_out(store, tenant).keys()
        yield
        if read_left_out(store, tenant).keys() <= before:
            return


def _marks(chunks: pa.Table, embedder: str) -> dict[str, str]:
    pairs = zip(chunks["page_id"].to_pylist(), chunks["version"].to_pylist(), strict=True)
    return {page: f"{version} {embedder}" for page, version in pairs}


def _file(store: Store, tenant: str) -> Path:
    return store.tenant(tenant) / FILE


def source_facts(config: Config, store: Store, key: str, fingerprint: str | None) -> SourceFacts:
    """Return a source now and as it was built; tables that are gone were never built."""
    built = read_state(store, key).chunks
    if not all(_has_table(config, store, key, table) for table in ("pages", "sections", "chunks")):
        built = None
    return SourceFacts(
        key=key,
        tenant=config.sources[key].tenant,
        settings=ingest_settings(config, key),
        fingerprint=fingerprint,
        built_settings=built.settings if built else None,
        built_fingerprint=built.fingerprint if built else None,
    )


def unseen_uploads(config: Config, store: Store) -> dict[str, str]:
    """Return the upload inboxes with work for a sync, the wikis that announced pages, and the sources that were just
    connected, each with a mark that differs for other work."""
    waiting = {key: mark for key in config.sources if (mark := NotedPages(store.source(key)).mark())}
    for tenant in config.tenants:
        for inbox in inboxes_of(config, tenant):
            settings, folder = config.sources[inbox.key], store.source(inbox.key)
            now = open_source(inbox.key, settings, folder, public_url=config.serving.public_url).fingerprint()
            seen = read_state(store, inbox.key).pages
            is_empty = seen is None and not inbox.entries()
            if now is not None and not is_empty and (seen is None or seen.fingerprint != now):
                waiting[inbox.key] = f"{seen.synced_at if seen else None}:{now}"
            elif deletions := inbox.deletions():  # of what was deleted before any sync saw it
                waiting[inbox.key] = f"deleted:{deletions}"
    return waiting


def watching_folder(store: Store) -> Path:
    """Return the folder whose lock belongs to the process that waits for uploads."""
    return store.home / "inboxes"


def chunk_digests(config: Config, store: Store, tenant: str) -> dict[str, str]:
    """Return the digest of each chunk table that the tenant's sources have."""
    states = {key: read_state(store, key).chunks for key in config.sources_of(tenant)}
    return {
        key: state.digest
        for key, state in states.items()
        if state is not None and _has_table(config, store, key, "chunks")
    }


def _has_table(config: Config, store: Store, key: str, table: str) -> bool:
    """Return whether a source has a table, on this machine or on those that share its home."""
    return (store.source(key) / f"{table}.parquet").is_file() or is_only_followed(config, store.source(key))


def wanted_inputs(config: Config, store: Store, embedder: Embedder, tenants: Iterable[str]) -> dict[str, str]:
    """Per tenant the digest of its present inputs; a tenant without a single chunk table is absent.

    Raises:
        ModelError: the embedding model's revision is known to a server only, and that does not answer.
    """
    digests = {tenant: chunk_digests(config, store, tenant) for tenant in tenants}
    return {
        tenant: tenant_inputs(
            config,
            chunks,
            embedder.name,
            shared_pages(store, chunks) | left_out_inputs(store, tenant),
            page_facts(store, chunks),
        )
        for tenant, chunks in digests.items()
        if chunks
    }


def shared_pages(store: Store, sources: Iterable[str]) -> dict[str, str]:
    """Return the digest of each source's pages where one of them shows pages that are not its own; else nothing."""
    states = {key: read_state(store, key).sections for key in sources}
    if len(states) < 2 or not any(state.missed for state in states.values() if state is not None):
        return {}
    return {key: state.pages for key, state in states.items() if state is not None}


def published_damage(config: Config, store: Store, tenant: str, depth: Depth) -> list[Damage]:
    """Return the damage of the published generation, and of its record; nothing if none is published."""
    current = store.current(tenant)
    if current is None:
        return []
    fault = publication_fault(store, tenant)
    if is_only_followed(config, store.tenant(tenant)):
        return [fault] if fault else []  # its files are on the machines that build
    return [*([fault] if fault else []), *find_damage(store, tenant, current, config, depth)]


def published_inputs(store: Store, tenant: str) -> str | None:
    """Return the inputs of the last published generation, or None if nothing usable is published.

    A tenant that was rolled back counts as published: a person chose the older generation, and only new inputs
    undo that.
    """
    current, state = store.current(tenant), read_publish_state(store, tenant)
    if current is None or state is None or not (store.generation(tenant, current) / "manifest.json").is_file():
        return None
    return state.inputs
