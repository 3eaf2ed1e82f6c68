"""The partition definitions, and bringing an instance in line with the configuration: sources, tenants.

`python -m rag_assets.partitions` registers what the configuration has, so that the UI's buttons work at once.
"""

from __future__ import annotations

import sys
from datetime import date

import dagster as dg

from rag_assets.state.planning import PartitionChanges, partition_changes
from rag_serving.config.loading import Config, ConfigError, load_config
from rag_serving.privacy import complain

SOURCES = dg.DynamicPartitionsDefinition(name="sources")
TENANTS = dg.DynamicPartitionsDefinition(name="tenants")


def days(first: date) -> dg.DailyPartitionsDefinition:
    """Return the days since the first one, with today."""
    return dg.DailyPartitionsDefinition(start_date=first.isoformat(), timezone="UTC", end_offset=1)


DAYS = days(date(2026, 1, 1))  # until the configuration says otherwise, see `definitions`
UNFINISHED = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def partitions_in_flight(instance: dg.DagsterInstance, job: str) -> frozenset[str]:
    """Partitions that a run of the job is queued or running for."""
    runs = instance.get_runs(dg.RunsFilter(job_name=job, statuses=UNFINISHED))
    return frozenset(run.tags["dagster/partition"] for run in runs if "dagster/partition" in run.tags)


def changes(instance: dg.DagsterInstance, config: Config) -> dict[str, PartitionChanges]:
    """Return the differences between the configuration and the instance, by partition definition."""
    return {
        "sources": partition_changes(
            config.sources.keys(), instance.get_dynamic_partitions("sources"), partitions_in_flight(instance, "ingest")
        ),
        "tenants": partition_changes(
            config.tenants.keys(), instance.get_dynamic_partitions("tenants"), partitions_in_flight(instance, "publish")
        ),
    }


def register(instance: dg.DagsterInstance, config: Config) -> None:
    """Add and delete dynamic partitions as the configuration says."""
    for name, change in changes(instance, config).items():
        if change.add:
            instance.add_dynamic_partitions(name, list(change.add))
        for key in change.delete:
            instance.delete_dynamic_partition(name, key)


def main() -> int:
    try:
        config = load_config()
    except ConfigError as error:
        complain(str(error))
        return 2
    with dg.DagsterInstance.get() as instance:
        register(instance, config)
    return 0


if __name__ == "__main__":
    sys.exit(main())
