"""Define what the assets of one job have in common in the Dagster UI.

Belongs here: partitions, group and owners of assets that data engineers own.
Does not belong here: assets for analysts (`reports`), the jobs (`rag_assets.jobs`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import dagster as dg

from rag_assets.partitions import SOURCES, TENANTS
from rag_assets.traced import traced

Decorator: TypeAlias = Callable[[Callable[..., Any]], dg.AssetsDefinition]

_OWNERS = ["team:data-engineering"]


def ingest_asset(**options: Any) -> Decorator:
    """Return the decorator of an asset that is made for each source."""
    return _traced(dg.asset(partitions_def=SOURCES, group_name="ingest", owners=_OWNERS, **options))


def publish_asset(**options: Any) -> Decorator:
    """Return the decorator of an asset that is made for each tenant."""
    return _traced(dg.asset(partitions_def=TENANTS, group_name="publish", owners=_OWNERS, **options))


def _traced(asset: Any) -> Decorator:
    """Return the decorator of assets whose runs are spans of a trace."""
    return lambda step: cast(dg.AssetsDefinition, asset(traced(step)))


def retry_after(seconds: int) -> dg.RetryPolicy:
    """Return a policy that tries twice more, after so many seconds and then twice as many."""
    return dg.RetryPolicy(max_retries=2, delay=seconds, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
