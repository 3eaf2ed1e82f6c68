"""Rows into the SQLite file of the home without SQLAlchemy, which takes as long to import as a question takes.

Belongs here: inserts into tables that are there and fit. Does not belong here: making tables, retention, rows that a
database refuses, other databases: all that is left to the `DatabaseWriter`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

from rag_serving.telemetry.recorder import Row, TableName, TelemetryError, Writer

_BUSY_S = 5.0


class SqliteWriter:
    """Writes batches of rows; hands over to another writer where the file is new, too old, or refuses a row."""

    def __init__(self, path: Path, keep_days: int, open_other: Callable[[], Writer]) -> None:
        self._path = path
        self._keep_days = keep_days
        self._open_other = open_other
        self._other: Writer | None = None

    def write(self, batch: Sequence[Row]) -> int:
        """Write a batch in one transaction; return how many rows were written.

        Raises:
            TelemetryError: the database is away.
        """
        try:
            return self._insert(batch) if self._path.is_file() else self._hand_over(batch)
        except sqlite3.OperationalError as error:
            raise TelemetryError(f"the telemetry database is away ({error})") from error
        except sqlite3.Error:
            return self._hand_over(batch)

    def close(self) -> None:
        if self._other is not None:
            self._other.close()

    def _insert(self, batch: Sequence[Row]) -> int:
        with closing(sqlite3.connect(self._path, timeout=_BUSY_S)) as connection:
            if not _fits(connection, batch) or _is_outdated(connection, self._keep_days):
                return self._hand_over(batch)
            with connection:
                for table, row in batch:
                    connection.execute(_statement(table, row), [*map(_cell, row.values())])
        return len(batch)

    def _hand_over(self, batch: Sequence[Row]) -> int:
        self._other = self._other or self._open_other()
        return self._other.write(batch)


def _fits(connection: sqlite3.Connection, batch: Sequence[Row]) -> bool:
    """Return whether all tables are there with every column that the rows have."""
    columns = {
        table: {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}
        for table in get_args(TableName)
    }
    return all(columns.values()) and all(row.keys() <= columns[table] for table, row in batch)


def _is_outdated(connection: sqlite3.Connection, keep_days: int) -> bool:
    """Return whether a table has rows of days before the last `keep_days`."""
    oldest = (datetime.now(UTC).date() - timedelta(days=keep_days)).isoformat()
    queries = (f"SELECT EXISTS (SELECT 1 FROM {table} WHERE day < ?)" for table in get_args(TableName))
    return any(connection.execute(query, (oldest,)).fetchone()[0] for query in queries)


def _statement(table: TableName, row: Mapping[str, Any]) -> str:
    """Return an insert that leaves a row alone that is there already; a newer verdict takes the older one's place."""
    marks = ", ".join("?" * len(row))
    newer = ", ".join(f"{name} = excluded.{name}" for name in row)
    then = f"UPDATE SET {newer} WHERE excluded.at >= feedback.at" if table == "feedback" else "NOTHING"
    return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks}) ON CONFLICT (id) DO {then}"


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value
