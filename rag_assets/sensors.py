"""The jobs, what the clock starts, and sensors for events: partitions in the configuration, tenants whose sources
changed, reports on news.

`ingest` and `publish` run where `orchestration.executor` says, the others, which are short, in the process of their
run. Schedules are all RUNNING by default, because whoever writes `schedule:` into the configuration wants it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any, TypeAlias, TypeVar

import dagster as dg

from rag_assets import metadata
from rag_assets.asset_checks import synced_on_time
from rag_assets.assets.run_queue import PARTITION, WRITES
from rag_assets.monitoring import alerts
from rag_assets.partitions import SOURCES, TENANTS, changes, partitions_in_flight
from rag_assets.publishing.documents import note_stopped
from rag_assets.publishing.publish import narrow_readers as narrow_published
from rag_assets.resources import Installation
from rag_assets.runs import INBOXES, STARTED_BY, UNKNOWN, end_orphans, never_started, run_config, step_failure
from rag_assets.runs import JOB as ADD_DOCUMENTS
from rag_assets.state.locks import is_held, refresh_decisions
from rag_assets.state.planning import (
    RETRY_SECONDS,
    PublishAttempt,
    publish_requests,
    published_damage,
    published_inputs,
    unseen_uploads,
    uploads_to_take,
    wanted_inputs,
    watching_folder,
)
from rag_assets.state.records import last_sync
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config, ConfigError
from rag_serving.config.sources import last_ticks
from rag_serving.escaping.redaction import redacted
from rag_serving.indexes.current import UnpublishedError
from rag_serving.indexes.databases import RemoteError
from rag_serving.receipts.receipt import ReceiptError


@dg.failure_hook(required_resource_keys={"installation"})
def narrow_readers(context: dg.HookContext) -> None:
    """Publish at once, in the process of the step that failed, that fewer people may read a page."""
    run = context.instance.get_run_by_id(context.run_id)
    tenant = run.tags.get(PARTITION, "") if run else ""
    try:
        config = context.resources.installation.config()
    except ConfigError:  # the step says so
        return
    if tenant in config.tenants:
        narrow_published(config, tenant, context.log.warning, context.run_id)


ingest = dg.define_asset_job(
    "ingest",
    selection=dg.AssetSelection.groups("ingest"),
    description="Sync one source and bring its sections and chunks up to date. Cost follows what changed.",
)
publish = dg.define_asset_job(
    "publish",
    selection=dg.AssetSelection.groups("publish"),
    hooks={narrow_readers},
    description="Build a tenant's next generation from the chunks of its sources, check it, and publish it. Whatever "
    "fails, pages that fewer people may read by now are published for those alone.",
)
report = dg.define_asset_job(
    "report",
    executor_def=dg.in_process_executor,
    selection=dg.AssetSelection.assets("quality_report", "retrieval_report", "dedup_report", "contradictions"),
    description="Tell analysts of a tenant's published generation. Nothing waits for it; its failure stops nothing.",
)
report_day = dg.define_asset_job(
    "report_day",
    executor_def=dg.in_process_executor,
    selection=dg.AssetSelection.assets("telemetry_report"),
    description="Tell analysts of the questions of a day, and delete what is too old.",
)
freshness = dg.define_asset_job(
    "freshness",
    executor_def=dg.in_process_executor,
    selection=dg.AssetSelection.checks(synced_on_time),
    description="Judge whether a source is synced on time. Started by the sensor `watch_sources` when that changed.",
)


@dg.schedule(
    name="report_yesterday",
    job=report_day,
    cron_schedule="15 0 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Reports on the day that has just ended.",
)
def report_yesterday(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    day = (context.scheduled_execution_time - timedelta(days=1)).date()
    return dg.RunRequest(partition_key=day.isoformat(), run_key=day.isoformat())


def schedules(config: Config) -> list[dg.ScheduleDefinition]:
    """Return one schedule for each source that has a cron expression."""
    return [_schedule(key, source.schedule) for key, source in sorted(config.sources.items()) if source.schedule]


def schedule_name(key: str) -> str:
    """Return the name of a source's schedule."""
    return f"ingest_{key.replace('-', '__')}"


