"""What the telemetry database holds, read.

Belongs here: rows of a day, or of several. Does not belong here: what rows add up to (`kpis`).
"""

from __future__ import annotations

from datetime import date, timedelta

import pandas as pd
from sqlalchemy import Engine, Table, select
from sqlalchemy.exc import SQLAlchemyError

from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import METADATA, told


def rows_of_day(engine: Engine, table: Table, tenant: str, day: date) -> pd.DataFrame:
    """A tenant's rows of one day (UTC) in the order of time, a column each.

    Raises:
        TelemetryError: the database cannot be read.
    """
    return rows_until(engine, table, tenant, day, days=1)


def rows_until(engine: Engine, table: Table, tenant: str, last: date, days: int) -> pd.DataFrame:
    """The same of so many days of which `last` is the last.

    Raises:
        TelemetryError: the database cannot be read.
    """
    first = last - timedelta(days=days - 1)
    of_tenant, of_days = table.c.tenant == tenant, table.c.day.between(first.isoformat(), last.isoformat())
    query = select(table).where(of_tenant, of_days).order_by(table.c.at, table.c.id)
    try:
        METADATA.create_all(engine)
        with engine.connect() as connection:
            result = connection.execute(query)
            return pd.DataFrame(result.mappings().all(), columns=list(result.keys()))
    except SQLAlchemyError as error:
        raise TelemetryError(f"the telemetry database cannot be read ({told(error)})") from error
