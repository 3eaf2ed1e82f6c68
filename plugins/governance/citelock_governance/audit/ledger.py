"""The tables of the audit log, and appending to the chain of one tenant, beside other processes.

One transaction at a time extends a chain: it locks the row of the head from its first statement on (Postgres), or the
database's write lock (SQLite). All rows of a batch are committed at once.

A row has a person's random pseudonym, and texts sealed with that person's own key. One row of `audit_persons` links
person, pseudonym and key. When it is deleted, rows keep their bytes, so that the chain still verifies, but persons and
questions can no longer be recovered."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import math
import secrets
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy import event as engine_events
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from citelock_governance.audit.chain import GENESIS, Anchor, AnchorFile, Head, Signer, head_of
from rag_serving.artifacts.secret import SealError, SecretError, derived_key, seal, unseal
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.sections import Audit
from rag_serving.escaping.redaction import RedactedError
from rag_serving.hooks import Event
from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import create_tables, error_line, open_engine

METADATA = MetaData()

ROWS = Table(
    "audit_rows",
    METADATA,
    Column("tenant", String(200), primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),  # from 1, without gaps
    Column("at", String(32), nullable=False),  # ISO 8601, UTC, microseconds
    Column("kind", String(40), nullable=False),
    Column("actor", String(32), index=True),  # a pseudonym of AUDIT_PERSONS; null: nobody named, or not kept
    Column("subject", Text),  # id of what was acted on: a document, a key, a generation
    Column("status", String(24)),
    Column("query_hash", String(64)),  # keyed by the person's own key
    Column("query", Text),  # sealed with the person's own key, personal data taken out; null: not kept
    Column("retrieved", Text),  # JSON list of chunk ids
    Column("model", Text),
    Column("tokens_in", Integer),
    Column("tokens_out", Integer),
    Column("cost", Float),
    Column("latency_ms", Float),
    Column("generation", Text),
    Column("details", Text),  # JSON object
    Column("previous", String(64), nullable=False),  # hash of the row before
    Column("hash", String(64), nullable=False),  # SHA-256 of all columns above
    Column("signature", String(64), nullable=False),  # HMAC-SHA256 of the hash
)

HEADS = Table(
    "audit_heads",
    METADATA,
    Column("tenant", String(200), primary_key=True),
    Column("first_sequence", BigInteger, nullable=False),  # of the oldest row that is kept
    Column("first_previous", String(64), nullable=False),  # hash of the row before it
    Column("sequence", BigInteger, nullable=False),  # of the newest row; 0: none was ever written
    Column("hash", String(64), nullable=False),
    Column("signature", String(64), nullable=False),
)

PERSONS = Table(
    "audit_persons",
    METADATA,
    Column("tenant", String(200), primary_key=True),
    Column("person", String(64), primary_key=True),  # keyed digest of tenant and user
    Column("actor", String(32), nullable=False, unique=True),  # random: what rows have
    Column("secret", Text, nullable=False),  # sealed key of what is kept of the person
    Column("name", Text),  # sealed user, where audit.user is `id`
)

Access = Literal["append", "read"]
_BEGIN = {"append": "BEGIN IMMEDIATE", "read": "BEGIN"}


def open_audit_engine(url: str | None, serving_db: Path, access: Access) -> Engine:
    """Return the engine of the audit log's database. Nothing is connected yet. A transaction that appends excludes
    other writers from its first statement on, and is on disk when it is committed; one that reads sees one state.
    SQLite begins neither by itself before a row is changed. Raises TelemetryError: the URL is none, or its driver is
    not installed."""
    engine = open_engine(url, serving_db)
    if engine.dialect.name != "sqlite":
        return engine.execution_options(isolation_level="REPEATABLE READ") if access == "read" else engine

    @engine_events.listens_for(engine, "connect")
    def _connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous=FULL")

    @engine_events.listens_for(engine, "begin")
    def _begun(connection: Any) -> None:
        connection.exec_driver_sql(_BEGIN[access])

    return engine


_DIGEST, _SEALING, _NOBODY = "audit persons", "audit person keys", "audit callers without a name"
_KEY_BYTES = 32
_ACTOR_BYTES = 12
_HASH_CHARS = 32
_MOST_KEYS = 1_000

UserPolicy = Literal["hash", "id", "none"]


@dataclass(frozen=True)
class Person:
    """A person's pseudonym, None for nobody, and the key of what is kept of them."""

    actor: str | None
    key: bytes

    def query_hash(self, query: str) -> str:
        """Return the keyed hash of a question; without the person's key it cannot be tried out."""
        return hmac.new(self.key, query.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:_HASH_CHARS]

    def sealed(self, text: str, beside: bytes) -> str:
        """Return a text that only this person's key opens, beside the same bytes."""
        return seal(self.key, text, beside)

    def opened(self, sealed: str, beside: bytes) -> str | None:
        """Return a sealed text; None if it was sealed with another key, or altered."""
        try:
            return unseal(self.key, sealed, beside)
        except SealError:
            return None


