"""Claims that the database trusts: the caller, signed with the installation's secret; and meaningless ids.

An id is a keyed digest: the database's catalogs, or a guessed name, reveal nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple
from uuid import UUID

from rag_serving.access.principals import Principal

KEY_PURPOSE = "postgres claims"
MARGIN_S = 60.0
"""How long claims outlive the statement that they are for: clocks of two machines may differ by as much."""
UNSIGNED = (
    "the database does not know this installation's secret: CITELOCK_SECRET must be the one under which "
    "`citelock index migrate` ran; run that here, then `citelock build`"
)
"""What is said where the database believes no claim that is signed here."""
_BLOCK = 64  # bytes of a block of SHA-256

Role = Literal["reader", "server", "publisher"]


class SignedClaims(NamedTuple):
    """The settings `request.jwt.claims` and `request.jwt.signature` of a transaction."""

    claims: str
    signature: str


@dataclass(frozen=True)
class ClaimSigner:
    """Signs for one installation. `key` [32 bytes]: `derived_key(home, KEY_PURPOSE)`."""

    key: bytes

    def tenant_id(self, tenant: str) -> UUID:
        """Return the id of a tenant."""
        return UUID(bytes=self._digest("tenant", tenant)[:16])

    def class_id(self, tenant: str, readers: str) -> int:
        """Return the id of a reader class, a number of 64 bits with a sign."""
        return int.from_bytes(self._digest("class", tenant, readers)[:8], "big", signed=True)

    def for_reader(self, principal: Principal, seconds: float) -> SignedClaims:
        """Return the claims of a caller, for so many seconds and `MARGIN_S`."""
        user = principal.user if principal.user and is_storable(principal.user) else None
        return self._signed(principal.tenant, "reader", seconds, user, filter(is_storable, principal.groups))

    def until(self, principal: Principal, seconds: float) -> SignedClaims:
        """Return the claims of a caller for exactly so many seconds."""
        return self.for_reader(principal, seconds - MARGIN_S)

    def for_role(self, tenant: str, role: Role, seconds: float) -> SignedClaims:
        """Return the claims of the serving process itself, or of a publisher."""
        return self._signed(tenant, role, seconds)

    def _signed(
        self, tenant: str, role: Role, seconds: float, user: str | None = None, groups: Iterable[str] = ()
    ) -> SignedClaims:
        said = {
            "tenant_id": str(self.tenant_id(tenant)),
            "sub": user,
            "groups": sorted(groups),
            "role": role,
            "exp": math.floor((time.time() + seconds + MARGIN_S) * 1000) / 1000,  # rounded up they would outlive it
        }
        claims = json.dumps(said, ensure_ascii=False, separators=(",", ":"))
        return SignedClaims(claims, hmac.new(self.key, claims.encode(), hashlib.sha256).hexdigest())

    def _digest(self, *parts: str) -> bytes:
        return hmac.new(self.key, json.dumps(parts).encode(), hashlib.sha256).digest()


def is_storable(name: str) -> bool:
    """Return whether the database can store a name; others are in no reader class there."""
    return "\0" not in name and not any("\ud800" <= letter <= "\udfff" for letter in name)


def pads(key: bytes) -> tuple[bytes, bytes]:
    """Return the inner and the outer block of HMAC-SHA256 (RFC 2104) of a key of at most 64 bytes."""
    padded = key.ljust(_BLOCK, b"\0")
    return bytes(byte ^ 0x36 for byte in padded), bytes(byte ^ 0x5C for byte in padded)
