"""The store of keys: signed rows of the installation's database (`telemetry.url`).

A row counts only with its signature under the installation's secret: write access to the database alone can add no key,
widen none and move none to another tenant. It can put back an earlier row of a key, from before it was revoked; a key
therefore always ends.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Connection, MetaData, String, Table, Text, insert, select, update

from rag_serving.access.principals import READER, Principal
from rag_serving.artifacts.secret import FIELD, SecretError, signature_fault, signature_of
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.hooks import KeysAwayError
from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import GuardedDatabase

PREFIX = "ck_"  # of every key: scanners for leaked credentials look for it
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


METADATA = MetaData()
KEYS = Table(
    "api_keys",
    METADATA,
    Column("id", String(16), primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("digest", String(64), nullable=False),  # SHA-256 of the secret
    Column("user", Text),
    Column("groups", JSON, nullable=False),  # [name], in order
    Column("roles", JSON, nullable=False),  # [role], in order
    Column("resource", Text),  # the only address that it opens
    Column("created", BigInteger, nullable=False),  # seconds since 1970
    Column("expires", BigInteger, nullable=False),
    Column("revoked", BigInteger),
    Column(FIELD, String(64), nullable=False),
)
_PURPOSE = "api keys"

_log = logging.getLogger(__name__)


class KeyStoreError(KeysAwayError):
    """The keys cannot be read or written; the message says why."""


class KeyStore:
    """The keys of an installation. Safe to use from several threads and processes."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.time) -> None:
        self._home, self._url, self._clock = config.home, config.telemetry.url, clock
        self._serving_db = Store(config.home).serving_db()
        self._database = GuardedDatabase(self._url, self._serving_db, METADATA)

    def add(self, key: ApiKey) -> None:
        """Keep a new key.

        Raises:
            KeyStoreError: it cannot be kept.
        """
        row = self._signed(key)
        self._ask(lambda connection: connection.execute(insert(KEYS), row))

    def list(self, tenant: str) -> list[ApiKey]:
        """Return the keys of a tenant, the newest first, those that are over included; a row that this installation
        did not sign is none.

        Raises:
            KeyStoreError: they cannot be read.
        """
        if not self._is_there():
            return []
        query = select(KEYS).where(KEYS.c.tenant == tenant).order_by(KEYS.c.created.desc(), KEYS.c.id)
        rows = self._ask(lambda connection: [dict(row) for row in connection.execute(query).mappings()])
        return [key for row in rows if (key := self._believed(row)) is not None]

    def find(self, identifier: str) -> ApiKey | None:
        """Return a key by its id; None if there is none that this installation signed.

        Raises:
            KeyStoreError: the database does not answer.
        """
        if not self._is_there():
            return None
        query = select(KEYS).where(KEYS.c.id == identifier)
        row = self._ask(lambda connection: connection.execute(query).mappings().first())
        return self._believed(dict(row)) if row is not None else None

    def revoke(self, key: ApiKey) -> None:
        """Revoke a key. Revoked twice it keeps the first time.

        Raises:
            KeyStoreError: that cannot be written.
        """
        row = self._signed(replace(key, revoked=int(self._clock())))
        is_new = KEYS.c.id == key.id, KEYS.c.revoked.is_(None)
        self._ask(lambda connection: connection.execute(update(KEYS).where(*is_new).values(row)))

    def forget(self, key: ApiKey) -> None:
        """Revoke a key, unless it is, and take the user's name out of its row.

        Raises:
            KeyStoreError: that cannot be written.
        """
        revoked = int(self._clock()) if key.revoked is None else key.revoked
        row = self._signed(replace(key, user=None, revoked=revoked))
        self._ask(lambda connection: connection.execute(update(KEYS).where(KEYS.c.id == key.id).values(row)))

    def close(self) -> None:
        self._database.close()

    def _is_there(self) -> bool:
        """Return whether there can be keys: looking for one must not make a database."""
        return self._url is not None or self._serving_db.exists()

    def _ask(self, work: Callable[[Connection], Any]) -> Any:
        try:
            return self._database.ask(work)
        except TelemetryError as error:
            raise KeyStoreError(f"keys cannot be read or written: {error}") from None

    def _signed(self, key: ApiKey) -> dict[str, Any]:
        row = {**asdict(key), "groups": sorted(key.groups), "roles": sorted(key.roles)}
        try:
            return {**row, FIELD: signature_of(row, self._home, _PURPOSE)}
        except SecretError as error:
            raise KeyStoreError(str(error)) from None

    def _believed(self, row: Mapping[str, Any]) -> ApiKey | None:
        if signature_fault(row, self._home, _PURPOSE) is not None:
            _log.error("the row of the key %s in the database was not signed here and opens nothing", row["id"])
            return None
        content = {name: value for name, value in row.items() if name != FIELD}
        return ApiKey(**{**content, "groups": frozenset(row["groups"]), "roles": frozenset(row["roles"])})
