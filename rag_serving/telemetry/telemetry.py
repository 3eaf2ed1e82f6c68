"""The telemetry of one tenant's questions: hands over what happened, and never fails or waits."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import derived_key
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.config.sections import Telemetry as Settings
from rag_serving.records.answers import Answer, SearchResults
from rag_serving.telemetry.events import FeedbackVerdict, Kind, Origin, RowBuilder, Trace
from rag_serving.telemetry.recorder import Counts, Recorder, Row, TableName, TelemetryError, Writer

_BUSY_S = 5.0


class SqliteWriter:
    """Writes batches of rows; hands over to another writer where the file is new, too old, or refuses a row."""

    def __init__(self, path: Path, keep_days: int, open_other: Callable[[], Writer]) -> None:
        self._path, self._keep_days, self._open_other = path, keep_days, open_other
        self._other: Writer | None = None

    def write(self, batch: Sequence[Row]) -> int:
        """Write a batch in one transaction; return how many rows were written. Raises TelemetryError: the database is
        away."""
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
            columns = {
                table: {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}
                for table in get_args(TableName)
            }
            fits = all(columns.values()) and all(row.keys() <= columns[table] for table, row in batch)
            if not fits or _is_outdated(connection, self._keep_days):
                return self._hand_over(batch)
            with connection:
                for table, row in batch:
                    cells = [json.dumps(cell) if isinstance(cell, list | dict) else cell for cell in row.values()]
                    connection.execute(_statement(table, row), cells)
        return len(batch)

    def _hand_over(self, batch: Sequence[Row]) -> int:
        self._other = self._other or self._open_other()
        return self._other.write(batch)


def _is_outdated(connection: sqlite3.Connection, keep_days: int) -> bool:
    oldest = (datetime.now(UTC).date() - timedelta(days=keep_days)).isoformat()
    queries = (f"SELECT EXISTS (SELECT 1 FROM {table} WHERE day < ?)" for table in get_args(TableName))
    return any(connection.execute(query, (oldest,)).fetchone()[0] for query in queries)


def _statement(table: TableName, row: Mapping[str, Any]) -> str:
    """Return an insert that skips existing rows; a newer verdict replaces the older one."""
    marks = ", ".join("?" * len(row))
    newer = ", ".join(f"{name} = excluded.{name}" for name in row)
    then = f"UPDATE SET {newer} WHERE excluded.at >= feedback.at" if table == "feedback" else "NOTHING"
    return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks}) ON CONFLICT (id) DO {then}"


KEY_PURPOSE = "telemetry"
PATIENCE_S = 5.0
Count = Callable[[TableName, Mapping[str, Any]], None]

_log = logging.getLogger(__name__)


class QuestionTelemetry:
    """The telemetry of one tenant's questions. Safe to use from several threads."""

    def __init__(
        self,
        config: Config,
        tenant: str,
        patience_s: float = PATIENCE_S,
        origin: Origin = "server",
        count: Count | None = None,
    ) -> None:
        """`patience_s`: how long closing waits for the database; `count` gets every row."""
        self._patience_s, self._count = patience_s, count
        self._settings, self._home, self._tenant, self._origin = config.telemetry, config.home, tenant, origin
        self._redactor = config.privacy.redactor()
        serving_db = Store(config.home).serving_db()
        self._recorder = Recorder(
            lambda: _open_writer(config.telemetry, serving_db),
            loss_of=lambda rows: ("losses", self._row_builder.of_loss(rows)),
        )
        self._off = False

    def answered(
        self, principal: Principal | None, question: str, answer: Answer, trace: Trace, kind: Kind = "ask"
    ) -> None:
        self._record("questions", lambda: self._row_builder.of_answer(principal, question, answer, trace, kind))

    def searched(self, principal: Principal, query: str, found: SearchResults, trace: Trace) -> None:
        self._record("questions", lambda: self._row_builder.of_search(principal, query, found, trace))

    def judged(
        self, principal: Principal, receipt_id: str, verdict: FeedbackVerdict, citation: int | None, comment: str | None
    ) -> None:
        self._record(
            "feedback", lambda: self._row_builder.of_feedback(principal, receipt_id, verdict, citation, comment)
        )

    def counts(self) -> Counts:
        return self._recorder.counts()

    def flush(self, seconds: float) -> bool:
        """Wait until everything is written, for so many seconds at most; whether it is."""
        return self._recorder.flush(seconds)

    def close(self) -> None:
        """Write queued items."""
        self._recorder.close(self._patience_s)

    @cached_property
    def _row_builder(self) -> RowBuilder:
        key = derived_key(self._home, KEY_PURPOSE)
        stores, redact = self._settings.store_questions, self._redactor.redacted
        return RowBuilder(self._tenant, key, stores, self._origin, redact)

    def _record(self, table: TableName, row_of: Callable[[], Mapping[str, Any]]) -> None:
        """Hand over a row. Nothing is recorded for a home that does not exist yet: a question must not create it."""
        if self._off or not self._home.is_dir():
            return
        try:
            row = row_of()
            if self._count:
                self._count(table, row)
        except Exception as error:  # no question fails for what is noted of it
            self._off = True
            _log.warning("no telemetry: %s", error)
            return
        self._recorder.record(table, row)


def open_telemetry(
    config: Config, tenant: str, patience_s: float = PATIENCE_S, origin: Origin = "server", count: Count | None = None
) -> QuestionTelemetry | None:
    """Return a tenant's telemetry, or None if it is switched off. Nothing is opened before the first question."""
    return QuestionTelemetry(config, tenant, patience_s, origin, count) if config.telemetry.enabled else None


def _open_writer(settings: Settings, serving_db: Path) -> Writer:
    def database_writer() -> Writer:
        from rag_serving.telemetry.tables import open_engine
        from rag_serving.telemetry.writer import DatabaseWriter

        return DatabaseWriter(lambda: open_engine(settings.url, serving_db), settings.retention_days)

    if settings.url is not None:
        return database_writer()
    return SqliteWriter(serving_db, settings.retention_days, database_writer)
