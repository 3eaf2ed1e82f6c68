"""Receipts in the SQLite database of the home folder, in WAL mode.

Belongs here: the file, its one writing connection. Does not belong here: signing, what a receipt says.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from rag_serving.artifacts.store import make_private
from rag_serving.receipts.receipt import ReceiptError, ReceiptsAwayError
from rag_serving.receipts.rows import StoredReceipt, asker_mark
from rag_serving.receipts.shares import StoredShare

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
    """A `ReceiptTable` in a file, which is made with the first row. Safe to use from several threads and processes."""

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
        """Return how many rows a statement changed."""
        with self._lock:
            try:
                connection = self._open()
                with connection:
                    return connection.execute(statement, values).rowcount
            except (sqlite3.Error, OSError) as error:
                self._close()
                raise ReceiptError(f"{self._path} cannot be written ({error})") from error

    def _read(self, query: str, *values: str) -> list[str] | None:
        """Return the first row of a query; None where there is none."""
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
            self._writer.execute("PRAGMA journal_mode=WAL")
            self._writer.execute("PRAGMA synchronous=NORMAL")
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
