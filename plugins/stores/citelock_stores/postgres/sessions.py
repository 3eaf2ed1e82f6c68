"""Transactions on somebody's behalf, on pooled connections: the caller is signed with the installation's secret. An id
is a keyed digest: the database's catalogs, or a guessed name, reveal nothing. Claims are set with `SET LOCAL`: they end
with their transaction, whichever caller gets the connection next. They are sent as parameters, never within statements,
so that no other session reads them in `pg_stat_activity`."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from uuid import UUID

from rag_serving import deadline
from rag_serving.access.principals import Principal
from rag_serving.escaping.redaction import redacted
from rag_serving.escaping.targets import one_line
from rag_serving.indexes.databases import (
    RemoteConnectionError,
    RemoteDataError,
    RemoteError,
    RemoteTimeoutError,
)
from rag_serving.models.breaker import Breaker

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

KEY_PURPOSE = "postgres claims"
# Claims outlive their statement by this: clocks of two machines may differ by as much.
MARGIN_S = 60.0
# The error where the database rejects the claims that are signed here.
UNSIGNED = (
    "the database does not know this installation's secret: CITELOCK_SECRET must be the one under which "
    "`citelock index migrate` ran; run that here, then `citelock build`"
)
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


CONNECT_S = 4.0
_RETRY_S = 1.0
_MIGRATE = "`citelock index migrate` makes or mends its schema"

_REFUSALS = ("FATAL: role", "FATAL: password", "authentication failed", "pg_hba.conf")

SignFor = Callable[[float], SignedClaims]
"""Claims that hold for so many seconds."""


class _BrokenError(Exception):
    """The connection ended under a statement."""


class DatabaseSessions:
    """Connections to the database as one of its users. Safe to use from several threads; opens none before first use.
    `timeout_s`: the time limit of one statement."""

    def __init__(self, url: str, connections: int, timeout_s: float) -> None:
        self._url, self._connections, self.timeout_s = url, connections, timeout_s
        self._lock = threading.Lock()
        self._pool: ConnectionPool[Any] | None = None
        self._breaker = Breaker(failures=1, reset_s=_RETRY_S)

    def rows(
        self,
        sign: SignFor,
        statement: str,
        values: Sequence[object] = (),
        local: Mapping[str, str] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Return the rows of one statement on somebody's behalf; `local` are further settings of its transaction.
        Raises RemoteConnectionError, RemoteTimeoutError, RemoteDataError: as the protocol says."""
        deadline.check()
        seconds = max(0.01, deadline.at_most(self.timeout_s))
        settings = {**settings_of(sign(seconds), seconds), **(local or {})}
        import psycopg

        try:
            try:
                return self._read(seconds, settings, statement, values)
            except _BrokenError:  # it was kept open, and closed by the server: what only reads may be sent again
                self._look()
            return self._read(seconds, settings, statement, values)
        except _BrokenError as error:
            raise RemoteConnectionError("the database of `index` broke off") from error
        except psycopg.Error as error:
            raise remote_error(error) from error

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool:
            pool.close(timeout=_RETRY_S)

    def _read(
        self, seconds: float, settings: Mapping[str, str], statement: str, values: Sequence[object]
    ) -> list[tuple[Any, ...]]:
        """Run a statement in a transaction that is sent at once, and return its rows. Raises psycopg.Error;
        _BrokenError if the connection was closed meanwhile."""
        from psycopg import OperationalError

        pool = self._opened()
        try:
            connection = pool.getconn(min(seconds, CONNECT_S))
        except OperationalError:
            self._breaker.fail()
            raise
        self._breaker.succeed()
        try:
            with connection.pipeline(), connection.transaction():
                set_locally(connection, settings)
                cursor = connection.cursor(binary=True).execute(statement, values)
            return list(cursor.fetchall())
        except OperationalError as error:
            if connection.broken:
                raise _BrokenError from error
            raise
        finally:
            pool.putconn(connection)

    def _look(self) -> None:
        """Connect once, to learn whether the database responds, and drop broken connections."""
        from psycopg import OperationalError, connect

        try:
            connect(self._url, connect_timeout=int(CONNECT_S)).close()
        except OperationalError:
            self._breaker.fail()
            raise
        with self._lock:
            pool = self._pool
        if pool:
            pool.check()

    def _opened(self) -> ConnectionPool[Any]:
        """Return the pool; after a failure, or the first time, only if the database answers. Raises
        RemoteConnectionError: it was away a moment ago; psycopg.OperationalError: it is."""
        is_known = self._pool is not None and self._breaker.state == "closed"
        if not self._breaker.allow():
            raise RemoteConnectionError("the database of `index` was not reachable a moment ago")
        with self._lock:
            if self._pool is None:
                self._pool = open_pool(self._url, self._connections)
            pool = self._pool
        if not is_known:
            self._look()
        return pool


