"""A chain as a file of JSON lines, which proves itself: a header with the head, the rows, a signed digest.

Belongs here: writing and verifying such files. Does not belong here: following rows (`verification.Follower`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from citelock_governance.audit.chain import CONTENT, Head, Signer, head_of
from citelock_governance.audit.ledger import AuditError, beside
from citelock_governance.audit.persons import Persons
from citelock_governance.audit.tables import HEADS
from citelock_governance.audit.verification import ChainVerdict, Follower, Row, Verifier, pages
from rag_serving.artifacts.secret import FIELD, signature_fault, signature_of

VERSION = 1
_HEADER, _PROOF = "audit export header", "audit export"
_COLUMNS = frozenset((*CONTENT, "hash", "signature"))
_MAX_LINE = 4 << 20


def exported(verifier: Verifier, home: Path, tenant: str, is_opened: bool = False) -> Iterator[str]:
    """Yield the lines of an export. `is_opened`: rows include actor and query, if these are stored.

    Raises:
        AuditError: there is no log, or it cannot be read.
    """
    persons = Persons(home, tenant)
    with verifier.reading() as connection:
        stored = connection.execute(select(HEADS).where(HEADS.c.tenant == tenant)).mappings().first()
        if stored is None:
            raise AuditError(f"tenant {tenant!r} has no audit log")
        at = datetime.now(UTC).isoformat(timespec="seconds")
        header = {"audit_log": VERSION, "tenant": tenant, "exported_at": at, "head": head_of(dict(stored)).payload()}
        digest, count = hashlib.sha256(), 0
        line = _line({**header, FIELD: signature_of(header, home, _HEADER)})
        digest.update(line.encode())
        yield line
        for page in pages(connection, tenant):
            for row in page:
                told = {**row, "opened": _opened(connection, persons, tenant, row)} if is_opened else row
                line = _line(told)
                digest.update(line.encode())
                count += 1
                yield line
    proof = {"rows": count, "sha256": digest.hexdigest()}
    yield _line({**proof, FIELD: signature_of(proof, home, _PROOF)})


def verify_export(lines: Iterable[str], home: Path) -> ChainVerdict:
    """Return the verdict on the rows of an export, by the file alone.

    Raises:
        AuditError: it is no export of this installation.
    """
    digest, following = hashlib.sha256(), iter(lines)
    first = next(following, "")
    header = _parsed(first)
    if "audit_log" not in header or signature_fault(header, home, _HEADER):
        raise AuditError("the file is no export of an audit log of this installation, or its first line was altered")
    head = _head(header)
    digest.update(first.encode())
    follower = Follower(Signer(home), head)
    for line in following:
        content = _parsed(line)
        if "sha256" in content:
            fault = follower.fault_at_end() or _proof_fault(content, home, digest.hexdigest(), follower.rows)
            if fault is None and next(following, None) is not None:
                fault = "something stands after the last line"
            return ChainVerdict(head.tenant, follower.rows, head, fault)
        if not content.keys() >= _COLUMNS:
            return ChainVerdict(head.tenant, follower.rows, head, f"line {follower.rows + 2} is no row")
        digest.update(line.encode())
        if fault := follower.fault([content]):
            return ChainVerdict(head.tenant, follower.rows, head, fault)
    return ChainVerdict(head.tenant, follower.rows, head, "the end of the file is missing")


def _proof_fault(proof: Mapping[str, Any], home: Path, digest: str, rows: int) -> str | None:
    if signature_fault(proof, home, _PROOF):
        return "the last line was altered"
    return None if (proof.get("sha256"), proof.get("rows")) == (digest, rows) else "the last line is of another file"


def _opened(connection: Connection, persons: Persons, tenant: str, row: Row) -> dict[str, Any] | None:
    """Return actor and query; None if they were forgotten."""
    known = persons.known(connection, row["actor"])
    if known is None:
        return None
    person, user = known
    query = person.opened(row["query"], beside(tenant, row["at"])) if row["query"] else None
    return {"user": user, "query": query}


def _head(header: Mapping[str, Any]) -> Head:
    try:
        return head_of(header["head"])
    except (KeyError, TypeError, ValueError):
        raise AuditError("the first line of the file does not say where the log begins and ends") from None


def _parsed(line: str) -> Mapping[str, Any]:
    if len(line) > _MAX_LINE:
        raise AuditError("the file is no export of an audit log: a line is too long")
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, Mapping) else {}


def _line(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False) + "\n"
