"""The operator's view of a tenant: publication, freshness of its sources, problems.

Belongs here: composing it in words, and as Prometheus series that are read on demand and visible to operators alone.
Does not belong here: routes (`operations`), overdue sources (`config.sources`), counters of processes
(`telemetry.metrics`).

Nothing here names a page, an address or a credential, but why the first sync of a source failed.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from math import floor
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from rag_serving.artifacts.signed_files import read_sync_time
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config
from rag_serving.config.sources import judge
from rag_serving.documents.noted import NotedPages
from rag_serving.escaping.redaction import redacted
from rag_serving.indexes.current import UnpublishedError
from rag_serving.indexes.served import DatedPages, source_pages
from rag_serving.telemetry.metrics import gauge_of
from rag_serving.telemetry.usage import JobSeries

_NO_PAGES = DatedPages(0, None)


def status_of(pipeline: Pipeline, behind: str | None = None, now: datetime | None = None) -> dict[str, Any]:
    """Return the JSON shape of a tenant's state.

    Args:
        pipeline: the tenant's.
        behind: why this machine lacks the last publication; None if it has it.
        now: the present moment.
    """
    moment, config = now or datetime.now(UTC), pipeline.config
    store, tenant = Store(config.home), pipeline.tenant
    generation, pages, problems = _published(pipeline, store)
    breakers = pipeline.breakers()
    failing = [f"{name}: left alone after failures" for name, state in breakers.items() if state != "closed"]
    return {
        "tenant": tenant,
        "version": version("citelock"),
        "generation": generation,
        "sources": _sources(config, tenant, pages, moment),
        "phase": _phase(pipeline),
        "features": config.features.model_dump(),
        "breakers": [{"name": name, "state": state} for name, state in breakers.items()],
        "degraded": [redacted(line) for line in (*([behind] if behind else []), *problems, *failing)],
        "models": {
            "embedder": _model(config.embedding.provider, config.embedding.model),
            "generator": _model(config.generation.provider, config.generation.model),
            "reranker": _model(None, config.reranker.model) if pipeline.reranker else None,
        },
    }


def _phase(pipeline: Pipeline) -> dict[str, Any]:
    """Return the configured retrieval phase and the one in force in this process, with reason, start, and the figures
    of its window."""
    settings, state, chosen = pipeline.phases.settings, pipeline.phases.state(), pipeline.phases.chosen
    configured = pipeline.phases.configured
    told: dict[str, Any] = {
        "enabled": settings.enabled,
        "phase": settings.phase if settings.enabled else None,
        "configured": {
            "enabled": configured.enabled,
            "phase": configured.phase,
            "canary": configured.canary.model_dump() if configured.canary else None,
        },
        "chosen": vars(chosen) if chosen else None,
    }
    if state is None:
        return told
    told["phase"] = state.in_force or None if settings.enabled else None
    told["enabled"] = settings.enabled and state.in_force > 0
    changes = [{**vars(change), "at": change.at.isoformat(timespec="seconds")} for change in state.changes]
    return {
        **told,
        "why": state.why if settings.enabled else _why_off(configured.enabled),
        "since": state.since.isoformat(timespec="seconds"),
        "window": vars(state.window),
        "changes": changes,
        "hanging": pipeline.phases.hanging,
    }


def _why_off(is_configured: bool) -> str:
    return "an operator switched retrieval off" if is_configured else "retrieval.enabled is false"


def _published(
    pipeline: Pipeline, store: Store
) -> tuple[dict[str, Any] | None, Mapping[str, DatedPages], tuple[str, ...]]:
    """Return the generation that answers, its part of each source, and its faults."""
    stale: list[str] = []
    try:
        with pipeline.published.acquire(lambda: stale.append("a newer generation cannot be opened yet")) as held:
            shown = {
                "id": held.id,
                "published_at": published_at(store, pipeline.tenant, held.id),
                "chunks": held.manifest.chunks,
                "pages": held.manifest.page_count,
            }
            return shown, source_pages(held), (*stale, *held.degraded)
    except UnpublishedError as error:
        return None, {}, (str(error),)


def published_at(store: Store, tenant: str, generation_id: str) -> str | None:
    """Return when a generation was first published, ISO 8601; None if the record is lost."""
    try:
        return store.publication(tenant).history.get(generation_id)
    except StoreError:
        return None


@dataclass(frozen=True)
class SourceState:
    """The time of a source's last full sync; None if it is unknown here. `sync`: how far its first one is."""

    last_sync: datetime | None
    overdue: bool | None
    sync: Mapping[str, Any] | None = None


def source_states(config: Config, tenant: str, now: datetime) -> dict[str, SourceState]:
    """Return the tenant's configured sources. One that was never synced is overdue, unless the pages come from a
    database and the home folder of this machine has no sources."""
    store = Store(config.home)
    return {
        key: _source_state(config, store, key, now) for key, source in config.sources.items() if source.tenant == tenant
    }


