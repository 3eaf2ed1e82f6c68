"""The tables of the telemetry database, the same in SQLite and in Postgres."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from rag_serving.artifacts.store import make_private
from rag_serving.deadline import run_in_thread
from rag_serving.escaping.redaction import redacted
from rag_serving.escaping.targets import one_line
from rag_serving.models.breaker import Breaker
from rag_serving.telemetry.recorder import TelemetryError

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

        def worked() -> Result:
            with self._opening:
                if self._engine is None:
                    engine = open_engine(self._url, self._serving_db)
                    create_tables(self._metadata, engine)
                    self._engine = engine
            with self._engine.begin() as connection:
                return work(connection)

        if not self._breaker.allow():
            raise TelemetryError("it failed a moment ago")
        try:
            result = run_in_thread(worked, "database").result(self._wait_s)
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


FORGOTTEN_METADATA = MetaData()

FORGOTTEN = Table(
    "forgotten",
    FORGOTTEN_METADATA,
    Column("digest", String(64), primary_key=True),  # of the tenant's name
    Column("mark", String(32), nullable=False),  # another one each time
)


def read_mark(connection: Connection, digest: str) -> str | None:
    """Return the newest mark of a tenant; None if there was never one."""
    return connection.execute(select(FORGOTTEN.c.mark).where(FORGOTTEN.c.digest == digest)).scalar_one_or_none()


def write_mark(connection: Connection, digest: str, mark: str) -> None:
    """Put a mark in the place of the one before."""
    inserting: Any = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    row = inserting(FORGOTTEN).values(digest=digest, mark=mark)
    connection.execute(row.on_conflict_do_update(index_elements=[FORGOTTEN.c.digest], set_={"mark": mark}))


METADATA = MetaData()

QUESTIONS = Table(
    "questions",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("at", Float, nullable=False),  # seconds since 1970, UTC
    Column("day", String(10), nullable=False, index=True),  # of `at`, as 2026-01-31
    Column("tenant", Text, nullable=False),
    Column("user_hash", String(32)),
    Column("kind", String(16), nullable=False),  # ask, selected_text, search, check
    Column("question", Text),  # only with telemetry.store_questions
    Column("question_hash", String(32), nullable=False),
    Column("status", String(24), nullable=False),
    Column("generation", Text, nullable=False),
    Column("generator", Text, nullable=False),
    Column("reranker", Text, nullable=False),
    Column("receipt_id", String(64), index=True),
    Column("total_ms", Float, nullable=False),
    Column("timings_ms", JSON, nullable=False),  # {stage: milliseconds}
    Column("candidates", JSON, nullable=False),  # [{chunk_id, scores: {stage: value}}], best first
    Column("locked", JSON, nullable=False),  # chunk ids of [1..N]
    Column("verdicts", JSON, nullable=False),  # [{outcome, reason}]
    Column("flags", JSON, nullable=False),
    Column("claims", Integer, nullable=False),
    Column("verified", Integer, nullable=False),
    Column("tokens_in", Integer, nullable=False),
    Column("tokens_out", Integer, nullable=False),
    Column("cost", Float, nullable=False),
    Column("dense", JSON(none_as_null=True)),  # [[chunk_id, cosine similarity]], best first; null: not searched
    Column("lexical", JSON(none_as_null=True)),  # [[chunk_id, BM25 score]]
    Column("fused", JSON(none_as_null=True)),  # [[chunk_id, score]] of both together, before hygiene
    Column("refusal", JSON(none_as_null=True)),  # {gate, value, threshold} of what has no confident answer
    Column("features", JSON(none_as_null=True)),  # names of the switches that were on
    Column("origin", String(16)),  # server, or terminal: a process of its own; null: from before this was kept
    Column("outcome", String(8)),  # told, closest, none; null: a search, or from before this column
    Column("confidence", Float),  # of the best sentence, 0 to 1; null: its writer does not say
    Column("threshold", Float),  # the confidence that this question needs to be answered
    Column("evidence", JSON(none_as_null=True)),  # {feature: value} behind the confidence
    Column("rejected", JSON(none_as_null=True)),  # [{chunk_id, score, features}] of the next best sentences
    Column("phase", Integer),  # of retrieval, that answered: 3, 2, 1; null: none, or from before this was kept
    Column("retrieval_ms", Float),  # from the question to its passages, without the reranker
    Column("matched", Integer),  # candidates of the search
    Column("corrected", Integer),  # words that were read as others
    Column("action", String(16)),  # answer, clarify, no_match, refuse, unavailable; null: a search
)

RANKINGS = frozenset({"candidates", "dense", "lexical", "fused", "evidence", "rejected"})
"""Columns of QUESTIONS that are most of a row, and no part of any figure."""

FEEDBACK = Table(
    "feedback",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("at", Float, nullable=False),
    Column("day", String(10), nullable=False, index=True),
    Column("tenant", Text, nullable=False),
    Column("user_hash", String(32)),
    Column("receipt_id", String(64), nullable=False, index=True),
    Column("verdict", String(16), nullable=False),
    Column("citation", Integer),
    Column("comment", Text),
)

LOSSES = Table(
    "losses",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("at", Float, nullable=False),  # when the database took rows again
    Column("day", String(10), nullable=False, index=True),
    Column("tenant", Text, nullable=False),
    Column("rows", Integer, nullable=False),  # of the other tables, dropped since the last time that rows were written
)

_BUSY_S = 5.0
_CONNECT_S = 3


def open_engine(url: str | None, serving_db: Path) -> Engine:
    """Return the engine of a database URL, or of the SQLite file if there is none. Nothing is connected yet.

    Raises:
        TelemetryError: the URL is none, or its driver is not installed.
    """
    if url is None:
        make_private(serving_db)
        return _sqlite(f"sqlite:///{serving_db.absolute()}")
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return _sqlite(url)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        return create_engine(parsed, pool_pre_ping=True, pool_size=2, connect_args={"connect_timeout": _CONNECT_S})
    except ImportError as error:
        raise TelemetryError(f"telemetry.url needs a driver ({error}); pip install 'citelock[postgres]'") from error
    except (ArgumentError, NoSuchModuleError) as error:
        raise TelemetryError(
            f"telemetry.url is no database URL ({error}); postgresql://user@host/name is one"
        ) from error


@contextmanager
def opened(url: str | None, serving_db: Path) -> Iterator[Engine]:
    """Yield the same engine, its connections closed behind it.

    Raises:
        TelemetryError: see `open_engine`.
    """
    engine = open_engine(url, serving_db)
    try:
        yield engine
    finally:
        engine.dispose()


def faults_of(engine: Engine) -> list[str]:
    """Return the defects of a database's tables, one per line; tables and columns that `prepare` adds are not counted.

    Raises:
        TelemetryError: the database cannot be read.
    """
    try:
        there = inspect(engine)
        columns = {
            name: {str(column["name"]) for column in there.get_columns(name)} for name in there.get_table_names()
        }
    except SQLAlchemyError as error:
        raise TelemetryError(f"the telemetry database cannot be read ({error_line(error)})") from error
    lacking = {
        name: [column.name for column in table.columns if column.name not in columns[name] and not column.nullable]
        for name, table in METADATA.tables.items()
        if name in columns
    }
    return [f"table {name} lacks {', '.join(missing)}" for name, missing in lacking.items() if missing]


def rows_dropped(engine: Engine, since: date) -> int:
    """Return how many rows of all tenants could not be recorded since a day; 0 if none was ever lost.

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
        raise TelemetryError(f"the telemetry database cannot be read ({error_line(error)})") from error


