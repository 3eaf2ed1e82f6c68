"""Appending to the chain of one tenant, beside other processes.

One transaction at a time extends a chain: it locks the row of the head from its first statement on (Postgres), or the
database's write lock (SQLite). All rows of a batch are committed at once.
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from citelock_governance.audit.chain import GENESIS, Anchor, AnchorFile, Head, Signer, head_of
from citelock_governance.audit.persons import Person, Persons
from citelock_governance.audit.tables import HEADS, PERSONS, ROWS, open_audit_engine, prepare
from rag_serving.artifacts.secret import SecretError
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.sections import Audit
from rag_serving.escaping.redaction import RedactedError
from rag_serving.hooks import Event
from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import error_line


def cut_old(ledger: Ledger, keep_days: int, now: datetime | None = None) -> int:
    """Delete the rows from before the last `keep_days`, and persons in none of the others; return how many rows there
    were.

    The signed head then has the first row and its predecessor's hash, and a row of the chain itself records the cut.

    Raises:
        AuditError: the log cannot be written.
    """
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
    """Delete all rows of a chain, and begin a new one after their numbers; return its head.

    `details`: the reason, the fault, and the file of the exported rows.

    Raises:
        AuditError: the log cannot be written.
    """

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
        once; else when `keep_head` is called.

        Raises:
            AuditError: the database is away, the secret cannot be used, or the head was altered.
        """
        head = self._committed(lambda connection, head: self.extended(connection, head, events))
        if keeps_head:
            self.keep_head()
        return head

    def transact(self, work: Callable[[Connection, Head], Head], is_new: bool = False) -> Head:
        """Return the head that some work makes of the one before, in a transaction of its own.

        `is_new`: the work begins another chain, without checking head and anchor of the one before.

        Raises:
            AuditError: as `append`.
        """
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
        """Unlink a user from all rows; return how many pseudonyms they had, 0 or 1.

        Raises:
            AuditError: as `append`.
        """
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
                prepare(engine)
                self._engine = engine
            return self._engine

    def _locked_head(self, connection: Connection, signer: Signer | None) -> Head:
        """Return the head, locked until the transaction ends; without a signer unverified.

        Raises:
            AuditError: it was altered: a row after it would make it look right.
        """
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