def _schedule(key: str, cron: str) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=schedule_name(key),
        job=ingest,
        cron_schedule=cron,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Syncs source {key!r}.",
    )
    def tick(
        context: dg.ScheduleEvaluationContext, installation: Installation
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        if reason := why_skipped(context.instance, installation, key):
            yield dg.SkipReason(reason)
        else:
            yield dg.RunRequest(partition_key=key, run_key=f"{key}:{context.scheduled_execution_time.isoformat()}")

    return tick


def why_skipped(instance: dg.DagsterInstance, installation: Installation, key: str) -> str | None:
    """Return why a source is not synced at this tick, as things are now; None if it is."""
    try:
        source = installation.config().sources.get(key)
    except ConfigError as error:
        return str(error)
    if source is None or source.schedule is None:
        lacks = "the configuration has no source" if source is None else "the configuration has no schedule for source"
        return f'{lacks} {key!r} any more; use "Reload definitions", and this schedule is gone'
    if not instance.has_dynamic_partition("sources", key):
        return f"source {key!r} is not registered yet; the sensor `register_partitions` does that"
    if key in partitions_in_flight(instance, "ingest"):
        return f"source {key!r} is still being synced"
    return None


Remembered = TypeVar("Remembered")
Decision: TypeAlias = dg.SensorResult | dg.SkipReason
Decide: TypeAlias = Callable[[dg.SensorEvaluationContext, Config], Decision]


def configured_sensor(**options: Any) -> Callable[[Decide], dg.SensorDefinition]:
    """Return a decorator: a running sensor, with options of `dagster.sensor`, that is given the configuration as it is
    at each tick."""

    def defined(decide: Decide) -> dg.SensorDefinition:
        @dg.sensor(default_status=dg.DefaultSensorStatus.RUNNING, **options)
        def tick(context: dg.SensorEvaluationContext, installation: Installation) -> Decision:
            config = configured(installation)
            if isinstance(config, dg.SkipReason):
                return config
            if problem := refresh_decisions(config):
                return dg.SkipReason(problem)  # nothing is started by what may be old
            return decide(context, config)

        return tick

    return defined


@configured_sensor(
    name="register_partitions",
    job=ingest,
    minimum_interval_seconds=30,
    description="Keeps the partitions `sources` and `tenants` in line with the configuration. Syncs a new source by "
    "its schedule until Dagster has loaded that.",
)
def register_partitions(context: dg.SensorEvaluationContext, config: Config) -> Decision:
    changed = changes(context.instance, config)
    definitions = {"sources": SOURCES, "tenants": TENANTS}
    requests: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    for name, change in changed.items():
        if change.add:
            requests.append(definitions[name].build_add_request(list(change.add)))
        if change.delete:
            requests.append(definitions[name].build_delete_request(list(change.delete)))
    if told := schedules_to_reload(context.repository_def.schedule_defs if context.repository_def else None, config):
        context.log.warning(told)
    if due := _syncs_without_schedule(context, config):
        return dg.SensorResult(run_requests=due, dynamic_partitions_requests=requests)
    if requests:
        return dg.SensorResult(dynamic_partitions_requests=requests)
    return dg.SkipReason(told or "nothing changed")


def _syncs_without_schedule(context: dg.SensorEvaluationContext, config: Config) -> list[dg.RunRequest]:
    """Return the syncs that are due of sources whose schedule Dagster has not loaded, after their first sync."""
    if context.repository_def is None:
        return []
    loaded = {one.name for one in context.repository_def.schedule_defs}
    store, now = Store(config.home), datetime.now(UTC)
    due: dict[str, datetime] = {}
    for key, source in config.sources.items():
        if source.schedule and schedule_name(key) not in loaded and (synced := last_sync(store, key)):
            (tick,) = last_ticks(source.schedule, now, 1)
            due |= {key: tick} if synced < tick else {}
    away = _in_flight(context, "ingest", ADD_DOCUMENTS) if due else frozenset()
    return [
        dg.RunRequest(partition_key=key, run_key=f"{key}:{tick.isoformat()}")
        for key, tick in due.items()
        if key not in away and context.instance.has_dynamic_partition("sources", key)
    ]


@configured_sensor(
    name="ingest_uploads",
    job_name=ADD_DOCUMENTS,
    minimum_interval_seconds=1,
    description="Starts `add_documents` for an upload inbox when a document was put in, replaced or deleted, for a "
    "wiki that told of changes, and for a source that was just connected, which it registers. Leaves it to the process "
    "that waits for uploads, where there is one that is not busy with another tenant's, and waits for a sync that is "
    "in flight.",
)
def ingest_uploads(context: dg.SensorEvaluationContext, config: Config) -> Decision:
    store = Store(config.home)
    registered = context.instance.get_dynamic_partitions("sources")
    unseen = unseen_uploads(config, store)
    waiting = {key: mark for key, mark in unseen.items() if key in registered}
    is_watched = bool(waiting) and is_held(watching_folder(store))
    busy_with = _tenants_of_inboxes_process(context, config) if is_watched else frozenset()
    delayed = [key for key in waiting if busy_with and config.sources[key].tenant not in busy_with]
    now = time.time()
    new = unseen.keys() - waiting.keys()
    taken, seen = uploads_to_take(waiting, _remembered(context.cursor, _seen_upload), is_watched, now, delayed)
    syncing = _in_flight(context, "ingest", ADD_DOCUMENTS) if taken else frozenset()
    requests = [
        dg.RunRequest(
            run_key=f"{key}:{waiting[key]}:{int((now - seen[key][1]) // RETRY_SECONDS)}",  # again, if that run failed
            run_config=run_config(key),
            tags={PARTITION: key, WRITES: f"{ADD_DOCUMENTS}.{key}"},
        )
        for key in taken
        if key not in syncing
    ]
    reason = f"being synced, or about to be: {', '.join(sorted(waiting))}" if waiting else "nothing is new"
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else dg.SkipReason(reason),
        cursor=json.dumps(seen),
        dynamic_partitions_requests=[SOURCES.build_add_request(sorted(new))] if new else None,
    )


