"""Receipts in the database at `telemetry.url`, beside the telemetry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Column, Connection, MetaData, String, Table, Text, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from rag_serving.models.breaker import Breaker
from rag_serving.receipts.receipt import ReceiptsAwayError
from rag_serving.receipts.store import StoredReceipt, StoredShare, asker_mark
from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import WAIT_S, GuardedDatabase

Result = TypeVar("Result")

METADATA = MetaData()

RECEIPTS = Table(
    "receipts",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("signature", Text, nullable=False),
)

SHARES = Table(
    "receipt_shares",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("shared_at", Text, nullable=False),
    Column("signature", Text, nullable=False),
)


class DatabaseTable:
    """Receipts and shares in a database that SQLAlchemy reaches; as `SqliteTable`, from several threads and processes.
    A question waits until its receipt is stored: for `wait_s` at most, and for none while the database keeps
    failing."""

    def __init__(self, url: str, serving_db: Path, wait_s: float = WAIT_S, breaker: Breaker | None = None) -> None:
        self._database = GuardedDatabase(url, serving_db, METADATA, wait_s, breaker)

    @property
    def is_empty(self) -> bool:
        return False

    def insert(self, row: StoredReceipt) -> None:
        self._insert(RECEIPTS, vars(row))

    def find(self, identifier: str, tenant: str) -> StoredReceipt | None:
        row = self._find(RECEIPTS, identifier, tenant)
        return StoredReceipt(*row) if row else None

    def share(self, share: StoredShare) -> None:
        self._insert(SHARES, vars(share))

    def unshare(self, identifier: str, tenant: str) -> None:
        statement = delete(SHARES).where(SHARES.c.id == identifier, SHARES.c.tenant == tenant)

        def write(connection: Connection) -> None:
            connection.execute(statement)

        self._asked(write, "written")

    def find_share(self, identifier: str, tenant: str) -> StoredShare | None:
        row = self._find(SHARES, identifier, tenant)
        return StoredShare(*row) if row else None

    def _insert(self, table: Table, values: Mapping[str, Any]) -> None:
        """Add a row, unless there is one of the same id."""

        def write(connection: Connection) -> None:
            dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
            statement = dialect.insert(table).on_conflict_do_nothing(index_elements=["id"])
            connection.execute(statement, dict(values))

        self._asked(write, "written")

    def _find(self, table: Table, identifier: str, tenant: str) -> list[str] | None:
        def read(connection: Connection) -> list[str] | None:
            query = select(table).where(table.c.id == identifier, table.c.tenant == tenant)
            row = connection.execute(query).first()
            return [*row] if row else None

        return self._asked(read, "read")

    def remove(self, tenant: str | None, asker: str | None, before: str | None) -> int:
        statement = delete(RECEIPTS)
        if tenant is not None:
            statement = statement.where(RECEIPTS.c.tenant == tenant)
        if asker is not None:
            statement = statement.where(RECEIPTS.c.content.contains(asker_mark(asker), autoescape=True))
        if before is not None:
            statement = statement.where(RECEIPTS.c.created_at.between("2", before))

        def write(connection: Connection) -> int:
            removed = connection.execute(statement).rowcount
            connection.execute(delete(SHARES).where(SHARES.c.id.not_in(select(RECEIPTS.c.id))))
            return removed

        return self._asked(write, "written")

    def close(self) -> None:
        self._database.close()

    def _asked(self, ask: Callable[[Connection], Result], done: str) -> Result:
        try:
            return self._database.ask(ask)
        except TelemetryError as error:
            raise ReceiptsAwayError(f"the database of receipts cannot be {done} ({error})") from error
