"""The budgets of an installation's tenants, and the database that they share.

Belongs here: opening. Does not belong here: whether anything is limited (`rag_serving.hooks`), counting (`budget`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from citelock_governance.budgets.budget import CountedBudget
from rag_serving.artifacts.store import Store

if TYPE_CHECKING:
    from rag_serving.config.loading import Config


def opened(config: Config, tenants: Iterable[str]) -> dict[str, CountedBudget]:
    """Return the budgets of tenants. Nothing is connected before the first count."""
    from rag_serving.telemetry.guarded import GuardedDatabase
    from rag_serving.telemetry.usage import METADATA  # here: SQLAlchemy takes as long to import as a question takes

    database = GuardedDatabase(config.telemetry.url, Store(config.home).serving_db(), METADATA)
    return {tenant: CountedBudget(config, tenant, database) for tenant in tenants}
