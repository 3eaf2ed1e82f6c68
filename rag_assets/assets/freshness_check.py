"""The asset check `synced_on_time`: whether a source is overdue, for each partition of `pages`.

Belongs here: the check, which runs after each sync, and alone when the sensor `watch_sources` finds a new verdict.
Does not belong here: the verdict (`rag_serving.config.freshness`), checks whose results come with a materialization
(`asset_checks`).
"""

import warnings
from datetime import UTC, datetime

import dagster as dg

from rag_assets.metadata import described
from rag_assets.partitions import SOURCES
from rag_assets.resources import Installation, of_source
from rag_assets.state.records import last_sync
from rag_serving.config.freshness import judge

LONG_AGO = datetime.min.replace(tzinfo=UTC)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", dg.PreviewWarning)  # see `asset_checks`

    @dg.asset_check(
        asset="pages",
        partitions_def=SOURCES,
        description="The last complete sync is not older than the source's schedule promises, or than "
        "`monitoring.stale_after_hours` where it has none.",
    )
    def synced_on_time(context: dg.AssetCheckExecutionContext, installation: Installation) -> dg.AssetCheckResult:
        key, config, store = of_source(context.partition_key, installation)
        last, now = last_sync(store, key), datetime.now(UTC)
        verdict = judge(config.sources[key], config.monitoring, now, last_sync=last, known_since=LONG_AGO)
        numbers = {} if verdict.age_hours is None else {"age_hours": verdict.age_hours}
        return dg.AssetCheckResult(
            passed=not verdict.overdue,
            description=described(verdict.detail),
            metadata={
                "last_sync": last.isoformat(timespec="seconds") if last else "never",
                "too_old_before": verdict.oldest.isoformat(timespec="seconds"),
                **numbers,
            },
        )