class Persons:
    """The people of one tenant."""

    def __init__(self, home: Path, tenant: str, policy: UserPolicy = "hash") -> None:
        """Raises SecretError if the installation's secret cannot be used."""
        self._tenant, self._policy = tenant, policy
        self._digest_key, self._sealing_key = derived_key(home, _DIGEST), derived_key(home, _SEALING)
        self._nobody = Person(None, derived_key(home, f"{_NOBODY} of {tenant}"))
        self._keys: dict[str, bytes] = {}  # by their sealed form, which the database still has to have

    def of(self, connection: Connection, users: Collection[str | None]) -> Mapping[str | None, Person]:
        """Return each user's pseudonym and key, made now if there is none yet."""
        named = set() if self._policy == "none" else {user for user in users if user}
        digests = {self._digest(user): user for user in sorted(named)}
        found = self._found(connection, digests)
        if missing := [digest for digest in digests if digests[digest] not in found]:
            insert: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
            rows = [self._made(digest, digests[digest]) for digest in missing]
            connection.execute(insert.insert(PERSONS).on_conflict_do_nothing(), rows)
            found |= self._found(connection, {digest: digests[digest] for digest in missing})
        return {user: found.get(user, self._nobody) if user else self._nobody for user in users}

    def forget(self, connection: Connection, user: str) -> int:
        """Delete a user's link to rows, and the key that opens them; return how many there were, 0 or 1."""
        mine = PERSONS.c.tenant == self._tenant, PERSONS.c.person == self._digest(user)
        return int(connection.execute(delete(PERSONS).where(*mine)).rowcount)

    def known(self, connection: Connection, actor: str | None) -> tuple[Person, str | None] | None:
        """Return the person behind a pseudonym and, if it was kept, the user; None if they were forgotten."""
        if actor is None:
            return self._nobody, None
        query = select(PERSONS).where(PERSONS.c.tenant == self._tenant, PERSONS.c.actor == actor)
        row = connection.execute(query).mappings().first()
        if row is None:
            return None
        try:
            name = unseal(self._sealing_key, row["name"], self._beside(row["person"], "name")) if row["name"] else None
            return self._person(dict(row)), name
        except SealError:
            return None

    def _found(self, connection: Connection, digests: Mapping[str, str]) -> dict[str, Person]:
        query = select(PERSONS).where(PERSONS.c.tenant == self._tenant, PERSONS.c.person.in_(list(digests)))
        return {digests[row["person"]]: self._person(dict(row)) for row in connection.execute(query).mappings()}

    def _person(self, row: Mapping[str, Any]) -> Person:
        sealed = row["secret"]
        if sealed not in self._keys:
            if len(self._keys) >= _MOST_KEYS:
                self._keys.clear()
            self._keys[sealed] = b64decode(unseal(self._sealing_key, sealed, self._beside(row["person"], row["actor"])))
        return Person(row["actor"], self._keys[sealed])

    def _made(self, digest: str, user: str) -> dict[str, Any]:
        actor = secrets.token_hex(_ACTOR_BYTES)
        key = b64encode(secrets.token_bytes(_KEY_BYTES)).decode()
        return {
            "tenant": self._tenant,
            "person": digest,
            "actor": actor,
            "secret": seal(self._sealing_key, key, self._beside(digest, actor)),
            "name": seal(self._sealing_key, user, self._beside(digest, "name")) if self._policy == "id" else None,
        }

    def _digest(self, user: str) -> str:
        content = f"{self._tenant}\0{user}".encode("utf-8", "surrogatepass")
        return hmac.new(self._digest_key, content, hashlib.sha256).hexdigest()

    def _beside(self, digest: str, what: str) -> bytes:
        return f"{self._tenant}\0{digest}\0{what}".encode()