def open_pool(url: str, connections: int) -> ConnectionPool[Any]:
    """Return a pool of so many connections, each made when it is first needed. Raises RemoteDataError: psycopg is not
    installed, or the URL is none."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
        from psycopg_pool import ConnectionPool
    except ImportError as error:
        raise RemoteDataError(
            "index.kind postgres needs psycopg, which is not installed: pip install 'citelock[stores]'"
        ) from error
    try:
        conninfo_to_dict(url)
    except ProgrammingError as error:
        raise RemoteDataError(f"the address of the database is none ({redacted(one_line(error))})") from None
    pool: ConnectionPool[Any] = ConnectionPool(
        url,
        kwargs={"autocommit": True, "prepare_threshold": None, "connect_timeout": int(CONNECT_S)},
        min_size=0,
        max_size=connections,
        max_idle=300,
        reconnect_timeout=_RETRY_S,
        configure=configure,
        open=False,
        name="citelock-index",
    )
    pool.open()
    return pool


def configure(connection: Any) -> None:
    """Add the schemas of this program and of pgvector to the search path."""
    connection.execute(
        "SELECT set_config('search_path', 'pg_catalog, citelock' || coalesce((SELECT ', ' || quote_ident(n.nspname) "
        "FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'), ''), false)"
    )


def settings_of(claims: SignedClaims, seconds: float) -> dict[str, str]:
    """Return the settings of a transaction on somebody's behalf, whose statements end after so many seconds."""
    return {
        "request.jwt.claims": claims.claims,
        "request.jwt.signature": claims.signature,
        "statement_timeout": str(max(1, round(1000 * seconds))),
    }


def set_locally(connection: Any, settings: Mapping[str, str]) -> None:
    """Set settings until the end of the transaction."""
    names = ", ".join("set_config(%s, %s, true)" for _ in settings)
    connection.execute(f"SELECT {names}", [part for setting in settings.items() for part in setting])


def remote_error(error: Exception) -> RemoteError:
    """Return an error of psycopg as one of the protocol, in one line and without credentials."""
    from psycopg import OperationalError, errors
    from psycopg_pool import PoolTimeout

    said = redacted(one_line(error))
    if isinstance(error, errors.QueryCanceled | errors.LockNotAvailable):
        return RemoteTimeoutError(f"the database took longer than a read or a step of a publication may take ({said})")
    if isinstance(error, PoolTimeout):
        return RemoteConnectionError(f"no connection to the database of `index` ({said})")
    if isinstance(error, errors.InvalidPassword | errors.InvalidAuthorizationSpecification):
        return RemoteConnectionError(f"the database of `index` refuses its user ({said}); docs/backends.md")
    absent = errors.UndefinedTable | errors.InvalidSchemaName | errors.UndefinedFunction | errors.UndefinedColumn
    if isinstance(error, absent | errors.InsufficientPrivilege | errors.UndefinedObject):
        return RemoteDataError(f"the database of `index` is not as it should be ({said}); {_MIGRATE}")
    if isinstance(error, OperationalError) and any(word in said for word in _REFUSALS):
        return RemoteConnectionError(
            f"the database of `index` refuses its user ({said}); `citelock index migrate` makes the users, and their "
            "passwords are the administrator's (docs/backends.md)"
        )
    if isinstance(error, OperationalError):
        return RemoteConnectionError(f"the database of `index` broke off ({said})")
    return RemoteDataError(f"the database of `index` cannot answer ({said})")
