"""The table of what tenants used, the same in SQLite and in Postgres.

Belongs here: counting in a transaction that the caller opened, reading sums, what is forgotten. Does not belong here:
limits (`citelock_governance.budgets`), when the database is away (`guarded`).

A count is one statement that adds to a row and returns it: processes that count at once lose nothing, and each sees its
own place in the order.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Column, Connection, Float, MetaData, String, Table, Text, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

Measure = Literal["questions", "tokens", "cost", "documents"]
Part = Literal["questions", "contexts", "embedding", "uploads"]
"""What used something: answering, contexts that a model writes, vectors, uploads."""

METADATA = MetaData()

USAGE = Table(
    "usage",
    METADATA,
    Column("tenant", Text, primary_key=True),
    Column("measure", String(16), primary_key=True),  # questions, tokens, cost, documents
    Column("span", String(16), primary_key=True),  # 2026-01-31, or 2026-01-31T09:59 of questions
    Column("part", String(16), primary_key=True),  # questions, contexts, embedding, uploads
    Column("amount", Float, nullable=False),
)
_MINUTES_KEPT = timedelta(hours=1)


def add(connection: Connection, tenant: str, measure: Measure, span: str, part: Part, amount: float) -> float:
    """Add to a tenant's usage, and return its part's total in the span."""
    inserting: Any = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    row = inserting(USAGE).values(tenant=tenant, measure=measure, span=span, part=part, amount=amount)
    keys = [USAGE.c.tenant, USAGE.c.measure, USAGE.c.span, USAGE.c.part]
    sums = row.on_conflict_do_update(index_elements=keys, set_={"amount": USAGE.c.amount + row.excluded.amount})
    return float(connection.execute(sums.returning(USAGE.c.amount)).scalar_one())


def used(connection: Connection, tenant: str, spans: Mapping[Measure, str]) -> dict[Measure, float]:
    """Return a tenant's usage of each measure in its span, all parts together."""
    query = (
        select(USAGE.c.measure, USAGE.c.span, func.sum(USAGE.c.amount))
        .where(USAGE.c.tenant == tenant, USAGE.c.span.in_(set(spans.values())))
        .group_by(USAGE.c.measure, USAGE.c.span)
    )
    sums = {(measure, span): float(amount) for measure, span, amount in connection.execute(query)}
    return {measure: sums.get((measure, span), 0.0) for measure, span in spans.items()}


def by_part(connection: Connection, tenant: str, day: str) -> dict[Part, dict[Measure, float]]:
    """Return the usage of each part of a tenant's work on a day."""
    query = select(USAGE.c.part, USAGE.c.measure, USAGE.c.amount).where(USAGE.c.tenant == tenant, USAGE.c.span == day)
    found: dict[Part, dict[Measure, float]] = {}
    for part, measure, amount in connection.execute(query.order_by(USAGE.c.part, USAGE.c.measure)):
        found.setdefault(part, {})[measure] = float(amount)
    return found


def prune(connection: Connection, now: float, keep_days: int) -> None:
    """Forget minutes of more than an hour ago, and days before the last `keep_days`."""
    at = datetime.fromtimestamp(now, UTC)
    minute = (at - _MINUTES_KEPT).strftime("%Y-%m-%dT%H:%M")
    oldest = (at.date() - timedelta(days=keep_days)).isoformat()
    is_minute = USAGE.c.measure == "questions"
    connection.execute(delete(USAGE).where(is_minute, USAGE.c.span < minute))
    connection.execute(delete(USAGE).where(~is_minute, USAGE.c.span < oldest))