@configured_sensor(
    name="publish_when_sources_changed",
    job=publish,
    minimum_interval_seconds=30,
    description="Starts `publish` for a tenant when the chunks of one of its sources, or its settings, are not what "
    "the published generation was made from, or when that is damaged. Waits for syncs in flight, starts nothing twice.",
)
def publish_when_sources_changed(context: dg.SensorEvaluationContext, config: Config) -> Decision:
    from rag_serving.models import open_embedder

    store = Store(config.home)
    registered = set(context.instance.get_dynamic_partitions("tenants")) & config.tenants.keys()
    sources = _in_flight(context, "ingest", ADD_DOCUMENTS)
    syncing = {config.sources[key].tenant for key in sources if key in config.sources}
    memory, now = read_cursor(context.cursor), time.time()
    decision = publish_requests(
        wanted=wanted_inputs(config, store, open_embedder(config.embedding), sorted(registered)),
        published={
            tenant: None if published_damage(config, store, tenant, "sizes") else published_inputs(store, tenant)
            for tenant in registered
        },
        publishing=_in_flight(context, "publish"),
        syncing=syncing,
        memory=memory,
        now=now,
        never_started=never_started(context.instance, memory, now),
    )
    requests = [
        dg.RunRequest(partition_key=tenant, run_key=decision.memory[tenant].run_key(tenant))
        for tenant in decision.start
    ]
    reasons = "; ".join(f"{tenant}: {reason}" for tenant, reason in decision.skipped.items())
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if decision.start else dg.SkipReason(reasons or "no tenant has chunks yet"),
        cursor=write_cursor(decision.memory),
    )


@configured_sensor(
    name="report_when_published",
    job=report,
    minimum_interval_seconds=60,
    description="Starts `report` once for every publication, also of a generation that was published before.",
)
def report_when_published(context: dg.SensorEvaluationContext, config: Config) -> Decision:
    store = Store(config.home)
    current = {tenant: store.current(tenant) for tenant in sorted(context.instance.get_dynamic_partitions("tenants"))}
    requests = [
        dg.RunRequest(partition_key=tenant, run_key=f"{tenant}:{generation}:{_publication_number(store, tenant)}")
        for tenant, generation in current.items()
        if generation is not None
    ]
    return dg.SensorResult(
        run_requests=requests, skip_reason=None if requests else dg.SkipReason("nothing is published yet")
    )


