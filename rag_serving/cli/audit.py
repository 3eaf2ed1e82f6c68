"""`citelock audit`: arguments and printing.

Belongs here: the commands. Does not belong here: following a chain (`audit.verification`).
"""

from __future__ import annotations

import typer

from rag_serving.cli.group import FAILED
from rag_serving.cli.options import AsJson, ConfigPath, Tenant, chosen_tenant
from rag_serving.config.loading import load_config
from rag_serving.config.logging import complain
from rag_serving.escaping.targets import for_json, for_terminal_line

app = typer.Typer(help="Verify the audit log.", no_args_is_help=True)


@app.command("verify")
def verify_command(config: ConfigPath = None, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Follow the chain of each tenant's rows, and say the first thing that is wrong.

    \b
    citelock audit verify
    citelock audit verify --tenant acme --json | jq .fault

    Exit code 1 where a row was deleted, inserted, moved or altered, or where rows were replaced by an older state that
    the home folder knows better. Nothing is changed.
    """
    from rag_serving.audit.verification import Verifier

    settings = load_config(config)
    verifier = Verifier(settings.home, settings.telemetry.url)
    tenants = [chosen_tenant(settings, tenant)] if tenant else verifier.tenants()
    verdicts = [verifier.verify(name) for name in tenants]
    if as_json:
        typer.echo(for_json([verdict.payload() for verdict in verdicts]))
    for verdict in verdicts:
        if verdict.fault:
            complain(f"{verdict.tenant}: {verdict.fault} ({verdict.rows} rows before it hold)")
        elif not as_json:
            typer.echo(for_terminal_line(f"{verdict.tenant}: {verdict.rows} rows hold"))
    if any(verdict.fault for verdict in verdicts):
        raise typer.Exit(FAILED)
