"""`citelock index`: migrate and status of the database of published generations.

Belongs here: arguments and printing. Does not belong here: the schema (`indexes.postgres.migrations.upgrade`), what is
published (`indexes.postgres.publisher`, `indexes.qdrant.pointer`).
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import typer

from rag_serving.cli.group import FAILED, UsageError
from rag_serving.cli.options import AsJson, ConfigPath, Tenant, chosen_tenant
from rag_serving.config.loading import Config, load_config
from rag_serving.config.logging import complain
from rag_serving.escaping.targets import for_terminal_line

app = typer.Typer(help="Prepare or look at the database of published generations.", no_args_is_help=True)


@app.command("migrate")
def migrate_command(config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Bring the database of `index.owner_url` to this program's schema.

    \b
    CITELOCK_INDEX__OWNER_URL=postgresql://postgres@db/citelock citelock index migrate

    Makes the roles citelock_app (reads, `index.url`) and citelock_writer (publishes, `index.writer_url`), to which the
    database's administrator gives passwords; installs the key by which the database knows whose claims to believe. May
    be run again at any time: all of it is done, or nothing.
    """
    from rag_serving.indexes.postgres.migrations.upgrade import migrate

    settings = _of_postgres(config)
    done = migrate(settings)
    if as_json:
        typer.echo(json.dumps({"before": done.before, "after": done.after, "roles_made": list(done.roles_made)}))
        return
    state = "is up to date" if done.before == done.after else f"was {done.before or 'empty'}"
    typer.echo(f"schema {done.after} ({state})")
    for role in done.roles_made:
        typer.echo(f"made role {role}")
    if not done.finds_words_by_index:
        typer.echo("search_chunks_hybrid looks for words row by row: only a superuser can let an index do it")


@app.command("status")
def status_command(config: ConfigPath = None, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """List what the database has of a tenant, and what is not as it should be (exit code 1)."""
    settings = load_config(config)
    if settings.index.kind == "disk":
        raise UsageError("index.kind is disk; `citelock generations list` is of folders")
    name = chosen_tenant(settings, tenant)
    from rag_serving.indexes.remote.opening import open_store

    with closing(open_store(settings)) as store:
        faults = store.faults(name)
        rows = _generations(settings, name) if not faults or settings.index.kind == "postgres" else None
        current = None if faults else store.current(name)
    if as_json:
        typer.echo(json.dumps({"tenant": name, "current": current, "generations": rows, "faults": list(faults)}))
    else:
        _print(name, current, rows)
    for fault in faults:
        complain(f"{name}: {fault}")
    if faults:
        raise typer.Exit(FAILED)


def _of_postgres(path: Any) -> Config:
    settings = load_config(path)
    if settings.index.kind != "postgres":
        raise UsageError(f"index.kind is {settings.index.kind}; `citelock index` is of postgres (CITELOCK_INDEX__KIND)")
    return settings


def _generations(settings: Config, tenant: str) -> list[dict[str, Any]] | None:
    """Return what the database has of a tenant, newest publication first; None where this machine cannot ask for it."""
    if settings.index.kind == "qdrant":
        return _in_qdrant(settings, tenant)
    from rag_serving.indexes.postgres.publisher import Publisher

    if not settings.index.writer_url:
        return None
    return [
        {
            "id": info.id,
            "chunks": info.chunks,
            "created_at": info.created_at.isoformat(),
            "published_at": info.published_at.isoformat(),
            "current": info.current,
        }
        for info in Publisher(settings, tenant).listed()
    ]


def _in_qdrant(settings: Config, tenant: str) -> list[dict[str, Any]]:
    from rag_serving.indexes.qdrant.pointer import Pointer

    with closing(Pointer(settings, tenant, "api_key_env")) as pointer:
        current = pointer.current()
        return [
            {
                "id": each.id,
                "chunks": each.chunks,
                "created_at": each.created_at.isoformat(),
                "published_at": (each.published_at or each.created_at).isoformat(),
                "current": each.id == current,
            }
            for each in pointer.listed()
        ]


def _print(tenant: str, current: str | None, rows: list[dict[str, Any]] | None) -> None:
    if rows is None:
        typer.echo(f"{tenant}: {current or 'nothing'} is published (index.writer_url lists all)")
        return
    for row in rows:
        mark = "*" if row["current"] else " "
        line = f"{mark} {row['id']}  {row['published_at'][:19]}  {row['chunks']:>8} chunks"
        typer.echo(for_terminal_line(line))
