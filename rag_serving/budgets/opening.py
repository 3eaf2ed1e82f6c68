"""The budgets of an installation's tenants, and the database that they share.

Belongs here: whether anything is limited, opening. Does not belong here: counting (`budget`, `usage`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rag_serving.artifacts.store import Store
from rag_serving.budgets.budget import TenantBudget
from rag_serving.budgets.measures import limits_of

if TYPE_CHECKING:
    from rag_serving.config.loading import Config


def open_budgets(config: Config, tenants: Iterable[str], always: bool = False) -> dict[str, TenantBudget]:
    """Return the budgets of those tenants for which something is limited; with `always` of all, so that what they use
    is counted. Nothing is connected before the first count."""
    wanted = [tenant for tenant in tenants if always or limits_of(config.budgets_of(tenant))]
    if not wanted:
        return {}
    from rag_serving.budgets.usage import METADATA  # here: SQLAlchemy takes as long to import as a question takes
    from rag_serving.telemetry.guarded import GuardedDatabase

    database = GuardedDatabase(config.telemetry.url, Store(config.home).serving_db(), METADATA)
    return {tenant: TenantBudget(config, tenant, database) for tenant in wanted}
