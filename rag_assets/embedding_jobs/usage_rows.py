"""Tokens and cost of what was embedded, by page and day.

Belongs here: adding them up in the database. Does not belong here: counting tokens (`usage`), reports on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from rag_serving.telemetry.job_tables import USAGE


@dataclass(frozen=True)
class PageUsage:
    """What was embedded of a page, in one go or in all."""

    page_id: str
    texts: int
    tokens: int
    cost: float

    def plus(self, other: PageUsage) -> PageUsage:
        """Return the sum of two of one page."""
        sums = self.texts + other.texts, self.tokens + other.tokens, self.cost + other.cost
        return PageUsage(self.page_id, *sums)


def by_page(usage: Iterable[PageUsage]) -> dict[str, PageUsage]:
    """Return the sum of each page, by page."""
    sums: dict[str, PageUsage] = {}
    for part in usage:
        before = sums.get(part.page_id)
        sums[part.page_id] = before.plus(part) if before else part
    return sums


def add_usage(connection: Connection, tenant: str, model: str, usage: Iterable[PageUsage], now: float) -> None:
    """Add what was embedded to the day's rows of its pages.

    Raises:
        SQLAlchemyError: the database does not take it.
    """
    day = datetime.fromtimestamp(now, UTC).date().isoformat()
    rows: list[Mapping[str, Any]] = [
        {
            "tenant": tenant,
            "page_id": page,
            "model": model,
            "day": day,
            "texts": part.texts,
            "tokens": part.tokens,
            "cost": part.cost,
        }
        for page, part in sorted(by_page(usage).items())
    ]
    if not rows:
        return
    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    insert = dialect.insert(USAGE)
    sums = {name: USAGE.c[name] + insert.excluded[name] for name in ("texts", "tokens", "cost")}
    connection.execute(insert.on_conflict_do_update(index_elements=[*USAGE.primary_key], set_=sums), rows)


def read_usage(connection: Connection, tenant: str, model: str | None = None) -> dict[str, PageUsage]:
    """Return what was embedded of each page of a tenant on all days, by one model or by any.

    Raises:
        SQLAlchemyError: the database does not tell.
    """
    sums = [func.sum(USAGE.c[name]) for name in ("texts", "tokens", "cost")]
    query = select(USAGE.c.page_id, *sums).where(USAGE.c.tenant == tenant)
    query = query.where(USAGE.c.model == model) if model is not None else query
    rows = connection.execute(query.group_by(USAGE.c.page_id)).all()
    return {page: PageUsage(page, int(texts), int(tokens), float(cost)) for page, texts, tokens, cost in rows}


def forget_usage(connection: Connection, keep_days: int, now: float) -> None:
    """Delete the rows of days before the last `keep_days`.

    Raises:
        SQLAlchemyError: the database does not take it.
    """
    oldest = (datetime.fromtimestamp(now, UTC).date() - timedelta(days=keep_days)).isoformat()
    connection.execute(delete(USAGE).where(USAGE.c.day < oldest))


def since(now: Mapping[str, PageUsage], before: Mapping[str, PageUsage]) -> dict[str, PageUsage]:
    """Return what was added to each page; pages of which nothing was embedded since are left out."""
    added = {}
    for page, usage in now.items():
        old = before.get(page, PageUsage(page, 0, 0, 0.0))
        if usage.texts > old.texts:
            grown = usage.texts - old.texts, usage.tokens - old.tokens, usage.cost - old.cost
            added[page] = PageUsage(page, *grown)
    return added
