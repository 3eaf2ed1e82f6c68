"""Receipts in the SQLite database of the home folder, in WAL mode.

Belongs here: the file, its one writing connection. Does not belong here: signing, what a receipt says.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from rag_serving.artifacts.store import make_private
from rag_serving.receipts.receipt import ReceiptError, ReceiptsAwayError
from rag_serving.receipts.rows import StoredReceipt, asker_mark

_TABLE = """
CREATE TABLE IF NOT EXISTS receipts
(id TEXT PRIMARY KEY, tenant TEXT NOT NULL, created_at TEXT NOT NULL, content TEXT NOT NULL,
signature TEXT NOT NULL DEFAULT '')
"""
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
        with self._lock:
            try:
                connection = self._open()
                with connection:
                    values = (*row.fields, row.signature)
                    connection.execute("INSERT OR IGNORE INTO receipts VALUES (?, ?, ?, ?, ?)", values)
            except (sqlite3.Error, OSError) as error:
                self._close()
                raise ReceiptError(f"{self._path} cannot be written ({error})") from error

    def remove(self, tenant: str | None, asker: str | None, before: str | None) -> int:
        if self.is_empty:
            return 0
        conditions = {
            "tenant = ?": tenant,
            "instr(content, ?)": asker and asker_mark(asker),
            "created_at BETWEEN '2' AND ?": before,
        }
        given = {condition: value for condition, value in conditions.items() if value is not None}
        with self._lock:
            try:
                connection = self._open()
                with connection:
                    query = f"DELETE FROM receipts WHERE {' AND '.join(given)}"
                    return connection.execute(query, [*given.values()]).rowcount
            except (sqlite3.Error, OSError) as error:
                self._close()
                raise ReceiptError(f"{self._path} cannot be written ({error})") from error

    def find(self, identifier: str, tenant: str) -> StoredReceipt | None:
        if self.is_empty:
            return None
        try:
            with closing(
                sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)
            ) as reader:
                query = "SELECT * FROM receipts WHERE id = ? AND tenant = ?"
                row = reader.execute(query, (identifier, tenant)).fetchone()
        except sqlite3.Error as error:
            raise ReceiptsAwayError(f"{self._path} cannot be read ({error})") from error
        return StoredReceipt(*map(str, row)) if row else None

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
