"""The state of a tenant for Prometheus: how old its pages are, which parts answer.

Belongs here: the series that are read when they are asked for, and that operators alone see. Does not belong here: what
processes count (`telemetry.metrics`), the same state in words (`tenant_status`), whether a source is overdue
(`config.freshness`).
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import UTC, datetime
from math import floor

from prometheus_client import CollectorRegistry, generate_latest

from rag_serving.api.tenant_status import published_at, source_states
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config
from rag_serving.indexes.current import UnpublishedError
from rag_serving.indexes.source_dates import source_pages
from rag_serving.telemetry.job_series import JobSeries
from rag_serving.telemetry.series import gauge_of


def status_series(
    pipeline: Pipeline, jobs: JobSeries, is_followed: bool | None = None, now: datetime | None = None
) -> bytes:
    """Return the series in Prometheus' text format. Nothing is waited for but a database, and that for a bounded time.

    `is_followed`: whether this machine has what was published last in an object store; None where there is none.
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
    """Add the generation that answers; nothing where none is open, which `generation_state` tells."""
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
    """Return whether each part answers; None where it is not configured."""
    config, reads = pipeline.config, pipeline.published.is_source_up()
    on_disk = config.index.kind == "disk"
    return {
        "home": reads and config.home.exists() if on_disk else None,
        "database": jobs.is_database_up(),
        "index": None if on_disk else reads,
    }


def _free_ratio(config: Config) -> float | None:
    """Return the free share of the home's disk. In steps of 0.01: what other tenants write is not to be read from
    it."""
    try:
        usage = shutil.disk_usage(config.home)
    except OSError:
        return None
    return floor(100 * usage.free / usage.total) / 100 if usage.total else None
