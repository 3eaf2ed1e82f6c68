"""A database that a question waits for: for a bounded time, and for none while it keeps failing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine, MetaData
from sqlalchemy.exc import SQLAlchemyError

from rag_serving.deadline import run_in_thread
from rag_serving.models.breaker import Breaker
from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import create_tables, error_line, open_engine

Result = TypeVar("Result")

WAIT_S = 3.0
_FAILURES, _RETRY_S = 2, 5.0


class GuardedDatabase:
    """A database of some tables, which are made when it is first used. Safe to use from several threads and
    processes."""

    def __init__(
        self,
        url: str | None,
        serving_db: Path,
        metadata: MetaData,
        wait_s: float = WAIT_S,
        breaker: Breaker | None = None,
    ) -> None:
        """`url`: None is the SQLite file `serving_db`."""
        self._url, self._serving_db, self._metadata = url, serving_db, metadata
        self._wait_s = wait_s
        self._breaker = breaker or Breaker(_FAILURES, _RETRY_S)
        self._opening = threading.Lock()
        self._engine: Engine | None = None

    def ask(self, work: Callable[[Connection], Result]) -> Result:
        """Return the result of some work in one transaction; a database that never answers blocks a thread, but no
        question.

        Raises:
            TelemetryError: the database failed, is late, or failed a moment ago; the message says which.
        """
        if not self._breaker.allow():
            raise TelemetryError("it failed a moment ago")
        try:
            result = run_in_thread(lambda: self._worked(work), "database").result(self._wait_s)
        except (SQLAlchemyError, TelemetryError, OSError) as error:  # one that is late is an OSError
            self._breaker.fail()
            raise TelemetryError(error_line(error) or "it does not answer") from error
        except BaseException:
            self._breaker.fail()
            raise
        self._breaker.succeed()
        return result

    def close(self) -> None:
        with self._opening:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    def _worked(self, work: Callable[[Connection], Result]) -> Result:
        with self._opened().begin() as connection:
            return work(connection)

    def _opened(self) -> Engine:
        with self._opening:
            if self._engine is None:
                engine = open_engine(self._url, self._serving_db)
                create_tables(self._metadata, engine)
                self._engine = engine
            return self._engine
