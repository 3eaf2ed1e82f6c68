"""The tables of the telemetry database, the same in SQLite and in Postgres."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from rag_serving.artifacts.store import make_private, write_ahead
from rag_serving.deadline import run_in_thread
from rag_serving.escaping.redaction import redacted
from rag_serving.escaping.targets import one_line
from rag_serving.models.breaker import Breaker
from rag_serving.telemetry.recorder import TelemetryError

Result = TypeVar("Result")

WAIT_S = 3.0
_FAILURES, _RETRY_S = 2, 5.0


class GuardedDatabase:
    """A database of some tables, made when it is first used. Safe to use from several threads and processes."""

    def __init__(
        self,
        url: str | None,
        serving_db: Path,
        metadata: sa.MetaData,
        wait_s: float = WAIT_S,
        breaker: Breaker | None = None,
    ) -> None:
        """`url`: None is the SQLite file `serving_db`."""
        self._url, self._serving_db, self._metadata = url, serving_db, metadata
        self._wait_s = wait_s
        self._breaker = breaker or Breaker(_FAILURES, _RETRY_S)
        self._opening = threading.Lock()
        self._engine: sa.Engine | None = None

    def ask(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Return the result of some work in one transaction; a database that never answers blocks a thread, but no
        question. Raises TelemetryError: the database failed, is late, or failed a moment ago; the message says which.
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


FORGOTTEN_METADATA = sa.MetaData()

FORGOTTEN = sa.Table(
    "forgotten",
    FORGOTTEN_METADATA,
    sa.Column("digest", sa.String(64), primary_key=True),  # of the tenant's name
    sa.Column("mark", sa.String(32), nullable=False),  # another one each time
)


def read_mark(connection: sa.Connection, digest: str) -> str | None:
    """Return the newest mark of a tenant; None if there was never one."""
    return connection.execute(sa.select(FORGOTTEN.c.mark).where(FORGOTTEN.c.digest == digest)).scalar_one_or_none()


def write_mark(connection: sa.Connection, digest: str, mark: str) -> None:
    """Put a mark in the place of the one before."""
    inserting: Any = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    row = inserting(FORGOTTEN).values(digest=digest, mark=mark)
    connection.execute(row.on_conflict_do_update(index_elements=[FORGOTTEN.c.digest], set_={"mark": mark}))


METADATA = sa.MetaData()

QUESTIONS = sa.Table(
    "questions",
    METADATA,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("at", sa.Float, nullable=False),  # seconds since 1970, UTC
    sa.Column("day", sa.String(10), nullable=False, index=True),  # of `at`, as 2026-01-31
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("user_hash", sa.String(32)),
    sa.Column("kind", sa.String(16), nullable=False),  # ask, selected_text, search, check
    sa.Column("question", sa.Text),  # only with telemetry.store_questions
    sa.Column("question_hash", sa.String(32), nullable=False),
    sa.Column("status", sa.String(24), nullable=False),
    sa.Column("generation", sa.Text, nullable=False),
    sa.Column("generator", sa.Text, nullable=False),
    sa.Column("reranker", sa.Text, nullable=False),
    sa.Column("receipt_id", sa.String(64), index=True),
    sa.Column("total_ms", sa.Float, nullable=False),
    sa.Column("timings_ms", sa.JSON, nullable=False),  # {stage: milliseconds}
    sa.Column("candidates", sa.JSON, nullable=False),  # [{chunk_id, scores: {stage: value}}], best first
    sa.Column("locked", sa.JSON, nullable=False),  # chunk ids of [1..N]
    sa.Column("verdicts", sa.JSON, nullable=False),  # [{outcome, reason}]
    sa.Column("flags", sa.JSON, nullable=False),
    sa.Column("claims", sa.Integer, nullable=False),
    sa.Column("verified", sa.Integer, nullable=False),
    sa.Column("tokens_in", sa.Integer, nullable=False),
    sa.Column("tokens_out", sa.Integer, nullable=False),
    sa.Column("cost", sa.Float, nullable=False),
    sa.Column("dense", sa.JSON(none_as_null=True)),  # [[chunk_id, cosine similarity]], best first; null: not searched
    sa.Column("lexical", sa.JSON(none_as_null=True)),  # [[chunk_id, BM25 score]]
    sa.Column("fused", sa.JSON(none_as_null=True)),  # [[chunk_id, score]] of both together, before hygiene
    sa.Column("refusal", sa.JSON(none_as_null=True)),  # {gate, value, threshold} of what has no confident answer
    sa.Column("features", sa.JSON(none_as_null=True)),  # names of the switches that were on
    sa.Column("origin", sa.String(16)),  # server, or terminal: a process of its own; null: from before this was kept
    sa.Column("outcome", sa.String(8)),  # told, closest, none; null: a search, or from before this column
    sa.Column("confidence", sa.Float),  # of the best sentence, 0 to 1; null: its writer does not say
    sa.Column("threshold", sa.Float),  # the confidence that this question needs to be answered
    sa.Column("evidence", sa.JSON(none_as_null=True)),  # {feature: value} behind the confidence
    sa.Column("rejected", sa.JSON(none_as_null=True)),  # [{chunk_id, score, features}] of the next best sentences
    sa.Column("phase", sa.Integer),  # of retrieval, that answered: 3, 2, 1; null: none, or from before this was kept
    sa.Column("retrieval_ms", sa.Float),  # from the question to its passages, without the reranker
    sa.Column("matched", sa.Integer),  # candidates of the search
    sa.Column("corrected", sa.Integer),  # words that were read as others
    sa.Column("action", sa.String(16)),  # answer, clarify, no_match, refuse, unavailable; null: a search
)

RANKINGS = frozenset({"candidates", "dense", "lexical", "fused", "evidence", "rejected"})
"""Columns of QUESTIONS that are most of a row, and no part of any figure."""

FEEDBACK = sa.Table(
    "feedback",
    METADATA,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("day", sa.String(10), nullable=False, index=True),
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("user_hash", sa.String(32)),
    sa.Column("receipt_id", sa.String(64), nullable=False, index=True),
    sa.Column("verdict", sa.String(16), nullable=False),
    sa.Column("citation", sa.Integer),
    sa.Column("comment", sa.Text),
)

LOSSES = sa.Table(
    "losses",
    METADATA,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("at", sa.Float, nullable=False),  # when the database took rows again
    sa.Column("day", sa.String(10), nullable=False, index=True),
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("rows", sa.Integer, nullable=False),  # of the other tables, dropped since rows were last written
)

_BUSY_S = 5.0
_CONNECT_S = 3


def open_engine(url: str | None, serving_db: Path) -> sa.Engine:
    """Return the engine of a database URL, or of the SQLite file if there is none. Nothing is connected yet. Raises
    TelemetryError: the URL is none, or its driver is not installed."""
    if url is None:
        make_private(serving_db)
        return _sqlite(f"sqlite:///{serving_db.absolute()}")
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return _sqlite(url)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        return sa.create_engine(parsed, pool_pre_ping=True, pool_size=2, connect_args={"connect_timeout": _CONNECT_S})
    except ImportError as error:
        raise TelemetryError(f"telemetry.url needs a driver ({error}); pip install 'citelock[postgres]'") from error
    except (ArgumentError, NoSuchModuleError) as error:
        raise TelemetryError(
            f"telemetry.url is no database URL ({error}); postgresql://user@host/name is one"
        ) from error


@contextmanager
def opened(url: str | None, serving_db: Path) -> Iterator[sa.Engine]:
    """Yield the same engine, its connections closed behind it. Raises TelemetryError: see `open_engine`."""
    engine = open_engine(url, serving_db)
    try:
        yield engine
    finally:
        engine.dispose()


def faults_of(engine: sa.Engine) -> list[str]:
    """Return the defects of a database's tables, one per line; tables and columns that `prepare` adds are not counted.
    Raises TelemetryError: the database cannot be read."""
    try:
        there = sa.inspect(engine)
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


def rows_dropped(engine: sa.Engine, since: date) -> int:
    """Return how many rows of all tenants could not be recorded since a day; 0 if none was ever lost. Raises
    TelemetryError: the database cannot be read."""
    query = sa.select(sa.func.coalesce(sa.func.sum(LOSSES.c.rows), 0)).where(LOSSES.c.day >= since.isoformat())
    try:
        if not sa.inspect(engine).has_table(LOSSES.name):
            return 0
        with engine.connect() as connection:
            return int(connection.execute(query).scalar_one())
    except SQLAlchemyError as error:
        raise TelemetryError(f"the telemetry database cannot be read ({error_line(error)})") from error


def prepare(engine: sa.Engine) -> None:
    """Make the tables, and the columns that a database of an older version lacks; rows from before have none there.
    Only columns that may be empty can be added: `faults_of` names the others."""
    create_tables(METADATA, engine)
    for table in METADATA.sorted_tables:
        there = {column["name"] for column in sa.inspect(engine).get_columns(table.name)}
        for column in table.columns:
            if column.name not in there and column.nullable:
                _add(engine, table, column)


def create_tables(metadata: sa.MetaData, engine: sa.Engine) -> None:
    """Make the tables that are missing, beside other processes that do the same at the same time. Raises
    SQLAlchemyError: they cannot be made."""
    for _ in metadata.tables:  # each failure is of a table that another process made since it was looked for
        with suppress(SQLAlchemyError):
            metadata.create_all(engine)
            return
    metadata.create_all(engine)


def _add(engine: sa.Engine, table: sa.Table, column: sa.Column[Any]) -> None:
    """Add a column, unless another process was faster."""
    kind = column.type.compile(engine.dialect)
    try:
        with engine.begin() as connection:
            connection.execute(sa.text(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}"))
    except SQLAlchemyError:
        if column.name not in {each["name"] for each in sa.inspect(engine).get_columns(table.name)}:
            raise


def error_line(error: Exception) -> str:
    """Return a driver's error in one line."""
    return one_line(redacted(str(error)))


def _sqlite(url: str) -> sa.Engine:
    engine = sa.create_engine(url, connect_args={"timeout": _BUSY_S})

    @sa.event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: Any) -> None:
        write_ahead(connection)

    return engine
