"""A receipt, or that its asker shares it, as a row of a table, and what keeps such rows.

Belongs here: the rows, the signature of a share, so that who can write to the database shares nothing; what a table
must do. Does not belong here: databases (`*_table`), signing receipts (`store`), who may share (`proofs`).
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from rag_serving.receipts.receipt import ReceiptError, signature

KEY_PURPOSE = "receipt shares"


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
        """Return the content as JSON.

        Raises:
            ReceiptError: it is none.
        """
        try:
            content: dict[str, Any] = json.loads(self.content)
        except ValueError as error:
            raise ReceiptError(f"receipt {self.id!r} is not valid JSON ({error})") from error
        return content


def asker_mark(asker: str) -> str:
    """Return what the canonical form of a receipt of this asker contains; within a text its quotes would be escaped."""
    return f'"asker":"{asker}"'


class ReceiptTable(Protocol):
    """The table of rows. Safe to use from several threads and processes."""

    def insert(self, row: StoredReceipt) -> None:
        """Keep a row; one of the same id stays as it is.

        Raises:
            ReceiptError: the database cannot be written.
        """

    def find(self, identifier: str, tenant: str) -> StoredReceipt | None:
        """Return the row of this id and tenant, None if there is none.

        Raises:
            ReceiptError: the database cannot be read.
        """

    def remove(self, tenant: str | None, asker: str | None, before: str | None) -> int:
        """Delete the rows of a tenant, of an asker, from before a time, as far as given, with their shares; return how
        many there were.

        Raises:
            ReceiptError: the database cannot be written.
        """

    def share(self, share: StoredShare) -> None:
        """Keep that a receipt is shared; one that is already stays as it is.

        Raises:
            ReceiptError: the database cannot be written.
        """

    def unshare(self, identifier: str, tenant: str) -> None:
        """Keep that a receipt is not shared any more.

        Raises:
            ReceiptError: the database cannot be written.
        """

    def find_share(self, identifier: str, tenant: str) -> StoredShare | None:
        """Return the share of the receipt of this id and tenant, None if there is none.

        Raises:
            ReceiptError: the database cannot be read.
        """

    @property
    def is_empty(self) -> bool:
        """Whether there is no database yet."""

    def close(self) -> None: ...
