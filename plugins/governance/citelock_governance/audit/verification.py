"""The integrity of a chain: the first fault, in one line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, inspect, select
from sqlalchemy.exc import SQLAlchemyError

from citelock_governance.audit.chain import Anchor, AnchorFile, Head, Signer, head_of, row_hash
from citelock_governance.audit.ledger import HEADS, ROWS, AuditError, NoAuditLogError, open_audit_engine
from rag_serving.artifacts.secret import SecretError
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import error_line

PAGE = 2_000
"""Rows that are in memory at once."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ChainVerdict:
    """The result of verifying one chain."""

    tenant: str
    rows: int  # that were followed, up to the fault if there is one
    head: Head | None
    fault: str | None = None  # the first one; None: the chain is intact
    anchored: int | None = None  # the newest row recorded in the home folder; None: there is none

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        head = self.head.payload() if self.head else None
        return {"tenant": self.tenant, "rows": self.rows, "fault": self.fault, "anchored": self.anchored, "head": head}


class Follower:
    """Follows the rows of one chain, and remembers the hashes that are to be compared."""

    def __init__(self, signer: Signer, head: Head, marked: Iterable[Anchor] = ()) -> None:
        """`marked`: rows that are known from elsewhere."""
        self._signer, self._head = signer, head
        self._marked = {anchor.sequence: anchor.hash for anchor in marked}
        self.sequence, self.hash, self.rows = head.first_sequence - 1, head.first_previous, 0

    def fault(self, rows: Iterable[Row]) -> str | None:
        """Return the first fault of rows in the order of their numbers; None if there is none yet."""
        for row in rows:
            if fault := self._fault_of(row):
                return f"row {row['sequence']}: {fault}"
            self.sequence, self.hash = row["sequence"], row["hash"]
            self.rows += 1
        return None

    def fault_at_end(self) -> str | None:
        """Return how the last row differs from the head, or None."""
        head = self._head
        if self.sequence < head.sequence:
            return f"row {self.sequence + 1}: it is missing, as are all after it up to {head.sequence}"
        if (self.sequence, self.hash) != (head.sequence, head.hash):
            return f"the head names row {head.sequence}, the last row is {self.sequence}"
        if ahead := [sequence for sequence in self._marked if sequence > head.sequence]:
            return (
                f"row {head.sequence + 1}: it is missing; row {max(ahead)} is known to have been there: the end was "
                "cut off, or the rows were replaced by an older state"
            )
        return None

    def _fault_of(self, row: Row) -> str | None:
        expected = self.sequence + 1
        if row["tenant"] != self._head.tenant:
            return f"it is of tenant {row['tenant']!r}"
        if row["sequence"] != expected:
            missing = row["sequence"] > expected
            return f"row {expected} is missing before it" if missing else "it stands before the beginning of the log"
        if row_hash(row) != row["hash"]:
            return "it was altered: its columns do not give its hash"
        if not self._signer.holds(self._signer.of_row(row["hash"]), row["signature"]):
            return "its signature does not hold: it was not written here, or the secret is another one"
        if row["previous"] != self.hash:
            return "it does not follow the row before it"
        if row["sequence"] > self._head.sequence:
            return f"it stands after the head, row {self._head.sequence}"
        if self._marked.get(row["sequence"], row["hash"]) != row["hash"]:
            return "it is not the one that was there before: rows were replaced by an older state"
        return None


class Verifier:
    """Verifies the chains of one installation."""

    def __init__(self, home: Path, url: str | None) -> None:
        self._home, self._url = home, url

    def tenants(self) -> list[str]:
        """Return the tenants that have a log, or should have one, in alphabetical order. Raises AuditError: the
        database cannot be read."""
        with self.reading() as connection:
            names = {*connection.execute(select(HEADS.c.tenant)).scalars()}
            names |= {*connection.execute(select(ROWS.c.tenant).distinct()).scalars()}
        kept = {path.stem for path in (self._home / "audit").glob("*.json")}
        return sorted(names | kept)

    def verify(self, tenant: str, marked: Sequence[Anchor] = ()) -> ChainVerdict:
        """Return the verdict on the chain of a tenant. `marked`: rows known from checkpoints. Raises AuditError: the
        database cannot be read, or the secret cannot be used."""
        try:
            signer, anchor = Signer(self._home), AnchorFile(self._home, tenant).read()
        except StoreError as error:
            return ChainVerdict(tenant, 0, None, f"the head that is kept in the home folder: {error}")
        except SecretError as error:
            raise AuditError(str(error)) from error
        known = [*marked, *([anchor] if anchor else [])]
        with self.reading() as connection:
            verdict = self._verified(connection, signer, tenant, known)
        return ChainVerdict(tenant, verdict.rows, verdict.head, verdict.fault, anchor.sequence if anchor else None)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection within a transaction that sees one state of the log, and changes nothing. Raises
        AuditError: the database cannot be read, or has no log."""
        serving_db = Store(self._home).serving_db()
        if self._url is None and not serving_db.is_file():
            raise NoAuditLogError(f"there is no audit log: {serving_db} does not exist; set audit.mode to keep one")
        try:
            with ExitStack() as stack:
                engine = open_audit_engine(self._url, serving_db, "read")
                stack.callback(engine.dispose)
                if not inspect(engine).has_table(ROWS.name):
                    raise NoAuditLogError("the database has no audit log; set audit.mode to keep one")
                yield stack.enter_context(engine.connect())
        except (SQLAlchemyError, TelemetryError) as error:
            raise AuditError(f"the audit log cannot be read ({error_line(error)})") from error

    def _verified(self, connection: Connection, signer: Signer, tenant: str, known: Sequence[Anchor]) -> ChainVerdict:
        stored = connection.execute(select(HEADS).where(HEADS.c.tenant == tenant)).mappings().first()
        if stored is None:
            return ChainVerdict(tenant, 0, None, "it has no head: the log was deleted" if known else "it has no log")
        head = head_of(dict(stored))
        if not signer.holds(signer.of_head(head), stored["signature"]):
            return ChainVerdict(tenant, 0, head, "the head was altered, or the secret is another one")
        follower = Follower(signer, head, known)
        for page in pages(connection, tenant):
            if fault := follower.fault(page):
                return ChainVerdict(tenant, follower.rows, head, fault)
        return ChainVerdict(tenant, follower.rows, head, follower.fault_at_end())


def events_lost(connection: Connection, since: datetime) -> tuple[int, int]:
    """Return how many rows the log has of all tenants, and how many events were lost since a moment, as it says."""
    rows = int(connection.execute(select(func.count()).select_from(ROWS)).scalar_one())
    query = select(ROWS.c.details).where(ROWS.c.kind == "audit.lost", ROWS.c.at >= since.isoformat())
    return rows, sum(int(json.loads(details)["events"]) for details in connection.execute(query).scalars())


def pages(connection: Connection, tenant: str, after: int | None = None, size: int = PAGE) -> Iterator[list[Row]]:
    """Yield the rows of a tenant in the order of their numbers, so many at once. `after`: only those of higher ones."""
    while True:
        query = select(ROWS).where(ROWS.c.tenant == tenant)
        if after is not None:
            query = query.where(ROWS.c.sequence > after)
        rows: list[Row] = [
            dict(row) for row in connection.execute(query.order_by(ROWS.c.sequence).limit(size)).mappings()
        ]
        if rows:
            yield rows
            after = int(rows[-1]["sequence"])
        if len(rows) < size:
            return
