"""Transactions on the installation's database that change the queue one after the other.

Belongs here: opening it, one writer at a time, errors in one line. Does not belong here: rows (`queue`, `listing`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import SQLAlchemyError

from rag_assets.embedding_jobs.records import JobsError
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.telemetry.job_tables import METADATA
from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import create_tables, error_line, open_engine

_LOCK = 7_304_415_920_118
"""Of Postgres' advisory locks, which all writers of the queue take."""
_READING = "citelock_reading"


class JobsDatabase:
    """The database of one installation; its tables are made when it is first used. Safe to use from several threads."""

    def __init__(self, config: Config) -> None:
        self._url = config.telemetry.url
        self._file = Store(config.home).serving_db()
        self._opening = threading.Lock()
        self._engine: Engine | None = None

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a transaction that no other writer of the queue overlaps: decisions rest on what it reads.

        Raises:
            JobsError: the database cannot be used; nothing was changed.
        """
        with _told_in_one_line(), self._opened().begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a transaction that only reads, and holds up no writer.

        Raises:
            JobsError: the database cannot be used.
        """
        options = {_READING: True}
        with _told_in_one_line(), self._opened().execution_options(**options).connect() as connection:
            yield connection

    def close(self) -> None:
        with self._opening:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    def _opened(self) -> Engine:
        with self._opening:
            if self._engine is None:
                engine = open_engine(self._url, self._file)
                if engine.dialect.name == "sqlite":
                    _lock_at_once(engine)
                create_tables(METADATA, engine)
                self._engine = engine
            return self._engine


def _lock_at_once(engine: Engine) -> None:
    """Let SQLite's transactions take the write lock when they begin: one that reads first could not get it later.

    https://docs.sqlalchemy.org/en/20/dialects/sqlite.html#pysqlite-serializable
    """

    @event.listens_for(engine, "connect")
    def _no_own_transactions(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        is_reading = connection.get_execution_options().get(_READING)
        connection.exec_driver_sql("BEGIN" if is_reading else "BEGIN IMMEDIATE")


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, TelemetryError, OSError) as error:
        raise JobsError(
            f"the database of embedding jobs cannot be used ({error_line(error)}); see telemetry.url"
        ) from error
