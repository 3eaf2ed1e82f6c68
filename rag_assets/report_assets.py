"""What all assets for analysts have in common in the Dagster UI: their group, their kind, whose they are.

Belongs here: the decorator. Does not belong here: any report, its files (`report_files`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dagster as dg

from rag_assets.partitions import TENANTS


def report_asset(
    *after: str, version: int, partitions: dg.PartitionsDefinition[str] = TENANTS
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """The decorator of a report that is made after these assets."""
    return dg.asset(
        partitions_def=partitions,
        deps=list(after),
        group_name="reports",
        kinds={"html"},
        owners=["team:analytics"],
        code_version=str(version),
    )
