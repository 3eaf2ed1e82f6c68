"""Readiness of a process (`GET /readyz`), and a tenant's state for operators, in words and as Prometheus series. At its
start a process waits for every tenant that has a published generation, so that a replica which takes the place of
another can answer what that one could. Once it was ready, it is while any tenant has answers: all replicas see the same
new tenant, or the same damaged generation, at the same time, and none of that may take them all away. Nothing here
names a page, an address or a credential, but why the first sync of a source failed."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from math import floor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, generate_latest

from rag_serving.api.wire import error_body
from rag_serving.artifacts.signed_files import read_sync_time
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config
from rag_serving.config.sources import judge
from rag_serving.deadline import run_in_thread
from rag_serving.documents.noted import NotedPages
from rag_serving.escaping.redaction import redacted
from rag_serving.indexes.current import UnpublishedError
from rag_serving.indexes.databases import DatedPages, source_pages
from rag_serving.telemetry.metrics import gauge_of
from rag_serving.telemetry.usage import BuildSeries

OPEN_WAIT_S = 60.0
"""Seconds since its start that a process waits for a tenant whose generation is being opened: a disk may hang."""
LEAVING = "this server ends; send questions to another one"


class TenantState(NamedTuple):
    """Why a tenant cannot be answered, None if it can, and whether it is fetching or opening."""

    problem: str | None
    fetching: str | None = None
    is_opening: bool = False
    still_answers: bool = False
    """Although there is a problem: earlier answers can be given, or degraded ones."""


class Readiness:
    """The readiness of a process since its start. Used by the event loop's thread alone."""

    def __init__(self) -> None:
        self._began, self._was_ready = time.monotonic(), False

    def of(self, states: Mapping[str, TenantState]) -> bool:
        """Return whether the process may be sent questions."""
        can_answer = any(state.problem is None or state.still_answers for state in states.values())
        may_open = time.monotonic() - self._began < OPEN_WAIT_S
        is_waiting = any(state.fetching is not None or (state.is_opening and may_open) for state in states.values())
        is_ready = can_answer and (self._was_ready or not is_waiting)
        self._was_ready = self._was_ready or is_ready
        return is_ready


def readiness_response(
    is_ready: bool, states: Mapping[str, TenantState], show: bool, configuration: str | None = None
) -> JSONResponse:
    """Return the answer of `/readyz`; names and reasons only if `show`: nobody else can ask. `configuration`: why
    its file is not used as it is now."""
    told = {tenant: state.fetching or state.problem for tenant, state in states.items()}
    content: dict[str, Any] = {"ready": is_ready} | ({"configuration": configuration} if configuration else {})
    if not is_ready:
        content |= error_body("NOT_READY", next(filter(None, told.values()), "no tenant is configured"))
    if not show:
        content.pop("message", None)
    else:
        content["tenants"] = {tenant: problem or "ok" for tenant, problem in told.items()}
    return JSONResponse(content, 200 if is_ready else 503)


MAX_THREADS = 256

Result = TypeVar("Result")


class BackgroundWork:
    """Runs work by its name; callers that ask for the same while it is under way share its outcome. Only the event
    loop's thread calls `run`."""

    def __init__(self) -> None:
        self._under_way: dict[str, Future[Any]] = {}

    async def run(self, name: str, work: Callable[[], Result], wait_s: float) -> Result:
        """Return the work's result, or raise its error. Raises TimeoutError: it takes longer, or too much other work
        hangs."""
        outcome: Future[Result] | None = self._under_way.get(name)
        if outcome is None:
            if len(self._under_way) >= MAX_THREADS:
                raise TimeoutError
            outcome = self._under_way[name] = run_in_thread(work, name.split()[0])
            outcome.add_done_callback(lambda _: self._under_way.pop(name, None))
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(outcome)), wait_s)


_NO_PAGES = DatedPages(0, None)