def cut_old(ledger: Ledger, keep_days: int, now: datetime | None = None) -> int:
    """Delete the rows from before the last `keep_days`, and persons in none of the others; return how many rows there
    were. The signed head then has the first row and its predecessor's hash, and a row of the chain itself records the
    cut. Raises AuditError: the log cannot be written."""
    oldest = ((now or datetime.now(UTC)) - timedelta(days=keep_days)).isoformat(timespec="microseconds")
    count = 0

    def work(connection: Connection, head: Head) -> Head:
        nonlocal count
        mine = ROWS.c.tenant == ledger.tenant
        kept = connection.execute(select(func.min(ROWS.c.sequence)).where(mine, ROWS.c.at >= oldest)).scalar_one()
        first = head.sequence + 1 if kept is None else int(kept)
        if first <= head.first_sequence:
            return head
        last = connection.execute(select(ROWS.c.hash).where(mine, ROWS.c.sequence == first - 1)).scalar_one_or_none()
        if last is None:  # a gap: the remaining events must reveal it
            return head
        count = connection.execute(delete(ROWS).where(mine, ROWS.c.sequence < first)).rowcount
        remaining = select(ROWS.c.actor).where(mine, ROWS.c.actor.is_not(None))
        gone = PERSONS.c.tenant == ledger.tenant, PERSONS.c.actor.not_in(remaining)
        connection.execute(delete(PERSONS).where(*gone))
        shorter = Head(head.tenant, first, str(last), head.sequence, head.hash)
        return ledger.extended(connection, shorter, [Event("audit.cut", details={"rows": count, "through": first - 1})])

    ledger.transact(work)
    return count


def restart(ledger: Ledger, details: Mapping[str, Any]) -> Head:
    """Delete all rows of a chain, and begin a new one after their numbers; return its head. `details`: the reason, the
    fault, and the file of the exported rows. Raises AuditError: the log cannot be written."""

    def work(connection: Connection, head: Head) -> Head:
        mine = ROWS.c.tenant == ledger.tenant
        newest = connection.execute(select(func.max(ROWS.c.sequence)).where(mine)).scalar_one()
        last = max(head.sequence, int(newest or 0))
        connection.execute(delete(ROWS).where(mine))
        begun = Head(ledger.tenant, last + 1, GENESIS, last, GENESIS)
        return ledger.extended(connection, begun, [Event("audit.restarted", details=details)])

    return ledger.transact(work, is_new=True)


_FACTS: Mapping[str, type[str] | type[int] | type[float]] = {
    "status": str, "model": str, "tokens_in": int, "tokens_out": int, "cost": float, "latency_ms": float,
    "generation": str,
}  # fmt: skip

_log = logging.getLogger(__name__)

Redact = Callable[[str], str]


class AuditError(RedactedError):
    """The audit log cannot be written or read; the message says why."""


class NoAuditLogError(AuditError):
    """There is no audit log."""


