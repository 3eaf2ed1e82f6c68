"""Rows that are too old, and chains that begin again.

Belongs here: cutting the beginning off a chain so that the rest still verifies; a new chain in place of a damaged one.
Does not belong here: appending (`ledger`), which rows are exported before (`export`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, select

from citelock_governance.audit.chain import GENESIS, Head
from citelock_governance.audit.ledger import Ledger
from citelock_governance.audit.tables import PERSONS, ROWS
from rag_serving.hooks import Event


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
