"""What the telemetry database holds, read and forgotten.

Belongs here: rows of a day, what is too old. Does not belong here: what rows add up to (`kpis`).
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pandas as pd
from sqlalchemy import Engine, Table, delete, select
from sqlalchemy.exc import SQLAlchemyError

from rag_serving.telemetry.tables import FEEDBACK, METADATA, QUESTIONS, TelemetryError


def rows_of_day(engine: Engine, table: Table, tenant: str, day: date) -> pd.DataFrame:
    """A tenant's rows of one day (UTC) in the order of time, a column each.

    Raises:
        TelemetryError: the database cannot be read.
    """
    query = select(table).where(table.c.tenant == tenant, table.c.day == day.isoformat()).order_by(table.c.at)
    try:
        METADATA.create_all(engine)
        with engine.connect() as connection:
            result = connection.execute(query)
            return pd.DataFrame(result.mappings().all(), columns=list(result.keys()))
    except SQLAlchemyError as error:
        raise TelemetryError(f"the telemetry database cannot be read ({' '.join(str(error).split())[:200]})") from error


def forget(engine: Engine, keep_days: int, today: date | None = None) -> int:
    """Delete the rows of days before the last `keep_days`; how many there were.

    Raises:
        TelemetryError: the database cannot be written.
    """
    oldest = (today or datetime.now(UTC).date()) - timedelta(days=keep_days)
    try:
        METADATA.create_all(engine)
        with engine.begin() as connection:
            tables = (QUESTIONS, FEEDBACK)
            return sum(connection.execute(delete(t).where(t.c.day < oldest.isoformat())).rowcount for t in tables)
    except SQLAlchemyError as error:
        raise TelemetryError(
            f"the telemetry database cannot be written ({' '.join(str(error).split())[:200]})"
        ) from error
