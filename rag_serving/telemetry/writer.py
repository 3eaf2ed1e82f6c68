"""Rows into the telemetry database, and out of it when they are too old."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from rag_serving.telemetry.recorder import Row, TableName, TelemetryError
from rag_serving.telemetry.tables import FEEDBACK, METADATA, QUESTIONS, error_line, prepare


def answered_in(engine: Engine, tenant: str, since: float) -> dict[int | None, int]:
    """Return the number of questions and searches of a tenant that each phase answered `since` seconds since 1970, UTC,
    the highest phase first; None: no phase did. Raises TelemetryError: the database cannot be read."""
    asked = QUESTIONS.c.tenant == tenant, QUESTIONS.c.at >= since, QUESTIONS.c.kind != "selected_text"
    query = select(QUESTIONS.c.phase, func.count()).where(*asked).group_by(QUESTIONS.c.phase)
    try:
        with engine.connect() as connection:
            counts = {phase: int(count) for phase, count in connection.execute(query)}
    except SQLAlchemyError as error:
        raise TelemetryError(f"the telemetry database cannot be read ({error_line(error)})") from error
    return dict(sorted(counts.items(), key=lambda each: -(each[0] or 0)))


_UPKEEP_S = 86_400.0
_AWAY = (OperationalError, InterfaceError, OSError)

_log = logging.getLogger(__name__)


class DatabaseWriter:
    """Writes batches of rows. Rows of days before the last `keep_days` are deleted with the first, and once a day."""

    def __init__(self, open_engine: Callable[[], Engine], keep_days: int) -> None:
        self._open, self._keep_days = open_engine, keep_days
        self._upkept_at: float | None = None
        self._engine: Engine | None = None

    def write(self, batch: Sequence[Row]) -> int:
        """Write a batch in one transaction, or row by row where the database refuses one; how many were written. Raises
        TelemetryError: the database is away."""
        try:
            return self._write(self._connected(), batch)
        except (SQLAlchemyError, OSError) as error:
            raise TelemetryError(f"the telemetry database is away ({error_line(error)})") from error

    def close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()

    def _connected(self) -> Engine:
        if self._engine is None:
            engine = self._open()
            prepare(engine)
            self._engine = engine
        if self._upkept_at is None or time.monotonic() - self._upkept_at > _UPKEEP_S:
            forget(self._engine, self._keep_days)
            self._upkept_at = time.monotonic()
        return self._engine

    def _write(self, engine: Engine, batch: Sequence[Row]) -> int:
        try:
            with engine.begin() as connection:
                for table in {table for table, _ in batch}:
                    connection.execute(_insert(engine, table), [dict(row) for other, row in batch if other == table])
            return len(batch)
        except _AWAY:
            raise
        except (SQLAlchemyError, ValueError, TypeError):
            return sum(self._write_one(engine, table, row) for table, row in batch)

    def _write_one(self, engine: Engine, table: TableName, row: Mapping[str, Any]) -> bool:
        try:
            with engine.begin() as connection:
                connection.execute(_insert(engine, table), dict(row))
        except _AWAY:
            raise
        except (SQLAlchemyError, ValueError, TypeError) as error:
            _log.warning("a row of %s was refused: %s", table, error_line(error))
            return False
        return True


def forget(engine: Engine, keep_days: int, today: date | None = None) -> int:
    """Delete the rows before the last `keep_days`; how many there were. Raises TelemetryError: that failed."""
    oldest = ((today or datetime.now(UTC).date()) - timedelta(days=keep_days)).isoformat()
    try:
        prepare(engine)
        with engine.begin() as connection:
            tables = METADATA.sorted_tables
            return sum(connection.execute(delete(table).where(table.c.day < oldest)).rowcount for table in tables)
    except SQLAlchemyError as error:
        raise TelemetryError(f"the telemetry database cannot be written ({error_line(error)})") from error


def forget_user(engine: Engine, tenant: str, user_hash: str) -> int:
    """Delete a user's questions and feedback in a tenant; return their number. Raises TelemetryError: that failed."""
    try:
        prepare(engine)
        with engine.begin() as connection:
            ours = ((each.c.tenant == tenant, each.c.user_hash == user_hash) for each in (QUESTIONS, FEEDBACK))
            deleting = [delete(table).where(*own) for table, own in zip((QUESTIONS, FEEDBACK), ours, strict=True)]
            return sum(connection.execute(one).rowcount for one in deleting)
    except SQLAlchemyError as error:
        raise TelemetryError(f"the telemetry database cannot be written ({error_line(error)})") from error


def _insert(engine: Engine, table: TableName) -> Any:
    """Return an insert that leaves a row alone that is there already: one written just before the database went away.
    Of verdicts the newer one takes the older one's place."""
    dialect: Any = postgresql if engine.dialect.name == "postgresql" else sqlite
    kept = METADATA.tables[table]
    insert = dialect.insert(kept)
    if table != "feedback":
        return insert.on_conflict_do_nothing(index_elements=["id"])
    newer = {column.name: insert.excluded[column.name] for column in kept.columns}
    return insert.on_conflict_do_update(index_elements=["id"], set_=newer, where=insert.excluded.at >= kept.c.at)
