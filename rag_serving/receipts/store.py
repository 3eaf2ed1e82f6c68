"""The store of receipts and of their shares: signed rows in SQLite, beside the telemetry."""

from __future__ import annotations

import hmac
import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from rag_serving.artifacts.secret import SecretError, derived_key
from rag_serving.artifacts.store import Store, make_private, write_ahead
from rag_serving.receipts.receipt import ReceiptError, ReceiptsAwayError, canonical, receipt_id, signature
from rag_serving.receipts.subscriptions import forget_subscriber

if TYPE_CHECKING:
    from rag_serving.config.loading import Config
    from rag_serving.receipts.database_table import DatabaseTable

SHARE_PURPOSE = "receipt shares"


@dataclass(frozen=True)
class StoredShare:
    """A row as it lies in the database: a receipt of a tenant is shared since a time."""

    id: str
    tenant: str
    shared_at: str
    signature: str = ""

    @classmethod
    def now(cls, identifier: str, tenant: str, key: bytes) -> StoredShare:
        """Return the signed row of a receipt that is shared from now on."""
        share = cls(identifier, tenant, datetime.now(UTC).isoformat(timespec="milliseconds"))
        return replace(share, signature=share.signed(key))

    def holds(self, key: bytes) -> bool:
        """Return whether the row was made here and not changed."""
        return hmac.compare_digest(self.signed(key).encode(), self.signature.encode())

    def signed(self, key: bytes) -> str:
        return signature(key, self.id, self.tenant, self.shared_at)


@dataclass(frozen=True)
class StoredReceipt:
    """A row as it lies in the database, which nobody has vouched for yet."""

    id: str
    tenant: str
    created_at: str
    content: str
    signature: str = ""

    @property
    def fields(self) -> tuple[str, str, str, str]:
        """The signed fields."""
        return self.id, self.tenant, self.created_at, self.content

    def receipt(self) -> dict[str, Any]:
        """Return the content as JSON. Raises ReceiptError: it is none."""
        try:
            content: dict[str, Any] = json.loads(self.content)
        except ValueError as error:
            raise ReceiptError(f"receipt {self.id!r} is not valid JSON ({error})") from error
        return content


def asker_mark(asker: str) -> str:
    """Return what the canonical form of a receipt of this asker contains; within a text its quotes would be escaped."""
    return f'"asker":"{asker}"'


_TABLE = """
CREATE TABLE IF NOT EXISTS receipts
(id TEXT PRIMARY KEY, tenant TEXT NOT NULL, created_at TEXT NOT NULL, content TEXT NOT NULL,
signature TEXT NOT NULL DEFAULT '')
"""
_SHARES = """
CREATE TABLE IF NOT EXISTS receipt_shares
(id TEXT PRIMARY KEY, tenant TEXT NOT NULL, shared_at TEXT NOT NULL, signature TEXT NOT NULL)
"""
_HAS_TABLE = "SELECT name FROM sqlite_master WHERE type = ? AND name = ?"
_ADD_SIGNATURE = "ALTER TABLE receipts ADD COLUMN signature TEXT NOT NULL DEFAULT ''"
_BUSY_S = 2.0


