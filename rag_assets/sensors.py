"""What events start: partitions that the configuration has, tenants whose sources changed, reports of what is new.

Belongs here: sensors, all RUNNING by default, because a publish with nothing new is never started.
Does not belong here: the decisions (`rag_assets.plan`), what the clock starts (`schedules`).
"""

import json
import time
from collections.abc import Mapping

import dagster as dg

from rag_assets.facts import published_damage, published_inputs, wanted_inputs
from rag_assets.jobs import publish, report
from rag_assets.partitions import SOURCES, TENANTS, changes, partitions_in_flight
from rag_assets.plan import Attempt, publish_requests
from rag_assets.resources import Installation
from rag_serving.config import Config, ConfigError
from rag_serving.store import Store


@dg.sensor(
    name="register_partitions",
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Keeps the partitions `sources` and `tenants` in line with the configuration.",
)
def register_partitions(
    context: dg.SensorEvaluationContext, installation: Installation
) -> dg.SensorResult | dg.SkipReason:
    config = configured(installation)
    if isinstance(config, dg.SkipReason):
        return config
    found = changes(context.instance, config)
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
def publish_when_sources_changed(
    context: dg.SensorEvaluationContext, installation: Installation
) -> dg.SensorResult | dg.SkipReason:
    from rag_serving.models import open_embedder

    config = configured(installation)
    if isinstance(config, dg.SkipReason):
        return config
    store = Store(config.home)
    registered = set(context.instance.get_dynamic_partitions("tenants")) & config.tenants.keys()
    syncing = {
        config.sources[key].tenant for key in partitions_in_flight(context.instance, "ingest") if key in config.sources
    }
    decision = publish_requests(
        wanted=wanted_inputs(config, store, open_embedder(config.embedding), sorted(registered)),
        published={
            tenant: None if published_damage(config, store, tenant, "sizes") else published_inputs(store, tenant)
            for tenant in registered
        },
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
def report_when_published(
    context: dg.SensorEvaluationContext, installation: Installation
) -> dg.SensorResult | dg.SkipReason:
    config = configured(installation)
    if isinstance(config, dg.SkipReason):
        return config
    store = Store(config.home)
    current = {tenant: store.current(tenant) for tenant in sorted(context.instance.get_dynamic_partitions("tenants"))}
    requests = [
        dg.RunRequest(partition_key=tenant, run_key=f"{tenant}:{generation}")
        for tenant, generation in current.items()
        if generation is not None
    ]
    return dg.SensorResult(
        run_requests=requests, skip_reason=None if requests else dg.SkipReason("nothing is published yet")
    )


def configured(installation: Installation) -> Config | dg.SkipReason:
    """Return the configuration as it is now, or skip: nothing is decided on one that cannot be read."""
    try:
        return installation.config()
    except ConfigError as error:
        return dg.SkipReason(str(error))


def read_cursor(cursor: str | None) -> dict[str, Attempt]:
    """What the last tick remembered; nothing where that cannot be read."""
    try:
        return {tenant: Attempt(**attempt) for tenant, attempt in json.loads(cursor or "{}").items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def write_cursor(memory: Mapping[str, Attempt]) -> str:
    return json.dumps({tenant: vars(attempt) for tenant, attempt in sorted(memory.items())})