@configured_sensor(
    name="watch_sources",
    job=freshness,
    minimum_interval_seconds=60,
    description="Finds sources whose last complete sync is too old, each by its own schedule: a dead one shows as the "
    "failed check `synced_on_time` of its partition of `pages`, and is told to whom `monitoring` names.",
)
def watch_sources(context: dg.SensorEvaluationContext, config: Config) -> Decision:
    now = datetime.now(UTC)
    syncing = partitions_in_flight(context.instance, "ingest")
    verdicts, memory = alerts.look(config, Store(config.home), syncing, alerts.read_memory(context.cursor), now)
    for event in alerts.freshness_events(config, verdicts, now):
        _tell(context, event, config)
    overdue = [verdict.source for verdict in verdicts if verdict.freshness.overdue]
    registered = context.instance.get_dynamic_partitions("sources")
    changed = [item.source for item in verdicts if item.changed and item.source in registered]
    reason = f"overdue: {', '.join(overdue)}" if overdue else "every source is synced on time"
    return dg.SensorResult(
        # A job of checks alone has no partitions of its own to choose a key from; the run has it all the same.
        run_requests=[dg.RunRequest(run_key=f"{key}:{now.isoformat()}", tags={PARTITION: key}) for key in changed],
        skip_reason=None if changed else dg.SkipReason(reason),
        cursor=alerts.write_memory(memory),
    )


@configured_sensor(
    name="notify_followers",
    minimum_interval_seconds=30,
    description="After each publication, and while a notice is not delivered: tells users who follow an answer that "
    "its pages say something else now. `published_generation` shows how many answers no longer match their pages.",
)
def notify_followers(context: dg.SensorEvaluationContext, config: Config) -> Decision:
    store, seen, done, told = Store(config.home), _remembered(context.cursor, str), dict[str, str](), list[str]()
    for tenant in sorted(config.tenants) if config.monitoring.sends_notices else ():
        mark = f"{store.current(tenant)}:{_publication_number(store, tenant)}"
        if seen.get(tenant) != mark:
            try:
                counts = alerts.notify(config, tenant)
            except (ReceiptError, UnpublishedError, RemoteError) as error:
                told.append(f"{tenant}: {redacted(str(error))}")
                continue
            told.append(f"{tenant}: {counts.line}")
            if counts.followed:
                observed = dg.AssetObservation("published_generation", partition=tenant, metadata=vars(counts))
                context.instance.report_runless_asset_event(observed)
            if counts.undelivered:
                continue
        done[tenant] = mark
    reason = "; ".join(told) or "nothing was published since"
    return dg.SensorResult(skip_reason=dg.SkipReason(reason), cursor=json.dumps(done))


@dg.run_failure_sensor(
    name="alert_when_a_build_fails",
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Tells whom `monitoring` names of runs of `ingest` and `publish` that fail: of the first, second, "
    "fourth, eighth … in a row. What was told, and whether it was taken, stands beside the asset's partition.",
)
def alert_when_a_build_fails(context: dg.RunFailureSensorContext, installation: Installation) -> dg.SkipReason | None:
    """Return one failure a tick: a result ends the tick and keeps its position, so that no slow hook is called
    twice."""
    run = context.dagster_run
    partition = run.tags.get(PARTITION)
    job = run.tags.get(WRITES, run.job_name).split(".")[0]
    if job not in ASSET_OF or not partition:
        return None  # no build; the tick goes on
    failures = failures_in_a_row(context.instance, run)
    config = configured(installation)
    if isinstance(config, dg.SkipReason):
        return config
    if job == "publish":
        note_stopped(config, partition)
    reasons = [step_failure(event) for event in context.get_step_failure_events()]
    error = redacted(next((reason for reason in reasons if reason), UNKNOWN))
    event = alerts.failure_event(job, partition, run.run_id, error, failures, datetime.now(UTC))
    results = (
        _tell(context, event, config) if alerts.is_nth_alert(failures) else ["not told, it is one of many in a row"]
    )
    alert = "; ".join(results) or "none is configured"
    context.instance.report_runless_asset_event(
        dg.AssetObservation(
            ASSET_OF[job],
            description=metadata.described(event["text"]),
            partition=partition,
            metadata={
                "error": error,
                "failures_in_a_row": failures,
                "alert": alert,
                "run": dg.MetadataValue.dagster_run(run.run_id),
            },
        )
    )
    return dg.SkipReason(f"{event['text']} (alert: {alert})")


