"""What the telemetry database holds, read.

Belongs here: rows of a day, or of several. Does not belong here: what rows add up to (`kpis`).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, timedelta
from typing import Any

import pandas as pd
from sqlalchemy import Engine, Select, Table, func, inspect, select
from sqlalchemy.exc import SQLAlchemyError

from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import LOSSES, QUESTIONS, prepare, told

_AT_ONCE = 500  # parameters of one query


def rows_of_day(
    engine: Engine, table: Table, tenant: str, day: date, columns: Collection[str] | None = None
) -> pd.DataFrame:
    """Return a tenant's rows of one day (UTC) in the order of time, a column each; of `columns` alone, where those are
    named.

    Raises:
        TelemetryError: the database cannot be read.
    """
    return rows_until(engine, table, tenant, day, 1, columns)


def rows_until(
    engine: Engine, table: Table, tenant: str, last: date, days: int, columns: Collection[str] | None = None
) -> pd.DataFrame:
    """Return the same of so many days of which `last` is the last.

    Raises:
        TelemetryError: the database cannot be read.
    """
    first = last - timedelta(days=days - 1)
    of_tenant, of_days = table.c.tenant == tenant, table.c.day.between(first.isoformat(), last.isoformat())
    chosen = [column for column in table.columns if columns is None or column.name in columns]
    return _read(engine, select(*chosen).where(of_tenant, of_days).order_by(table.c.at, table.c.id))


def questions_of(engine: Engine, tenant: str, receipt_ids: Collection[str]) -> pd.DataFrame:
    """Return the rows of QUESTIONS of these receipts, whenever they were asked.

    Raises:
        TelemetryError: the database cannot be read.
    """
    table = QUESTIONS
    ids = sorted(set(receipt_ids))
    parts = [ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE)] or [[]]
    queries = (select(table).where(table.c.tenant == tenant, table.c.receipt_id.in_(part)) for part in parts)
    return pd.concat([_read(engine, query.order_by(table.c.at, table.c.id)) for query in queries], ignore_index=True)


def rows_dropped(engine: Engine, since: date) -> int:
    """Return how many rows of all tenants could not be recorded since a day; 0 where none was ever lost.

    Raises:
        TelemetryError: the database cannot be read.
    """
    query = select(func.coalesce(func.sum(LOSSES.c.rows), 0)).where(LOSSES.c.day >= since.isoformat())
    try:
        if not inspect(engine).has_table(LOSSES.name):
            return 0
        with engine.connect() as connection:
            return int(connection.execute(query).scalar_one())
    except SQLAlchemyError as error:
        raise TelemetryError(f"the telemetry database cannot be read ({told(error)})") from error


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as mappings; what is missing is None, which pandas makes a NaN."""
    rows = table.to_dict("records")
    return [{str(name): None if value != value else value for name, value in row.items()} for row in rows]


def _read(engine: Engine, query: Select[Any]) -> pd.DataFrame:
    try:
        prepare(engine)
        with engine.connect() as connection:
            result = connection.execute(query)
            return pd.DataFrame(result.mappings().all(), columns=list(result.keys()))
    except SQLAlchemyError as error:
        raise TelemetryError(f"the telemetry database cannot be read ({told(error)})") from error
