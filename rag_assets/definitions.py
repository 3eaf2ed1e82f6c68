"""Everything Dagster knows of this project.

Belongs here: putting assets, jobs, schedules, sensors and resources together.
Does not belong here: any of them. Loading reads the configuration (which schedules there are) and nothing else; a
source that is misspelt there costs its own schedule, and the UI comes up to say so.
"""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from rag_assets import assets
from rag_assets.assets.freshness_check import synced_on_time
from rag_assets.executors import open_executor
from rag_assets.jobs import freshness, ingest, publish, report, report_day
from rag_assets.partitions import DAYS, days
from rag_assets.progress import LogReporter
from rag_assets.resources import Installation
from rag_assets.runs import Jobs
from rag_assets.schedules import report_yesterday, schedules
from rag_assets.sensors import (
    alert_when_a_build_fails,
    ingest_uploads,
    publish_when_sources_changed,
    register_partitions,
    report_when_published,
    watch_sources,
)
from rag_assets.uploads import add_documents
from rag_serving.config.loading import Config, load_usable


def build_defs(config_path: Path | None = None, **resources: Any) -> dg.Definitions:
    """Return the project's definitions.

    Args:
        config_path: the configuration; else CITELOCK_CONFIG, else config/app.yaml.
        resources: resources to put in place of the usual ones.

    Raises:
        ConfigError: the configuration cannot be used; the message is one line.
    """
    config, faults = load_usable(config_path)
    for fault in faults.values():
        logging.getLogger(__name__).warning("%s; this source has no schedule until that is mended", fault)
    usual = {
        "installation": Installation(config_path=str(config_path) if config_path else ""),
        "reporter": LogReporter(),
        "jobs": Jobs(lambda name: definitions.resolve_job_def(name)),
    }
    definitions = dg.Definitions(
        assets=with_days(dg.load_assets_from_package_module(assets), config),
        asset_checks=[synced_on_time],
        jobs=[ingest, publish, add_documents, report, report_day, freshness],
        schedules=[*schedules(config), report_yesterday],
        sensors=[
            ingest_uploads,
            register_partitions,
            publish_when_sources_changed,
            report_when_published,
            watch_sources,
            alert_when_a_build_fails,
        ],
        resources={**usual, **resources},
        # By default steps of one run share a process: they hand on files, and a process each would cost seconds each.
        executor=open_executor(config),
    )
    return definitions


def with_days(definitions: Sequence[Any], config: Config) -> Sequence[Any]:
    """Return the assets; those with a partition for each day have the days that the configuration wants.

    Without a first day these are the ones whose rows may still be there, so that "Materialize all" reports on no day
    of which nothing can be known any more.
    """
    telemetry = config.telemetry
    first = telemetry.reports_since or datetime.now(UTC).date() - timedelta(days=telemetry.retention_days)

    def spec(one: dg.AssetSpec) -> dg.AssetSpec:
        return one.replace_attributes(partitions_def=days(first)) if one.partitions_def == DAYS else one

    return dg.map_asset_specs(spec, definitions)


@dg.definitions
def defs() -> dg.Definitions:
    """Return what Dagster's tools load; whoever imports `build_defs` alone reads no configuration."""
    return build_defs()
