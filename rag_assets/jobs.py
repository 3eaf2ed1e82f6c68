"""The jobs: which assets are made together, and what the clock starts.

`ingest` and `publish` run where `orchestration.executor` says, the others, which are short, in the process of their
run. A sync for each source that has a cron expression, and the report of a day: schedules, all RUNNING by default,
because whoever writes `schedule:` into the configuration wants it.
"""

from collections.abc import Iterator
from datetime import timedelta

import dagster as dg

from rag_assets.asset_checks import synced_on_time
from rag_assets.assets.run_queue import PARTITION
from rag_assets.partitions import partitions_in_flight
from rag_assets.publishing.publish import narrow_readers as narrow_published
from rag_assets.resources import Installation
from rag_serving.config.loading import Config, ConfigError


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