class Ledger:
    """The chain of one tenant, to be appended to. One thread uses it at a time."""

    def __init__(
        self, home: Path, url: str | None, tenant: str, settings: Audit, redact: Redact = lambda text: text
    ) -> None:
        """`url`: of the database, None is the SQLite file of the home; `redact` takes personal data out of a text."""
        self._home, self._url, self.tenant = home, url, tenant
        self.settings, self._redact = settings, redact
        self._engine: Engine | None = None
        self._opening = threading.Lock()
        self._anchor = AnchorFile(home, tenant)
        self._to_keep: tuple[Head, Head] | None = None  # the head before what is not anchored yet, and the newest

    def append(self, events: Sequence[Event], keeps_head: bool = True) -> Head:
        """Append events in their order, all or none; return the new head. `keeps_head`: in the home folder as well, at
        once; else when `keep_head` is called. Raises AuditError: the database is away, the secret cannot be used, or
        the head was altered."""
        head = self._committed(lambda connection, head: self.extended(connection, head, events))
        if keeps_head:
            self.keep_head()
        return head

    def transact(self, work: Callable[[Connection, Head], Head], is_new: bool = False) -> Head:
        """Return the head that some work makes of the one before, in a transaction of its own. `is_new`: the work
        begins another chain, without checking head and anchor of the one before. Raises AuditError: as `append`."""
        head = self._committed(work, is_new)
        self.keep_head()
        return head

    def _committed(self, work: Callable[[Connection, Head], Head], is_new: bool = False) -> Head:
        try:
            engine, signer = self._opened(), self._signer
            with engine.begin() as connection:
                before = self._locked_head(connection, None if is_new else signer)
                head = work(connection, before)
                stored = {**head.payload(), "signature": signer.of_head(head)}
                connection.execute(update(HEADS).where(HEADS.c.tenant == self.tenant).values(stored))
        except (SQLAlchemyError, OSError, TelemetryError, SecretError) as error:
            raise AuditError(f"the audit log cannot be written ({error_line(error)})") from error
        if is_new:
            self._anchor.remove()
        if head != before:
            self._to_keep = (self._to_keep[0] if self._to_keep and not is_new else before, head)
        return head

    def extended(self, connection: Connection, head: Head, events: Sequence[Event]) -> Head:
        """Return the head after events were appended to it, within a transaction of `transact`."""
        signer = self._signer
        known = self._persons.of(connection, {event.user for event in events})
        rows = []
        for event in events:
            row = signer.linked(self._row(event, known[event.user]), head)
            head = Head(head.tenant, head.first_sequence, head.first_previous, row["sequence"], row["hash"])
            rows.append(row)
        if rows:
            connection.execute(insert(ROWS), rows)
        return head

    def forget(self, user: str) -> int:
        """Unlink a user from all rows; return how many pseudonyms they had, 0 or 1. Raises AuditError: as `append`."""
        try:
            with self._opened().begin() as connection:
                return self._persons.forget(connection, user)
        except (SQLAlchemyError, OSError, TelemetryError, SecretError) as error:
            raise AuditError(f"the audit log cannot be written ({error_line(error)})") from error

    def close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    @cached_property
    def _signer(self) -> Signer:
        return Signer(self._home)

    @cached_property
    def _persons(self) -> Persons:
        return Persons(self._home, self.tenant, self.settings.user)

    def _opened(self) -> Engine:
        with self._opening:
            if self._engine is None:
                engine = open_audit_engine(self._url, Store(self._home).serving_db(), "append")
                create_tables(METADATA, engine)
                self._engine = engine
            return self._engine

    def _locked_head(self, connection: Connection, signer: Signer | None) -> Head:
        """Return the head, locked until the transaction ends; without a signer unverified. Raises AuditError: it was
        altered: a row after it would make it look right."""
        begun = Head(self.tenant)
        dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
        first = {**begun.payload(), "signature": self._signer.of_head(begun)}
        connection.execute(dialect.insert(HEADS).values(first).on_conflict_do_nothing())
        query = select(HEADS).where(HEADS.c.tenant == self.tenant).with_for_update()
        stored = connection.execute(query).mappings().one()
        head = head_of(dict(stored))
        if signer and not signer.holds(signer.of_head(head), stored["signature"]):
            raise AuditError(
                f"the head of the audit log of {self.tenant} was altered, or the secret is another one; "
                f"`citelock audit verify --tenant {self.tenant}` says more, `citelock audit restart` begins another"
            )
        return head

    def _row(self, event: Event, person: Person) -> dict[str, Any]:
        """Return the columns of an event, before it is linked."""
        at = event.at.astimezone(UTC).isoformat(timespec="microseconds")
        query = _writable(event.query) if event.query is not None else None
        sealed = None
        if query is not None and self.settings.store_queries:
            sealed = person.sealed(self._redact(query), beside(self.tenant, at))
        return {
            "at": at,
            "kind": event.kind,
            "actor": person.actor,
            "subject": _writable(event.subject) if event.subject is not None else None,
            "query_hash": None if query is None else person.query_hash(query),
            "query": sealed,
            "retrieved": None if event.retrieved is None else json.dumps(list(event.retrieved)),
            **{name: _number(event.facts.get(name), kind) for name, kind in _FACTS.items()},
            "details": json.dumps(dict(event.details), sort_keys=True) if event.details else None,
        }

    def keep_head(self) -> None:
        """Keep the newest head in the home folder; that it cannot be kept there is only logged."""
        if self._to_keep is None or self._engine is None:
            return
        (before, head), engine, self._to_keep = self._to_keep, self._engine, None

        def is_on_chain(anchor: Anchor) -> bool:
            if anchor.sequence in (before.sequence, head.sequence):
                return anchor.hash == (before.hash if anchor.sequence == before.sequence else head.hash)
            if anchor.sequence < head.first_sequence:
                return True
            query = select(ROWS.c.hash).where(ROWS.c.tenant == self.tenant, ROWS.c.sequence == anchor.sequence)
            with engine.connect() as connection:
                return connection.execute(query).scalar_one_or_none() == anchor.hash

        try:
            newest = Anchor(head.sequence, head.hash, before.sequence + 1)
            if not self._anchor.advance(newest, is_on_chain):
                _log.error("the audit log of %s does not continue what %s knows", self.tenant, self._anchor.path)
        except (SQLAlchemyError, OSError, StoreError, SecretError) as error:
            _log.error("the head of the audit log of %s is not kept: %s", self.tenant, error_line(error))


def beside(tenant: str, at: str) -> bytes:
    """Return the context that a sealed question is bound to."""
    return f"audit query\0{tenant}\0{at}".encode()


def _number(value: Any, kind: type[str] | type[int] | type[float]) -> str | int | float | None:
    """Return a value as the database gives it back: a hash covers 0.0 and 0 differently, and no database keeps NaN."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return _writable(str(value)) if kind is str else kind(value)


def _writable(text: str) -> str:
    """Return a text without characters that databases refuse: NUL and lone surrogates."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
