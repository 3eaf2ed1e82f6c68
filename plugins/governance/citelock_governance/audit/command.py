"""`citelock audit`, and what `citelock doctor` finds of the audit log: arguments and printing.

Belongs here: the commands, the check. Does not belong here: following a chain (`verification`), exports (`export`), a
new chain (`retention`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_serving.cli.group import FAILED
from rag_serving.cli.options import AsJson, ConfigPath, Tenant, chosen_tenant
from rag_serving.cli.printing import Finding
from rag_serving.config.loading import load_config
from rag_serving.escaping.targets import for_json, for_terminal_line
from rag_serving.privacy import complain

if TYPE_CHECKING:
    from citelock_governance.audit.verification import ChainVerdict, Verifier
    from rag_serving.config.loading import Config

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
    from citelock_governance.audit.checkpoints import read_checkpoints
    from citelock_governance.audit.export import verify_export

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
    from citelock_governance.audit.export import exported

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
    from citelock_governance.audit.checkpoints import make_checkpoint

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
    from hashlib import sha256

    from citelock_governance.audit.export import exported
    from citelock_governance.audit.ledger import Ledger
    from citelock_governance.audit.retention import restart

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
        "sha256": sha256(file.read_bytes()).hexdigest(),
    }
    with closing(Ledger(settings.home, settings.telemetry.url, name, settings.audit, redact)) as ledger:
        head = restart(ledger, details)
    typer.echo(for_terminal_line(f"{name}: a new chain begins with row {head.sequence}; the old one is in {file}"))


def _verifier(settings: Config) -> Verifier:
    from citelock_governance.audit.verification import Verifier

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
    yield _finding(config)


def _finding(config: Config) -> Finding:
    if config.audit.mode == "off":
        return Finding("audit", "ok", "no audit log is kept: audit.mode is off")
    from citelock_governance.audit.ledger import AuditError, NoAuditLogError
    from citelock_governance.audit.verification import Verifier, events_lost

    since = datetime.now(UTC) - timedelta(days=LOST_DAYS)
    try:
        with Verifier(config.home, config.telemetry.url).reading() as connection:
            rows, lost = events_lost(connection, since)
    except NoAuditLogError:
        return Finding("audit", "ok", f"{config.audit.mode}: the log is made by the first event")
    except AuditError as error:
        until = "nothing is answered" if config.audit.mode == "required" else "events wait in memory, and may be lost"
        return Finding("audit", "fail", str(error), f"start the database or mend telemetry.url; until then {until}")
    detail = f"{config.audit.mode}: {rows:,} rows, {lost:,} events lost in {LOST_DAYS} days"
    mend = "see the server's log for the reason; audit.mode: required refuses instead"
    return Finding("audit", "warn" if lost else "ok", detail, mend if lost else "")
