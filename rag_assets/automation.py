"""What starts runs without a person: a schedule per source, and the sensors.

Belongs here: jobs, schedules, sensors, and what they are by default: all RUNNING, because whoever writes
`schedule:` into the configuration wants it, and a publish with nothing new is never started.
Does not belong here: the decisions (`rag_assets.plan`).
"""

import json
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta

import dagster as dg

from rag_assets.facts import published_inputs, wanted_inputs
from rag_assets.partitions import SOURCES, TENANTS, changes, partitions_in_flight
from rag_assets.plan import Attempt, publish_requests
from rag_assets.resources import Installation
from rag_serving.config import Config

ingest = dg.define_asset_job(
    "ingest",
    selection=dg.AssetSelection.groups("ingest"),
    description="Sync one source and bring its sections and chunks up to date. Cost follows what changed.",
)

publish = dg.define_asset_job(
    "publish",
    selection=dg.AssetSelection.groups("publish"),
    description="Build a tenant's next generation from the chunks of its sources, check it, and publish it.",
)

report = dg.define_asset_job(
    "report",
    selection=dg.AssetSelection.assets("dedup_report"),
    description="Tell analysts of a tenant's published generation. Nothing waits for it; its failure stops nothing.",
)

report_day = dg.define_asset_job(
    "report_day",
    selection=dg.AssetSelection.assets("telemetry_report"),
    description="Tell analysts of the questions of a day, and delete what is too old.",
)


@dg.sensor(
    name="register_partitions",
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Keeps the partitions `sources` and `tenants` in line with the configuration.",
)
def register_partitions(
    context: dg.SensorEvaluationContext, installation: Installation
) -> dg.SensorResult | dg.SkipReason:
    found = changes(context.instance, installation.config())
    definitions = {"sources": SOURCES, "tenants": TENANTS}
    requests: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    for name, change in found.items():
        if change.add:
            requests.append(definitions[name].build_add_request(list(change.add)))
        if change.delete:
            requests.append(definitions[name].build_delete_request(list(change.delete)))
    return dg.SensorResult(dynamic_partitions_requests=requests) if requests else dg.SkipReason("nothing changed")


@dg.sensor(
    name="publish_when_sources_changed",
    job=publish,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts `publish` for a tenant when the chunks of one of its sources, or its settings, are not what "
    "the published generation was made from. Waits for syncs in flight, starts nothing twice.",
)
def publish_when_sources_changed(context: dg.SensorEvaluationContext, installation: Installation) -> dg.SensorResult:
    from rag_serving.models import open_embedder

    config, store = installation.config(), installation.store()
    registered = set(context.instance.get_dynamic_partitions("tenants")) & config.tenants.keys()
    syncing = {
        config.sources[key].tenant for key in partitions_in_flight(context.instance, "ingest") if key in config.sources
    }
    decision = publish_requests(
        wanted=wanted_inputs(config, store, open_embedder(config.embedding), sorted(registered)),
        published={tenant: published_inputs(store, tenant) for tenant in registered},
        publishing=partitions_in_flight(context.instance, "publish"),
        syncing=syncing,
        memory=read_cursor(context.cursor),
        now=time.time(),
    )
    requests = [
        dg.RunRequest(
            partition_key=tenant, run_key=f"{tenant}:{store.current(tenant)}:{inputs}:{decision.memory[tenant].tries}"
        )
        for tenant, inputs in decision.start.items()
    ]
    reasons = "; ".join(f"{tenant}: {reason}" for tenant, reason in decision.skipped.items())
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if decision.start else dg.SkipReason(reasons or "no tenant has chunks yet"),
        cursor=write_cursor(decision.memory),
    )


@dg.sensor(
    name="report_when_published",
    job=report,
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts `report` once for every generation that is published.",
)
def report_when_published(context: dg.SensorEvaluationContext, installation: Installation) -> dg.SensorResult:
    store = installation.store()
    current = {tenant: store.current(tenant) for tenant in sorted(context.instance.get_dynamic_partitions("tenants"))}
    requests = [
        dg.RunRequest(partition_key=tenant, run_key=f"{tenant}:{generation}")
        for tenant, generation in current.items()
        if generation is not None
    ]
    return dg.SensorResult(
        run_requests=requests, skip_reason=None if requests else dg.SkipReason("nothing is published yet")
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
    day = (context.scheduled_execution_time - timedelta(days=1)).date().isoformat()
    return dg.RunRequest(partition_key=day, run_key=day)


def read_cursor(cursor: str | None) -> dict[str, Attempt]:
    """What the last tick remembered; nothing where that cannot be read."""
    try:
        return {tenant: Attempt(**attempt) for tenant, attempt in json.loads(cursor or "{}").items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def write_cursor(memory: Mapping[str, Attempt]) -> str:
    return json.dumps({tenant: vars(attempt) for tenant, attempt in sorted(memory.items())})


def schedules(config: Config) -> list[dg.ScheduleDefinition]:
    """One schedule for each source that has a cron expression."""
    return [_schedule(key, source.schedule) for key, source in sorted(config.sources.items()) if source.schedule]


def _schedule(key: str, cron: str) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=f"ingest_{key.replace('-', '__')}",
        job=ingest,
        cron_schedule=cron,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Syncs source {key!r}.",
    )
    def tick(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
        if not context.instance.has_dynamic_partition("sources", key):
            yield dg.SkipReason(f"source {key!r} is not registered yet; the sensor `register_partitions` does that")
        elif key in partitions_in_flight(context.instance, "ingest"):
            yield dg.SkipReason(f"source {key!r} is still being synced")
        else:
            yield dg.RunRequest(partition_key=key, run_key=f"{key}:{context.scheduled_execution_time.isoformat()}")

    return tick
