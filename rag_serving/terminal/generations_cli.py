"""`citelock generations`: list, show, rollback.

Belongs here: arguments and printing. Does not belong here: what the commands do (`generations`).
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rag_serving.config import load_config
from rag_serving.generations import list_generations, rollback, show_generation
from rag_serving.store import Store
from rag_serving.terminal.options import AsJson, ConfigPath, Tenant, chosen_tenant

app = typer.Typer(help="List, show and roll back published generations.", no_args_is_help=True)


@app.command("list")
def list_command(config: ConfigPath = None, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """List a tenant's generations, newest first; the published one is marked."""
    settings = load_config(config)
    name = chosen_tenant(settings, tenant)
    found = list_generations(Store(settings.home), name)
    if as_json:
        typer.echo(json.dumps([info.payload() for info in found]))
        return
    for info in found:
        mark = "*" if info.current else " "
        when = f"{info.created_at:%Y-%m-%d %H:%M:%S}" if info.created_at else "-"
        state = info.problem or ("published" if info.current else "published before" if info.published else "candidate")
        state += f", {info.gates}" if info.gates and not info.problem else ""
        typer.echo(
            f"{mark} {info.id}  {when:<19}  {info.chunks:>8} chunks  {info.pages:>6} pages  "
            f"{info.bytes / 1e6:>8.1f} MB  {state}"
        )


@app.command("show")
def show_command(
    generation: Annotated[str | None, typer.Argument(help="Generation id; default: the published one.")] = None,
    config: ConfigPath = None,
    tenant: Tenant = None,
) -> None:
    """Print a generation's manifest as JSON."""
    settings = load_config(config)
    manifest = show_generation(Store(settings.home), chosen_tenant(settings, tenant), generation)
    typer.echo(manifest.model_dump_json(indent=2))


@app.command("rollback")
def rollback_command(
    generation: Annotated[str | None, typer.Argument(help="Generation id; default: the one published before.")] = None,
    config: ConfigPath = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Publish an earlier generation again."""
    settings = load_config(config)
    name = chosen_tenant(settings, tenant)
    store = Store(settings.home)
    before = store.current(name)
    now = rollback(store, name, settings, generation)
    if as_json:
        typer.echo(json.dumps({"tenant": name, "previous": before, "current": now}))
    else:
        typer.echo(f"{name}: {now} is published, was {before}")