class SqliteTable:
    """Receipts and their shares in a file, which is made with the first row. Safe to use from several threads and
    processes. Raises ReceiptError where the file cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None

    @property
    def is_empty(self) -> bool:
        return not self._path.is_file()

    def insert(self, row: StoredReceipt) -> None:
        self._write("INSERT OR IGNORE INTO receipts VALUES (?, ?, ?, ?, ?)", (*row.fields, row.signature))

    def remove(self, tenant: str | None, asker: str | None, before: str | None) -> int:
        """Delete the rows of a tenant, of an asker, from before a time, as far as given, with their shares; return how
        many there were."""
        if self.is_empty:
            return 0
        conditions = {
            "tenant = ?": tenant,
            "instr(content, ?)": asker and asker_mark(asker),
            "created_at BETWEEN '2' AND ?": before,
        }
        given = {condition: value for condition, value in conditions.items() if value is not None}
        removed = self._write(f"DELETE FROM receipts WHERE {' AND '.join(given)}", [*given.values()])
        self._write("DELETE FROM receipt_shares WHERE id NOT IN (SELECT id FROM receipts)", ())
        return removed

    def find(self, identifier: str, tenant: str) -> StoredReceipt | None:
        row = self._read("SELECT * FROM receipts WHERE id = ? AND tenant = ?", identifier, tenant)
        return StoredReceipt(*row) if row else None

    def share(self, share: StoredShare) -> None:
        values = (share.id, share.tenant, share.shared_at, share.signature)
        self._write("INSERT OR IGNORE INTO receipt_shares VALUES (?, ?, ?, ?)", values)

    def unshare(self, identifier: str, tenant: str) -> None:
        self._write("DELETE FROM receipt_shares WHERE id = ? AND tenant = ?", (identifier, tenant))

    def find_share(self, identifier: str, tenant: str) -> StoredShare | None:
        if not self._read(_HAS_TABLE, "table", "receipt_shares"):  # of an older program
            return None
        row = self._read("SELECT * FROM receipt_shares WHERE id = ? AND tenant = ?", identifier, tenant)
        return StoredShare(*row) if row else None

    def _write(self, statement: str, values: Sequence[str]) -> int:
        with self._lock:
            try:
                connection = self._open()
                with connection:
                    return connection.execute(statement, values).rowcount
            except (sqlite3.Error, OSError) as error:
                self._close()
                raise ReceiptError(f"{self._path} cannot be written ({error})") from error

    def _read(self, query: str, *values: str) -> list[str] | None:
        if self.is_empty:
            return None
        address = f"{self._path.absolute().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_S)) as reader:
                row = reader.execute(query, values).fetchone()
        except sqlite3.Error as error:
            raise ReceiptsAwayError(f"{self._path} cannot be read ({error})") from error
        return [*map(str, row)] if row else None

    def close(self) -> None:
        with self._lock:
            self._close()

    def _open(self) -> sqlite3.Connection:
        """Return the one writing connection; made anew where the file was deleted under it."""
        if self._writer is None or not self._path.exists():
            self._close()
            make_private(self._path)  # what SQLite keeps beside it has the same mode
            self._writer = sqlite3.connect(self._path, timeout=_BUSY_S, check_same_thread=False)
            write_ahead(self._writer)
            self._writer.execute(_TABLE)
            self._writer.execute(_SHARES)
            _add_signature(self._writer)
        return self._writer

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _add_signature(connection: sqlite3.Connection) -> None:
    """Give a table of an older program its column; of two processes at once one does."""
    columns = [row[1] for row in connection.execute("PRAGMA table_info(receipts)")]
    if "signature" not in columns:
        try:
            connection.execute(_ADD_SIGNATURE)
        except sqlite3.OperationalError as error:
            if "duplicate column" not in str(error):
                raise


ReceiptTable = Union[SqliteTable, "DatabaseTable"]


class ReceiptStore:
    """Receipts in a table. Safe to use from several threads and processes. They are signed with the key of the home
    folder (`keys`): the one that the database lies in, if none is given."""

    def __init__(
        self, path: Path, home: Path | None = None, tables: Sequence[ReceiptTable] = (), keep_days: int | None = None
    ) -> None:
        """`tables`: the first one is written, all are looked in; without any, the SQLite file at `path` is."""
        self._home = home or path.parent
        self._tables = tables or (SqliteTable(path),)
        self._keep_days = keep_days
        self._expired_on: date | None = None

    def put(self, receipt: Mapping[str, Any]) -> str:
        """Store a receipt and give its id. Raises ReceiptError: it cannot be written, or the secret not be used."""
        row = StoredReceipt(receipt_id(receipt), receipt["tenant"], receipt["created_at"], canonical(receipt))
        self._expire()
        self._tables[0].insert(replace(row, signature=self._signature(row)))
        return row.id

    def forget(self, tenant: str, asker: str) -> int:
        """Delete the receipts of an asker, and what he follows; return how many receipts there were. Raises
        ReceiptError: a database cannot be written."""
        forget_subscriber(self._home, tenant, asker)
        return sum(table.remove(tenant, asker, None) for table in self._tables)

    def _expire(self) -> None:
        """Once a day, delete the receipts from before the last `keep_days`; what fails is tried the next day."""
        today = datetime.now(UTC).date()
        if self._keep_days is None or self._expired_on == today:
            return
        self._expired_on = today
        oldest = (today - timedelta(days=self._keep_days)).isoformat()
        for table in self._tables:
            with suppress(ReceiptError):
                table.remove(None, None, oldest)

    def get(self, identifier: str, tenant: str) -> dict[str, Any]:
        """Return the receipt of this id and tenant, as it was stored. Raises ReceiptError: there is none, it was
        changed, or the database cannot be read."""
        stored = self.stored(identifier, tenant)
        if fault := self.signature_fault(stored):
            raise ReceiptError(f"receipt {identifier!r}: {fault}")
        return stored.receipt()

    def stored(self, identifier: str, tenant: str) -> StoredReceipt:
        """Return the row of this id and tenant, whatever it became. Raises ReceiptError: none is there, or readable."""
        return self._located(identifier, tenant)[1]

    def share(self, identifier: str, tenant: str) -> None:
        """Keep that a receipt is shared. Raises ReceiptError: there is none, or the database cannot be written."""
        table, _ = self._located(identifier, tenant)
        table.unshare(identifier, tenant)  # a made-up one must not block it
        table.share(StoredShare.now(identifier, tenant, self._key(SHARE_PURPOSE)))

    def unshare(self, identifier: str, tenant: str) -> None:
        """Keep that a receipt is not shared. Raises ReceiptError: there is none, or the database cannot be written."""
        self._located(identifier, tenant)[0].unshare(identifier, tenant)

    def is_shared(self, identifier: str, tenant: str) -> bool:
        """Return whether a row made here shares a receipt. Raises ReceiptError: none is there, or readable."""
        share = self._located(identifier, tenant)[0].find_share(identifier, tenant)
        return share is not None and share.holds(self._key(SHARE_PURPOSE))

    def _located(self, identifier: str, tenant: str) -> tuple[ReceiptTable, StoredReceipt]:
        """Return a row with the table that it lies in. Raises ReceiptError: none is there, or readable."""
        for table in self._tables:
            if row := table.find(identifier, tenant):
                return table, row
        if all(table.is_empty for table in self._tables):
            raise ReceiptError(f"no receipt {identifier!r}: nothing was asked of this home yet")
        raise ReceiptError(f"tenant {tenant!r} has no receipt {identifier!r}")

    def signature_fault(self, stored: StoredReceipt) -> str | None:
        """Return why a row is not one that was stored here, or None. Raises ReceiptError: the secret cannot be used."""
        if not stored.signature:
            return "it is not signed: it was stored by an older program, or made up"
        if not hmac.compare_digest(self._signature(stored).encode(), stored.signature.encode()):
            return "its signature does not hold: it was changed after it was stored, or the secret was"
        return None

    def close(self) -> None:
        for table in self._tables:
            table.close()

    def _signature(self, row: StoredReceipt) -> str:
        return signature(self._key("receipts"), *row.fields)

    def _key(self, purpose: str) -> bytes:
        try:
            return derived_key(self._home, purpose)
        except SecretError as error:
            raise ReceiptError(str(error)) from error


def open_receipts(config: Config) -> ReceiptStore:
    """Return the receipts of an installation: in the database at `telemetry.url`, else in `serving.db`. Those stored in
    `serving.db` earlier are still read. Nothing is opened yet."""
    path = Store(config.home).serving_db()
    if config.telemetry.url is None:
        return ReceiptStore(path, keep_days=config.telemetry.retention_days)
    from rag_serving.receipts.database_table import DatabaseTable

    tables = DatabaseTable(config.telemetry.url, path), SqliteTable(path)
    return ReceiptStore(path, config.home, tables, config.telemetry.retention_days)
