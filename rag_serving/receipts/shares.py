"""Receipts that their askers share: a signed row each, so that who can write to the database shares nothing.

Belongs here: the row, its signature. Does not belong here: where rows lie (`store`), who may share (`proofs`).
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rag_serving.receipts.receipt import signature

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
