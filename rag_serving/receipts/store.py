"""Where receipts lie: a signed row each in the SQLite database of the home folder.

Belongs here: storing receipts and reading them back unchanged.
Does not belong here: what a receipt says (`receipts`), who may see it (`proofs`).
"""

from __future__ import annotations

import hmac
import json
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_serving.keys import SecretError, derived_key
from rag_serving.receipts.receipt import ReceiptError, canonical, receipt_id, signature

_TABLE = """
CREATE TABLE IF NOT EXISTS receipts
(id TEXT PRIMARY KEY, tenant TEXT NOT NULL, created_at TEXT NOT NULL, content TEXT NOT NULL,
signature TEXT NOT NULL DEFAULT '')
"""
_ADD_SIGNATURE = "ALTER TABLE receipts ADD COLUMN signature TEXT NOT NULL DEFAULT ''"
_BUSY_S = 2.0


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
        """What is signed."""
        return self.id, self.tenant, self.created_at, self.content

    def receipt(self) -> dict[str, Any]:
        """The content as JSON.

        Raises:
            ReceiptError: it is none.
        """
        try:
            content: dict[str, Any] = json.loads(self.content)
        except ValueError as error:
            raise ReceiptError(f"receipt {self.id!r} is not valid JSON ({error})") from error
        return content


class ReceiptStore:
    """Receipts in a SQLite database in WAL mode. Safe to use from several threads and processes.

    They are signed with the key of the home folder (`keys`): the one that the database lies in, if none is given.
    """

    def __init__(self, path: Path, home: Path | None = None) -> None:
        self._path = path
        self._home = home or path.parent
        self._lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None

    def put(self, receipt: Mapping[str, Any]) -> str:
        """Store a receipt and give its id.

        Raises:
            ReceiptError: the database cannot be written, or the secret not be used.
        """
        row = StoredReceipt(receipt_id(receipt), receipt["tenant"], receipt["created_at"], canonical(receipt))
        signed = (*row.fields, self._signature(row))
        with self._lock:
            try:
                connection = self._open()
                with connection:
                    connection.execute("INSERT OR IGNORE INTO receipts VALUES (?, ?, ?, ?, ?)", signed)
            except (sqlite3.Error, OSError) as error:
                self._close()
                raise ReceiptError(f"{self._path} cannot be written ({error})") from error
        return row.id

    def get(self, identifier: str, tenant: str) -> dict[str, Any]:
        """The receipt of this id and tenant, as it was stored.

        Raises:
            ReceiptError: there is none, it was changed, or the database cannot be read.
        """
        stored = self.stored(identifier, tenant)
        if fault := self.signature_fault(stored):
            raise ReceiptError(f"receipt {identifier!r}: {fault}")
        return stored.receipt()

    def stored(self, identifier: str, tenant: str) -> StoredReceipt:
        """The row of this id and tenant, whatever it has become.

        Raises:
            ReceiptError: there is none, or the database cannot be read.
        """
        if not self._path.is_file():
            raise ReceiptError(f"no receipt {identifier!r}: nothing was asked of this home yet")
        try:
            with closing(
                sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)
            ) as reader:
                query = "SELECT * FROM receipts WHERE id = ? AND tenant = ?"
                found = reader.execute(query, (identifier, tenant)).fetchone()
        except sqlite3.Error as error:
            raise ReceiptError(f"{self._path} cannot be read ({error})") from error
        if found is None:
            raise ReceiptError(f"tenant {tenant!r} has no receipt {identifier!r}")
        return StoredReceipt(*map(str, found))

    def signature_fault(self, stored: StoredReceipt) -> str | None:
        """Why a row is not one that was stored here, or None.

        Raises:
            ReceiptError: the secret cannot be used.
        """
        if not stored.signature:
            return "it is not signed: it was stored by an older program, or made up"
        if not hmac.compare_digest(self._signature(stored).encode(), stored.signature.encode()):
            return "its signature does not hold: it was changed after it was stored, or the secret was"
        return None

    def close(self) -> None:
        with self._lock:
            self._close()

    def _signature(self, row: StoredReceipt) -> str:
        try:
            return signature(derived_key(self._home, "receipts"), *row.fields)
        except SecretError as error:
            raise ReceiptError(str(error)) from error

    def _open(self) -> sqlite3.Connection:
        """The one writing connection; made anew where the file was deleted under it."""
        if self._writer is None or not self._path.exists():
            self._close()
            self._path.parent.mkdir(parents=True, exist_ok=True)
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