def status_of(pipeline: Pipeline, behind: str | None = None, now: datetime | None = None) -> dict[str, Any]:
    """Return the JSON shape of a tenant's state. `behind`: why this machine lacks the last publication, or None."""
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
    why_off = "an operator switched retrieval off" if configured.enabled else "retrieval.enabled is false"
    return {
        **told,
        "why": state.why if settings.enabled else why_off,
        "since": state.since.isoformat(timespec="seconds"),
        "window": vars(state.window),
        "changes": changes,
        "hanging": pipeline.phases.hanging,
    }


def _published(
    pipeline: Pipeline, store: Store
) -> tuple[dict[str, Any] | None, Mapping[str, DatedPages], tuple[str, ...]]:
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
    store, states = Store(config.home), {}
    for key, source in config.sources.items():
        if source.tenant != tenant:
            continue
        synced, sync = read_sync_time(store, key), NotedPages(store.source(key)).progress()
        overdue: bool | None = True
        if synced is not None:
            overdue = judge(source, config.monitoring, now, last_sync=synced, known_since=synced).overdue
        elif config.index.kind != "disk" and not store.source(key).exists():
            overdue = None
        states[key] = SourceState(synced, overdue, sync)
    return states


def _sources(config: Config, tenant: str, pages: Mapping[str, DatedPages], now: datetime) -> list[dict[str, Any]]:
    """Return the tenant's sources, configured ones first; a removed source has no sync state."""
    states, listed = source_states(config, tenant, now), []
    for key in dict.fromkeys((*states, *pages)):
        state, found = states.get(key), pages.get(key, _NO_PAGES)
        synced = state.last_sync if state else None
        shown = {
            "key": key,
            "kind": config.sources[key].kind if state else None,
            "pages": found.pages,
            "last_sync": synced.isoformat(timespec="seconds") if synced else None,
            "newest_page": found.newest.isoformat(timespec="seconds") if found.newest else None,
            "overdue": state.overdue if state and synced else None,
            "sync": state.sync if state else None,
        }
        listed.append(shown)
    return listed


def _model(provider: str | None, model: str | None) -> str | None:
    """Return a model by its name: of a folder the last part, of anything else no credential."""
    name = model and redacted(Path(model).name if model.startswith(("/", ".", "~")) else model)
    return "/".join(filter(None, (provider, name))) or None


def status_series(pipeline: Pipeline, builds: BuildSeries, is_followed: bool | None) -> bytes:
    """Return the series in Prometheus' text format. Only a database is waited for, and for a bounded time.
    `is_followed`: whether this machine has the last publication of an object store; None without a store."""
    registry, config, tenant = CollectorRegistry(), pipeline.config, pipeline.tenant
    _add_generation(registry, pipeline)
    synced, overdue = gauge_of("source_last_sync_timestamp_seconds", registry), gauge_of("source_overdue", registry)
    for key, state in source_states(config, tenant, datetime.now(UTC)).items():
        if state.last_sync:
            synced.labels(tenant, key).set(state.last_sync.timestamp())
        if state.overdue is not None:
            overdue.labels(tenant, key).set(state.overdue)
    parts = gauge_of("part_up", registry)
    for part, is_up in {**_parts(pipeline, builds), "object_store": is_followed}.items():
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


def _parts(pipeline: Pipeline, builds: BuildSeries) -> dict[str, bool | None]:
    config, reads = pipeline.config, pipeline.published.is_source_up()
    on_disk = config.index.kind == "disk"
    return {
        "home": reads and config.home.exists() if on_disk else None,
        "database": builds.is_database_up(),
        "index": None if on_disk else reads,
    }


def _free_ratio(config: Config) -> float | None:
    """Return the free share of the home's disk, in steps of 0.01, so that it does not reveal other tenants' writes."""
    try:
        usage = shutil.disk_usage(config.home)
    except OSError:
        return None
    return floor(100 * usage.free / usage.total) / 100 if usage.total else None
