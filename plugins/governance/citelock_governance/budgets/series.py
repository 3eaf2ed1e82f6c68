"""The budget of a tenant for Prometheus: what is used of each limit.

Belongs here: the series. Does not belong here: what questions took (`telemetry.metrics`), counting (`budget`).

They are read from the database when they are asked for: processes of one server would add up what they all see.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from citelock_governance.budgets.budget import CountedBudget
from rag_serving.telemetry.series import gauge_of


def budget_series(budget: CountedBudget) -> bytes:
    """Return the series in Prometheus' text format; nothing where nothing is limited, or the database is away."""
    if not (used := budget.used()):
        return b""
    registry = CollectorRegistry()
    amounts, limits = gauge_of("budget_used", registry), gauge_of("budget_limit", registry)
    for measure, amount in used.items():
        amounts.labels(budget.tenant, measure).set(amount)
        for name in ("soft", "hard"):
            if (limit := getattr(budget.limits[measure], name)) is not None:
                limits.labels(budget.tenant, measure, name).set(limit)
    return generate_latest(registry)
