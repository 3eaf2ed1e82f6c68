"""Rows of the telemetry database as tables."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, timedelta
from typing import Any

import pandas as pd
from sqlalchemy import Engine, Select, Table, select
from sqlalchemy.exc import SQLAlchemyError

from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import QUESTIONS, error_line, prepare

_AT_ONCE = 500  # parameters of one query


Days = tuple[date, date]
"""The first and the last of some days."""


def last_days(count: int, last: date) -> Days:
    """Return so many days of which `last` is the last."""
    return last - timedelta(days=count - 1), last


def rows_of_days(
    engine: Engine, table: Table, tenant: str, days: Days, columns: Collection[str] | None = None
) -> pd.DataFrame:
    """Return a tenant's rows of some days (UTC) in the order of time; of all columns, or of `columns` alone.

    Raises:
        TelemetryError: the database cannot be read.
    """
    first, last = (day.isoformat() for day in days)
    chosen = [column for column in table.columns if columns is None or column.name in columns]
    rows = select(*chosen).where(table.c.tenant == tenant, table.c.day.between(first, last))
    return _read(engine, rows.order_by(table.c.at, table.c.id))


def questions_of(engine: Engine, tenant: str, receipt_ids: Collection[str]) -> pd.DataFrame:
    """Return the rows of QUESTIONS of these receipts, from any time.

    Raises:
        TelemetryError: the database cannot be read.
    """
    table = QUESTIONS
    ids = sorted(set(receipt_ids))
    parts = [ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE)] or [[]]
    queries = (select(table).where(table.c.tenant == tenant, table.c.receipt_id.in_(part)) for part in parts)
    return pd.concat([_read(engine, query.order_by(table.c.at, table.c.id)) for query in queries], ignore_index=True)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as mappings; missing values are None, which pandas makes a NaN."""
    rows = table.to_dict("records")
    return [{str(name): None if value != value else value for name, value in row.items()} for row in rows]


def _read(engine: Engine, query: Select[Any]) -> pd.DataFrame:
    try:
        prepare(engine)
        with engine.connect() as connection:
            result = connection.execute(query)
            return pd.DataFrame(result.mappings().all(), columns=list(result.keys()))
    except SQLAlchemyError as error:
        raise TelemetryError(f"the telemetry database cannot be read ({error_line(error)})") from error
