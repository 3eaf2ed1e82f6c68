"""Decisions on due work for `citelock build` and the sensors: pure functions, and what they are told, from small files
only: no table is read and no model is called."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from rag_assets.sources import open_source
from rag_assets.state.locks import is_only_followed
from rag_assets.state.records import (
    ingest_settings,
    page_facts_digests,
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
    return (store.source(key) / f"{table}.parquet").is_file() or is_only_followed(config, store.source(key))


def wanted_inputs(config: Config, store: Store, embedder: Embedder, tenants: Iterable[str]) -> dict[str, str]:
    """Per tenant the digest of its present inputs; a tenant without a single chunk table is absent. Raises ModelError:
    the embedding model's revision is known to a server only, and that does not answer."""
    digests = {tenant: chunk_digests(config, store, tenant) for tenant in tenants}
    return {
        tenant: tenant_inputs(
            config,
            chunks,
            embedder.name,
            shared_pages(store, chunks) | left_out_inputs(store, tenant),
            page_facts_digests(store, chunks),
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
    """Return the inputs of the last published generation, or None if nothing usable is published. A tenant that was
    rolled back counts as published: a person chose the older generation, and only new inputs undo that."""
    current, state = store.current(tenant), read_publish_state(store, tenant)
    if current is None or state is None or not (store.generation(tenant, current) / "manifest.json").is_file():
        return None
    return state.inputs


QUIET_SECONDS = 600.0
"""How long a tenant's publish waits for syncs in flight before it goes ahead with what is there."""

RETRY_SECONDS = 900.0
"""How long after a publish that did not get through it is tried again; each time twice as long, a day at most."""

UNSEEN_SECONDS = 20.0
"""How long after a run was asked for it counts as never started where the instance has none: it is asked for again."""

LEFT_SECONDS = 30.0
"""How long the sensor leaves an upload to the process that waits for uploads."""


@dataclass(frozen=True)
class SourceFacts:
    """A source now, and what its tables were made from."""

    key: str
    tenant: str
    settings: str  # digest of all settings that shape its tables
    fingerprint: str | None  # None: only a sync can find out
    built_settings: str | None  # None: never built
    built_fingerprint: str | None


@dataclass(frozen=True)
class PartitionChanges:
    """Dynamic partitions that the configuration has and the instance lacks, and the other way round."""

    add: tuple[str, ...]
    delete: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.add or self.delete)


@dataclass(frozen=True)
class PublishAttempt:
    """The sensor's memory of a tenant between two ticks; times in seconds since the epoch."""

    inputs: str | None = None  # what a publish was last started for
    tries: int = 0  # how often, for the same inputs
    started_at: float = 0.0
    waiting_since: float | None = None  # when it first wanted to publish and let syncs finish

    def run_key(self, tenant: str) -> str:
        """Return the key of the run. It is of this occasion: inputs come again, and Dagster starts no run of a known
        key."""
        return f"{tenant}:{self.inputs}:{self.started_at}"

    def due(self, inputs: str, now: float) -> bool:
        """Return whether a publish for these inputs may start: the first time, or long enough after one that failed."""
        pause = min(RETRY_SECONDS * 2 ** max(self.tries - 1, 0), 86_400.0)
        return inputs != self.inputs or now - self.started_at >= pause


@dataclass(frozen=True)
class PublishRequests:
    """The publish runs to start, why the others wait, and what to remember."""

    start: Mapping[str, str]  # tenant -> digest of inputs
    skipped: Mapping[str, str]  # tenant -> reason
    memory: Mapping[str, PublishAttempt]


def sources_to_ingest(sources: Iterable[SourceFacts], full: bool = False) -> dict[str, str]:
    """Return the sources whose tables differ from a sync's result now, each with the reason. `full`: ingest even what
    has not changed."""
    due = {facts.key: _ingest_reason(facts, full) for facts in sources}
    return {key: reason for key, reason in due.items() if reason is not None}


def _ingest_reason(facts: SourceFacts, full: bool) -> str | None:
    if facts.built_settings is None:
        return "never built"
    if full:
        return "full build asked for"
    if facts.built_settings != facts.settings:
        return "its settings changed"
    if facts.fingerprint is None:
        return "only a sync can tell what changed"
    return None if facts.fingerprint == facts.built_fingerprint else "its pages changed"


def tenants_to_publish(wanted: Mapping[str, str], published: Mapping[str, str | None]) -> dict[str, str]:
    """Return the tenants whose published generation was made from other inputs, each with the reason. `wanted`: digests
    of present inputs, without tenants that have no chunk table; `published`: of the published ones, None: nothing is
    published."""
    return {
        tenant: "nothing published yet" if published.get(tenant) is None else "its chunks or settings changed"
        for tenant, inputs in wanted.items()
        if published.get(tenant) != inputs
    }


def uploads_to_take(
    waiting: Mapping[str, str],
    seen: Mapping[str, tuple[str, float]],
    is_watched: bool,
    now: float,
    delayed: Collection[str] = (),
) -> tuple[list[str], dict[str, tuple[str, float]]]:
    """Return the inboxes to start a run for, and the memory: each mark, and when it was first seen. If a process waits
    for uploads (`is_watched`) they are left to it, unless they have been there for LEFT_SECONDS. `waiting`: a mark by
    inbox with news, which differs for other work; `delayed`: inboxes that this process cannot take soon, as it is busy
    with another tenant's."""
    since = {
        key: (mark, seen[key][1] if key in seen and seen[key][0] == mark else now) for key, mark in waiting.items()
    }
    taken = [
        key for key, (_, first) in since.items() if not is_watched or key in delayed or now - first >= LEFT_SECONDS
    ]
    return taken, since


def partition_changes(
    configured: Collection[str], existing: Collection[str], in_flight: Collection[str] = ()
) -> PartitionChanges:
    """Bring dynamic partitions in line with the configuration; one with a run in flight is not deleted."""
    gone = set(existing) - set(configured) - set(in_flight)
    return PartitionChanges(add=tuple(sorted(set(configured) - set(existing))), delete=tuple(sorted(gone)))


def publish_requests(
    wanted: Mapping[str, str],
    published: Mapping[str, str | None],
    publishing: Collection[str],
    syncing: Collection[str],
    memory: Mapping[str, PublishAttempt],
    now: float,
    never_started: Collection[str] = (),
) -> PublishRequests:
    """Return the tenants to publish at this tick. A tenant is started once for the same inputs, and again after
    RETRY_SECONDS when that did not publish them. It waits for syncs in flight, so that two sources synced in the same
    minute are published once, but no longer than QUIET_SECONDS: a source that is always syncing must not starve the
    others. `wanted`: per tenant the digest of its present inputs. `published`: per tenant the digest in the published
    manifest. `publishing`: tenants with a publish run in flight. `syncing`: tenants with an ingest run in flight.
    `memory`: of the last tick. `now`: seconds since the epoch. `never_started`: tenants whose last run was requested
    and does not exist; that is no try."""
    start: dict[str, str] = {}
    skipped: dict[str, str] = {}
    remember: dict[str, PublishAttempt] = {}
    for tenant, inputs in wanted.items():
        before = memory.get(tenant, PublishAttempt())
        waiting_since = before.waiting_since if before.waiting_since is not None else now
        if published.get(tenant) == inputs:
            skipped[tenant], remember[tenant] = "nothing changed", PublishAttempt()
        elif tenant in publishing:
            skipped[tenant], remember[tenant] = "a publish run is in flight", before
        elif tenant not in never_started and not before.due(inputs, now):
            skipped[tenant], remember[tenant] = "the last publish did not get through; it is tried again later", before
        elif tenant in syncing and now - waiting_since < QUIET_SECONDS:
            skipped[tenant] = "a sync is in flight"
            remember[tenant] = replace(before, waiting_since=waiting_since)
        else:
            tries = before.tries + (tenant not in never_started) if before.inputs == inputs else 1
            start[tenant], remember[tenant] = inputs, PublishAttempt(inputs, tries, now)
    return PublishRequests(start, skipped, remember)