def schedules_to_reload(loaded: Sequence[dg.ScheduleDefinition] | None, config: Config) -> str | None:
    """Return the sources whose schedule differs from the one loaded by Dagster, and the necessary action; None: none
    differs, or it is unknown."""
    have = {one.name: one.cron_schedule for one in loaded or ()}
    want = {one.name: one.cron_schedule for one in schedules(config)}
    names = [name for name in sorted(have | want) if name.startswith("ingest_") and have.get(name) != want.get(name)]
    return f'use "Reload definitions" for changed schedules: {", ".join(names)}' if names and have else None


def _publication_number(store: Store, tenant: str) -> int:
    """Return which publication of the tenant is in force; 0 if no record says it."""
    try:
        return store.publication(tenant).number
    except StoreError:
        return 0


def _tenants_of_inboxes_process(context: dg.SensorEvaluationContext, config: Config) -> frozenset[str]:
    started = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED], tags={STARTED_BY: INBOXES})
    runs = context.instance.get_runs(started, limit=10)
    keys = [(run.job_name, run.tags.get(PARTITION, "")) for run in runs]
    sources = config.sources
    return frozenset(sources[key].tenant if key in sources and job == "ingest" else key for job, key in keys)


def _in_flight(context: dg.SensorEvaluationContext, *jobs: str) -> frozenset[str]:
    """Return the partitions with runs of the jobs in flight; runs whose process was killed are ended before."""
    end_orphans(context.instance)
    return frozenset().union(*(partitions_in_flight(context.instance, job) for job in jobs))


ASSET_OF = {"ingest": "pages", "publish": "published_generation"}
"""The asset whose partition shows that a run of the job failed."""
LONGEST_STREAK = 256


def failures_in_a_row(instance: dg.DagsterInstance, run: dg.DagsterRun) -> int:
    """Return how many runs of the same job and partition failed one after the other, this one being the last."""
    ended = dg.RunsFilter(
        job_name=run.job_name,
        tags={PARTITION: run.tags[PARTITION]},
        statuses=[dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE],
    )
    runs = instance.get_runs(ended, cursor=run.run_id, limit=LONGEST_STREAK)  # those before, the newest first
    before = takewhile(lambda one: one.status == dg.DagsterRunStatus.FAILURE, runs)
    return 1 + sum(1 for _ in before)


def _tell(
    context: dg.SensorEvaluationContext | dg.RunFailureSensorContext, event: alerts.Event, config: Config
) -> list[str]:
    results = alerts.send(event, config.monitoring)
    context.log.warning("%s (alert: %s)", event["text"], "; ".join(results) or "none is configured")
    return results


def configured(installation: Installation) -> Config | dg.SkipReason:
    """Return the configuration as it is now, or skip: nothing is decided on one that cannot be read."""
    try:
        return installation.config()
    except ConfigError as error:
        return dg.SkipReason(str(error))


def _remembered(cursor: str | None, read: Callable[[Any], Remembered]) -> dict[str, Remembered]:
    """Return the memory of the last tick, each value as it is read; nothing if that cannot be read."""
    try:
        return {str(key): read(value) for key, value in json.loads(cursor or "{}").items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def _seen_upload(value: Any) -> tuple[str, float]:
    mark, first = value
    return str(mark), float(first)


def read_cursor(cursor: str | None) -> dict[str, PublishAttempt]:
    """Return the memory of the last tick; empty if unreadable."""
    return _remembered(cursor, lambda attempt: PublishAttempt(**attempt))


def write_cursor(memory: Mapping[str, PublishAttempt]) -> str:
    return json.dumps({tenant: vars(attempt) for tenant, attempt in sorted(memory.items())})
