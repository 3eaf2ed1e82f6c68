"""Heads of chains to be kept elsewhere: on another machine, in a mailbox, on paper.

Belongs here: making and reading them. Does not belong here: comparing rows with them (`verification`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select

from citelock_governance.audit.anchor import Anchor
from citelock_governance.audit.chain import Signer, head_of
from citelock_governance.audit.ledger import AuditError
from citelock_governance.audit.tables import HEADS
from citelock_governance.audit.verification import Verifier
from rag_serving.artifacts.secret import FIELD, signature_fault, signature_of

PURPOSE = "audit checkpoint"


def make_checkpoint(verifier: Verifier, home: Path, tenant: str) -> dict[str, Any]:
    """Return a signed record of the newest row of a chain.

    Raises:
        AuditError: there is no log, it cannot be read, or its head was altered.
    """
    with verifier.reading() as connection:
        stored = connection.execute(select(HEADS).where(HEADS.c.tenant == tenant)).mappings().first()
    if stored is None:
        raise AuditError(f"tenant {tenant!r} has no audit log")
    head, signer = head_of(dict(stored)), Signer(home)
    if not signer.holds(signer.of_head(head), stored["signature"]):
        raise AuditError(f"the head of the audit log of {tenant} was altered; `citelock audit verify` says more")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    content = {"tenant": tenant, "sequence": head.sequence, "hash": head.hash, "at": at}
    return {**content, FIELD: signature_of(content, home, PURPOSE)}


def read_checkpoints(path: Path, home: Path) -> dict[str, list[Anchor]]:
    """Return the rows that a file of checkpoints names, one in a line, by tenant.

    Raises:
        AuditError: the file cannot be read, or a checkpoint was not made here.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{path} cannot be read ({error})") from None
    marked: dict[str, list[Anchor]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        content = _read(line)
        if content is None or signature_fault(content, home, PURPOSE):
            raise AuditError(f"{path}, line {number} is no checkpoint of this installation, or was altered")
        marked.setdefault(str(content["tenant"]), []).append(Anchor(int(content["sequence"]), str(content["hash"])))
    return marked


def _read(line: str) -> Mapping[str, Any] | None:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, Mapping) else None