def _source_state(config: Config, store: Store, key: str, now: datetime) -> SourceState:
    synced, sync = read_sync_time(store, key), NotedPages(store.source(key)).progress()
    if synced is None:
        return SourceState(None, None if config.index.kind != "disk" and not store.source(key).exists() else True, sync)
    judged = judge(config.sources[key], config.monitoring, now, last_sync=synced, known_since=synced)
    return SourceState(synced, judged.overdue, sync)


def _sources(config: Config, tenant: str, pages: Mapping[str, DatedPages], now: datetime) -> list[dict[str, Any]]:
    """Return the tenant's sources, configured ones first; a removed source has no sync state."""
    states = source_states(config, tenant, now)
    listed = dict.fromkeys((*states, *pages))
    return [_source(config, key, pages.get(key, _NO_PAGES), states.get(key)) for key in listed]


def _source(config: Config, key: str, found: DatedPages, state: SourceState | None) -> dict[str, Any]:
    synced = state.last_sync if state else None
    return {
        "key": key,
        "kind": config.sources[key].kind if state else None,
        "pages": found.pages,
        "last_sync": synced.isoformat(timespec="seconds") if synced else None,
        "newest_page": found.newest.isoformat(timespec="seconds") if found.newest else None,
        "overdue": state.overdue if state and synced else None,
        "sync": state.sync if state else None,
    }


def _model(provider: str | None, model: str | None) -> str | None:
    """Return a model by its name: of a folder the last part, of anything else no credential."""
    name = model and redacted(Path(model).name if model.startswith(("/", ".", "~")) else model)
    return "/".join(filter(None, (provider, name))) or None


def status_series(
    pipeline: Pipeline, jobs: JobSeries, is_followed: bool | None = None, now: datetime | None = None
) -> bytes:
    """Return the series in Prometheus' text format. Only a database is waited for, and for a bounded time.

    `is_followed`: whether this machine has the last publication of an object store; None without a store.
    """
    registry, config, tenant = CollectorRegistry(), pipeline.config, pipeline.tenant
    _add_generation(registry, pipeline)
    _add_sources(registry, config, tenant, now or datetime.now(UTC))
    parts = gauge_of("part_up", registry)
    for part, is_up in {**_parts(pipeline, jobs), "object_store": is_followed}.items():
        if is_up is not None:
            parts.labels(tenant, part).set(is_up)
    free = _free_ratio(config)
    if free is not None:
        gauge_of("home_free_ratio", registry).labels(tenant).set(free)
    return generate_latest(registry)


def _add_generation(registry: CollectorRegistry, pipeline: Pipeline) -> None:
    """Add the answering generation; nothing if none is open, which `generation_state` reports."""
    if pipeline.published.answers_from() == "none":
        return
    tenant, store = pipeline.tenant, Store(pipeline.config.home)
    with suppress(UnpublishedError), pipeline.published.acquire() as generation:
        manifest = generation.manifest
        gauge_of("generation_info", registry).labels(tenant, generation.id).set(1)
        created = gauge_of("generation_created_timestamp_seconds", registry)
        created.labels(tenant).set(manifest.created_at.timestamp())
        if since := published_at(store, tenant, generation.id):
            published = gauge_of("generation_published_timestamp_seconds", registry)
            published.labels(tenant).set(datetime.fromisoformat(since).timestamp())
        gauge_of("generation_chunks", registry).labels(tenant).set(manifest.chunks)
        pages = gauge_of("generation_pages", registry)
        for source, found in source_pages(generation).items():
            pages.labels(tenant, source).set(found.pages)


def _add_sources(registry: CollectorRegistry, config: Config, tenant: str, now: datetime) -> None:
    synced, overdue = gauge_of("source_last_sync_timestamp_seconds", registry), gauge_of("source_overdue", registry)
    for key, state in source_states(config, tenant, now).items():
        if state.last_sync:
            synced.labels(tenant, key).set(state.last_sync.timestamp())
        if state.overdue is not None:
            overdue.labels(tenant, key).set(state.overdue)


def _parts(pipeline: Pipeline, jobs: JobSeries) -> dict[str, bool | None]:
    """Return whether each part answers; None if it is not configured."""
    config, reads = pipeline.config, pipeline.published.is_source_up()
    on_disk = config.index.kind == "disk"
    return {
        "home": reads and config.home.exists() if on_disk else None,
        "database": jobs.is_database_up(),
        "index": None if on_disk else reads,
    }


def _free_ratio(config: Config) -> float | None:
    """Return the free share of the home's disk, in steps of 0.01, so that it does not reveal other tenants' writes."""
    try:
        usage = shutil.disk_usage(config.home)
    except OSError:
        return None
    return floor(100 * usage.free / usage.total) / 100 if usage.total else None
