"""What all assets for analysts have in common in the Dagster UI: their group, their kind, whose they are.

Belongs here: the decorator. Does not belong here: any report, its files (`reports.files`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import dagster as dg

from rag_assets.partitions import TENANTS


def report_asset(
    *after: str, version: int, partitions: dg.PartitionsDefinition[str] = TENANTS, one_run: bool = False
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Return the decorator of a report that is made after these assets.

    With `one_run` all partitions that are asked for at once are made in one run; else each has a run of its own, as
    sources and tenants have, so that one that fails takes no other with it.
    """

    def decorated(report: Callable[..., Any]) -> dg.AssetsDefinition:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)  # of backfill policies; the version is pinned
            return dg.asset(
                partitions_def=partitions,
                deps=list(after),
                group_name="reports",
                kinds={"html"},
                owners=["team:analytics"],
                code_version=str(version),
                backfill_policy=dg.BackfillPolicy.single_run() if one_run else None,
            )(report)

    return decorated
