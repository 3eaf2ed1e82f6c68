"""A key of a machine: how it is written, whose it is.

Belongs here: the form `ck_ID_SECRET`, making one, what is kept of it. Does not belong here: where keys are kept
(`store`), looking one up (`lookup`).

The secret has 256 random bits, so that its SHA-256 can neither be guessed nor inverted: a slow hash has no use here.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, replace

from rag_serving.access.principals import READER, Principal

PREFIX = "ck_"
"""How every key begins: what a scanner for leaked credentials looks for."""
ID_CHARS = 16
SECRET_CHARS = 43
_ID, _SECRET = (
    frozenset("0123456789abcdef"),
    frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
)


@dataclass(frozen=True)
class ApiKey:
    """The stored facts of a key. Times in whole seconds since 1970."""

    id: str
    tenant: str
    name: str
    digest: str
    """SHA-256 of the secret, in hexadecimal digits."""
    user: str | None
    groups: frozenset[str]
    roles: frozenset[str]
    resource: str | None
    """The only address that it opens; None: all."""
    created: int
    expires: int
    revoked: int | None = None

    @property
    def principal(self) -> Principal:
        """The principal behind the key."""
        return Principal(self.tenant, self.user, self.groups, READER | self.roles)

    def is_in_force(self, now: float) -> bool:
        """Return whether it opens anything now."""
        return self.revoked is None and now < self.expires

    def holds(self, secret: str) -> bool:
        """Return whether this is the key's secret."""
        return hmac.compare_digest(self.digest, digest_of(secret))


def new_key(scope: ApiKey) -> tuple[ApiKey, str]:
    """Return a new key of a scope, whose id and digest are set here, and its written form, which is shown once."""
    identifier, secret = secrets.token_hex(ID_CHARS // 2), secrets.token_urlsafe(32)
    return replace(scope, id=identifier, digest=digest_of(secret)), f"{PREFIX}{identifier}_{secret}"


def parts_of(token: str) -> tuple[str, str] | None:
    """Return the id and the secret of a written key; None for anything else."""
    if len(token) != len(PREFIX) + ID_CHARS + 1 + SECRET_CHARS or not token.startswith(PREFIX):
        return None
    identifier, joint, secret = token[len(PREFIX) :][:ID_CHARS], token[len(PREFIX) + ID_CHARS], token[-SECRET_CHARS:]
    is_written = joint == "_" and set(identifier) <= _ID and set(secret) <= _SECRET
    return (identifier, secret) if is_written else None


def digest_of(secret: str) -> str:
    """Return the stored form of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()
