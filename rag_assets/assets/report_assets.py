"""Define what all assets for analysts share: their group, kind and owners in the Dagster UI, and where they show.

Belongs here: the decorator, a report as a file and as metadata. Does not belong here: the content of any report.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import dagster as dg

from evals.reports.files import report_url, write_report
from evals.reports.report import Report
from rag_assets import metadata
from rag_assets.partitions import TENANTS
from rag_assets.resources import Installation, opened


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


def shown(report: Report, installation: Installation, tenant: str, name: str) -> dict[str, dg.MetadataValue]:
    """Write a tenant's report and return it as metadata, with where its file and its page are."""
    config, store = opened(installation)
    return metadata.of_report(
        report, write_report(store, tenant, name, report), report_url(config.serving, tenant, name)
    )
