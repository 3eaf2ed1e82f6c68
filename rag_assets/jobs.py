"""The jobs: which assets are made together.

Belongs here: selections and their descriptions, what follows when a step of `publish` fails. `ingest` and `publish` run
where `orchestration.executor` says, the others, which are short, in the process of their run.
Does not belong here: what starts them (`schedules`, `sensors`), what they make (`assets`).
"""

import dagster as dg

from rag_assets.assets.freshness_check import synced_on_time
from rag_assets.assets.run_queue import PARTITION
from rag_assets.publishing import narrowing
from rag_serving.config.loading import ConfigError


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
        narrowing.narrow_readers(config, tenant, context.log.warning, context.run_id)


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
    selection=dg.AssetSelection.assets("quality_report", "retrieval_report", "dedup_report"),
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