def prepare(engine: Engine) -> None:
    """Make the tables, and the columns that a database of an older version lacks; rows from before have none there.

    Only columns that may be empty can be added: `faults_of` names the others.
    """
    create_tables(METADATA, engine)
    for table in METADATA.sorted_tables:
        there = {column["name"] for column in inspect(engine).get_columns(table.name)}
        for column in table.columns:
            if column.name not in there and column.nullable:
                _add(engine, table, column)


def create_tables(metadata: MetaData, engine: Engine) -> None:
    """Make the tables that are missing, beside other processes that do the same at the same time.

    Raises:
        SQLAlchemyError: they cannot be made.
    """
    for _ in metadata.tables:  # each failure is of a table that another process made since it was looked for
        with suppress(SQLAlchemyError):
            metadata.create_all(engine)
            return
    metadata.create_all(engine)


def _add(engine: Engine, table: Table, column: Column[Any]) -> None:
    """Add a column, unless another process was faster."""
    kind = column.type.compile(engine.dialect)
    try:
        with engine.begin() as connection:
            connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}"))
    except SQLAlchemyError:
        if column.name not in {each["name"] for each in inspect(engine).get_columns(table.name)}:
            raise


def error_line(error: Exception) -> str:
    """Return a driver's error in one line."""
    return one_line(redacted(str(error)))


def _sqlite(url: str) -> Engine:
    engine = create_engine(url, connect_args={"timeout": _BUSY_S})

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    return engine
