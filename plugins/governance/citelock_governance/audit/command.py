"""`citelock audit`, and what `citelock doctor` finds of the audit log: arguments and printing."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from sqlalchemy import Connection, select

from citelock_governance.audit.chain import CONTENT, Anchor, Head, Signer, head_of
from citelock_governance.audit.ledger import HEADS, AuditError, Ledger, NoAuditLogError, Persons, beside, restart
from citelock_governance.audit.verification import ChainVerdict, Follower, Row, Verifier, events_lost, pages
from rag_serving.artifacts.secret import FIELD, signature_fault, signature_of
from rag_serving.cli.group import FAILED
from rag_serving.cli.options import AsJson, ConfigPath, Tenant, chosen_tenant
from rag_serving.cli.printing import Finding
from rag_serving.config.loading import Config, load_config
from rag_serving.escaping.targets import for_json, for_terminal_line
from rag_serving.privacy import complain

PURPOSE = "audit checkpoint"


def make_checkpoint(verifier: Verifier, home: Path, tenant: str) -> dict[str, Any]:
    """Return a signed record of the newest row of a chain. Raises AuditError: there is no log, it cannot be read, or
    its head was altered."""
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
    """Return the rows that a file of checkpoints names, one in a line, by tenant. Raises AuditError: the file cannot be
    read, or a checkpoint was not made here."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{path} cannot be read ({error})") from None
    marked: dict[str, list[Anchor]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        content = _parsed(line)
        if signature_fault(content, home, PURPOSE):
            raise AuditError(f"{path}, line {number} is no checkpoint of this installation, or was altered")
        marked.setdefault(str(content["tenant"]), []).append(Anchor(int(content["sequence"]), str(content["hash"])))
    return marked


VERSION = 1
_HEADER, _PROOF = "audit export header", "audit export"
_COLUMNS = frozenset((*CONTENT, "hash", "signature"))
_MAX_LINE = 4 << 20


def exported(verifier: Verifier, home: Path, tenant: str, is_opened: bool = False) -> Iterator[str]:
    """Yield the lines of an export. `is_opened`: rows include actor and query, if these are stored. Raises AuditError:
    there is no log, or it cannot be read."""
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
    """Return the verdict on the rows of an export, by the file alone. Raises AuditError: it is no export of this
    installation."""
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


LOST_DAYS = 7

app = typer.Typer(help="Verify, export or anchor the audit log.", no_args_is_help=True)


@app.command("verify")
def verify_command(
    config: ConfigPath = None,
    tenant: Tenant = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="Verify this export instead of the database; '-' reads it.")
    ] = None,
    checkpoints: Annotated[
        Path | None, typer.Option("--checkpoints", help="Compare with the checkpoints in this file, one in a line.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Follow the chain of each tenant's rows, and say the first thing that is wrong.

    \b
    citelock audit verify
    citelock audit verify --tenant acme --json | jq '.[].fault'
    citelock audit verify --checkpoints /mnt/vault/checkpoints.jsonl

    Exit code 1 if a row was deleted, inserted, moved or altered, or where rows were replaced by an older state than
    the home folder or a checkpoint knows. Nothing is changed.
    """
    settings = load_config(config)
    verifier = _verifier(settings)
    if file is not None:
        verdicts = [verify_export(_lines(file), settings.home)]
    else:
        marked = read_checkpoints(checkpoints, settings.home) if checkpoints else {}
        tenants = [chosen_tenant(settings, tenant)] if tenant else sorted({*verifier.tenants(), *marked})
        verdicts = [verifier.verify(name, marked.get(name, ())) for name in tenants]
    if as_json:
        typer.echo(for_json([verdict.payload() for verdict in verdicts]))
    else:
        _tell(verdicts)
    if any(verdict.fault for verdict in verdicts):
        raise typer.Exit(FAILED)


@app.command("export")
def export_command(
    config: ConfigPath = None,
    tenant: Tenant = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; default: print it.")] = None,
    is_opened: Annotated[
        bool, typer.Option("--open", help="Also say who acted and what was asked, where that is kept.")
    ] = False,
) -> None:
    """Write a tenant's audit log as JSON lines that prove themselves.

    \b
    citelock audit export --output audit.jsonl
    citelock audit verify --file audit.jsonl
    """
    settings = load_config(config)
    lines = exported(_verifier(settings), settings.home, chosen_tenant(settings, tenant), is_opened)
    if output is None:
        for line in lines:
            sys.stdout.write(line)
    else:
        _write(output, lines)


@app.command("checkpoint")
def checkpoint_command(config: ConfigPath = None, tenant: Tenant = None) -> None:
    """Print a signed record of the newest row, to be kept where nobody of this machine can change it.

    \b
    citelock audit checkpoint >> /mnt/vault/checkpoints.jsonl
    """
    settings = load_config(config)
    name = chosen_tenant(settings, tenant)
    typer.echo(for_json(make_checkpoint(_verifier(settings), settings.home, name)))


@app.command("restart")
def restart_command(
    reason: Annotated[str, typer.Option("--reason", help="Why; written into the new log.")],
    config: ConfigPath = None,
    tenant: Tenant = None,
) -> None:
    """Begin a new chain in place of a damaged one; what is there is exported into the home folder before.

    \b
    citelock audit restart --reason "the database was set back on 3 May, see ticket 4711"
    """
    settings = load_config(config)
    name, verifier = chosen_tenant(settings, tenant), _verifier(settings)
    fault = verifier.verify(name).fault
    file = settings.home / "audit" / f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%S}.jsonl"
    _write(file, exported(verifier, settings.home, name))
    redact = settings.privacy.redactor().redacted
    details = {
        "reason": redact(reason),
        "fault": fault,
        "file": file.name,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
    }
    with closing(Ledger(settings.home, settings.telemetry.url, name, settings.audit, redact)) as ledger:
        head = restart(ledger, details)
    typer.echo(for_terminal_line(f"{name}: a new chain begins with row {head.sequence}; the old one is in {file}"))


def _verifier(settings: Config) -> Verifier:
    return Verifier(settings.home, settings.telemetry.url)


def _tell(verdicts: Iterable[ChainVerdict]) -> None:
    for verdict in verdicts:
        if verdict.fault:
            complain(f"{verdict.tenant}: {verdict.fault} ({verdict.rows} rows before it hold)")
        else:
            last = verdict.head.sequence if verdict.head else 0
            typer.echo(for_terminal_line(f"{verdict.tenant}: {verdict.rows} rows up to {last} hold"))


def _lines(file: Path) -> Iterator[str]:
    if str(file) == "-":
        yield from sys.stdin
        return
    with file.open(encoding="utf-8", newline="\n") as lines:
        yield from lines


def _write(file: Path, lines: Iterable[str]) -> None:
    """Write lines into a file that its owner alone may read."""
    from rag_serving.artifacts.store import make_private

    make_private(file)
    with file.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(lines)


def examine(config: Config) -> Iterator[Finding]:
    """Yield the findings of `citelock doctor` on the audit log; nothing is made or changed."""
    if config.audit.mode == "off":
        yield Finding("audit", "ok", "no audit log is kept: audit.mode is off")
        return
    since = datetime.now(UTC) - timedelta(days=LOST_DAYS)
    try:
        with Verifier(config.home, config.telemetry.url).reading() as connection:
            rows, lost = events_lost(connection, since)
    except NoAuditLogError:
        yield Finding("audit", "ok", f"{config.audit.mode}: the log is made by the first event")
        return
    except AuditError as error:
        until = "nothing is answered" if config.audit.mode == "required" else "events wait in memory, and may be lost"
        yield Finding("audit", "fail", str(error), f"start the database or mend telemetry.url; until then {until}")
        return
    detail = f"{config.audit.mode}: {rows:,} rows, {lost:,} events lost in {LOST_DAYS} days"
    mend = "see the server's log for the reason; audit.mode: required refuses instead"
    yield Finding("audit", "warn" if lost else "ok", detail, mend if lost else "")
