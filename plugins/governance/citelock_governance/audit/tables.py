"""The tables of the audit log, in SQLite and Postgres, and connections whose transactions exclude others."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from sqlalchemy import BigInteger, Column, Engine, Float, Integer, MetaData, String, Table, Text, event, inspect

from rag_serving.telemetry.tables import create_tables, open_engine

METADATA = MetaData()

ROWS = Table(
    "audit_rows",
    METADATA,
    Column("tenant", String(200), primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),  # from 1, without gaps
    Column("at", String(32), nullable=False),  # ISO 8601, UTC, microseconds
    Column("kind", String(40), nullable=False),
    Column("actor", String(32), index=True),  # a pseudonym of AUDIT_PERSONS; null: nobody named, or not kept
    Column("subject", Text),  # id of what was acted on: a document, a key, a generation
    Column("status", String(24)),
    Column("query_hash", String(64)),  # keyed by the person's own key
    Column("query", Text),  # sealed with the person's own key, personal data taken out; null: not kept
    Column("retrieved", Text),  # JSON list of chunk ids
    Column("model", Text),
    Column("tokens_in", Integer),
    Column("tokens_out", Integer),
    Column("cost", Float),
    Column("latency_ms", Float),
    Column("generation", Text),
    Column("details", Text),  # JSON object
    Column("previous", String(64), nullable=False),  # hash of the row before
    Column("hash", String(64), nullable=False),  # SHA-256 of all columns above
    Column("signature", String(64), nullable=False),  # HMAC-SHA256 of the hash
)

HEADS = Table(
    "audit_heads",
    METADATA,
    Column("tenant", String(200), primary_key=True),
    Column("first_sequence", BigInteger, nullable=False),  # of the oldest row that is kept
    Column("first_previous", String(64), nullable=False),  # hash of the row before it
    Column("sequence", BigInteger, nullable=False),  # of the newest row; 0: none was ever written
    Column("hash", String(64), nullable=False),
    Column("signature", String(64), nullable=False),
)

PERSONS = Table(
    "audit_persons",
    METADATA,
    Column("tenant", String(200), primary_key=True),
    Column("person", String(64), primary_key=True),  # keyed digest of tenant and user
    Column("actor", String(32), nullable=False, unique=True),  # random: what rows have
    Column("secret", Text, nullable=False),  # sealed key of what is kept of the person
    Column("name", Text),  # sealed user, where audit.user is `id`
)

Access = Literal["append", "read"]
_BEGIN = {"append": "BEGIN IMMEDIATE", "read": "BEGIN"}


def open_audit_engine(url: str | None, serving_db: Path, access: Access) -> Engine:
    """Return the engine of the audit log's database. Nothing is connected yet.

    A transaction that appends excludes other writers from its first statement on, and is on disk when it is committed;
    one that reads sees one state. SQLite begins neither by itself before a row is changed.

    Raises:
        TelemetryError: the URL is none, or its driver is not installed.
    """
    engine = open_engine(url, serving_db)
    if engine.dialect.name != "sqlite":
        return engine.execution_options(isolation_level="REPEATABLE READ") if access == "read" else engine

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous=FULL")

    @event.listens_for(engine, "begin")
    def _begun(connection: Any) -> None:
        connection.exec_driver_sql(_BEGIN[access])

    return engine


def has_log(engine: Engine) -> bool:
    """Return whether the database has an audit log."""
    return inspect(engine).has_table(ROWS.name)


def prepare(engine: Engine) -> None:
    """Make the tables that are missing; errors as `create_tables`."""
    create_tables(METADATA, engine)
