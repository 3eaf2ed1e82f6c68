"""Rows on their way to the database, behind a queue that never makes a question wait.

Belongs here: the queue, the writing thread, what happens when the database is away.
Does not belong here: what a row says (`events`), the database itself (`tables`).

A full queue drops the new row and counts it. While the database is away rows wait in the queue; those that came before
it went are written when it is back. A row that the database refuses is dropped and counted alone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from rag_serving.telemetry.tables import METADATA, TelemetryError

CAPACITY = 20_000
BATCH = 500
_GATHER_S = 0.2  # a batch waits this long for company
_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0
_UPKEEP_S = 86_400.0
_AWAY = (OperationalError, InterfaceError, TelemetryError, OSError)

_log = logging.getLogger(__name__)

Row = tuple[Table, Mapping[str, Any]]


@dataclass(frozen=True)
class Counts:
    """Rows so far."""

    recorded: int
    dropped: int
    waiting: int


class Recorder:
    """Writes rows from one thread. `record` never blocks and never raises."""

    def __init__(
        self,
        open_engine: Callable[[], Engine],
        capacity: int = CAPACITY,
        upkeep: Callable[[Engine], object] | None = None,
    ) -> None:
        """`upkeep` is called before the first row is written, and once a day after."""
        self._open = open_engine
        self._capacity = capacity
        self._upkeep = upkeep
        self._upkept_at: float | None = None
        self._rows: deque[Row] = deque()
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None
        self._engine: Engine | None = None
        self._deadline: float | None = None  # of the last writing, once closed
        self._writing = self._recorded = self._dropped = 0

    def record(self, table: Table, row: Mapping[str, Any]) -> None:
        """Hand over a row; it is written soon, or dropped and counted."""
        with self._news:
            if self._deadline is not None or len(self._rows) >= self._capacity:
                self._dropped += 1
                return
            self._rows.append((table, row))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
                self._thread.start()
            self._news.notify()

    def counts(self) -> Counts:
        with self._news:
            return Counts(self._recorded, self._dropped, len(self._rows) + self._writing)

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything handed over is written or dropped; whether that came to be."""
        deadline = time.monotonic() + timeout_s
        with self._news:
            return self._news.wait_for(
                lambda: not self._rows and not self._writing, max(0.0, deadline - time.monotonic())
            )

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what waits, for `timeout_s` at most; what is left then is dropped and counted."""
        with self._news:
            self._deadline = time.monotonic() + timeout_s
            self._news.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_s + 1)
        if self._engine is not None:
            self._engine.dispose()

    def _run(self) -> None:
        while batch := self._next():
            self._written(batch)
            with self._news:
                self._writing = 0
                self._news.notify_all()

    def _next(self) -> list[Row]:
        """The next rows; none once closed and empty."""
        with self._news:
            self._news.wait_for(lambda: self._rows or self._deadline is not None)
            if self._deadline is None and len(self._rows) < BATCH:
                self._news.wait_for(lambda: len(self._rows) >= BATCH or self._deadline is not None, _GATHER_S)
            batch = [self._rows.popleft() for _ in range(min(BATCH, len(self._rows)))]
            self._writing = len(batch)
            return batch

    def _written(self, batch: Sequence[Row]) -> None:
        """Write a batch however long the database is away; after the deadline it is dropped."""
        wait_s = _WAIT_S
        while True:
            try:
                recorded = self._write(batch)
                break
            except _AWAY as error:
                _log.warning("telemetry waits: %s", " ".join(str(error).split())[:200])
            if self._is_over(wait_s):
                recorded = 0
                break
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        with self._news:
            self._recorded += recorded
            self._dropped += len(batch) - recorded

    def _is_over(self, wait_s: float) -> bool:
        """Wait before another try; whether there is no time left for one."""
        with self._news:
            if self._deadline is None:
                self._news.wait_for(lambda: self._deadline is not None, wait_s)
                return False
            left = self._deadline - time.monotonic()
        time.sleep(max(0.0, min(wait_s, left)))
        return left <= 0

    def _write(self, batch: Sequence[Row]) -> int:
        """Write a batch in one transaction, or row by row where the database refuses one; how many were written."""
        engine = self._connected()
        try:
            with engine.begin() as connection:
                for table in {table for table, _ in batch}:
                    rows = [dict(row) for other, row in batch if other is table]
                    connection.execute(_insert(engine, table), rows)
            return len(batch)
        except _AWAY:
            raise
        except (SQLAlchemyError, ValueError, TypeError):
            return sum(self._write_one(engine, table, row) for table, row in batch)

    def _write_one(self, engine: Engine, table: Table, row: Mapping[str, Any]) -> bool:
        try:
            with engine.begin() as connection:
                connection.execute(_insert(engine, table), dict(row))
        except _AWAY:
            raise
        except (SQLAlchemyError, ValueError, TypeError) as error:
            _log.warning("a row of %s was refused: %s", table.name, " ".join(str(error).split())[:200])
            return False
        return True

    def _connected(self) -> Engine:
        if self._engine is None:
            engine = self._open()
            METADATA.create_all(engine)
            self._engine = engine
        if self._upkeep and (self._upkept_at is None or time.monotonic() - self._upkept_at > _UPKEEP_S):
            self._upkeep(self._engine)
            self._upkept_at = time.monotonic()
        return self._engine


def _insert(engine: Engine, table: Table) -> Any:
    """An insert that leaves a row alone that is there already: one written just before the database went away."""
    dialect: Any = postgresql if engine.dialect.name == "postgresql" else sqlite
    return dialect.insert(table).on_conflict_do_nothing(index_elements=["id"])
