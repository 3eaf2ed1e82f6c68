"""`citelock home`: list, sweep.

Belongs here: arguments and printing. Does not belong here: what the store has (`object_home.sweeping`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from rag_serving.artifacts.store import StoreError
from rag_serving.cli.group import FAILED
from rag_serving.cli.options import AsJson, ConfigPath
from rag_serving.config.loading import ConfigError, load_config
from rag_serving.config.logging import complain
from rag_serving.escaping.targets import for_terminal_line

if TYPE_CHECKING:
    from rag_serving.config.loading import Config
    from rag_serving.object_home.shared_home import SharedHome
    from rag_serving.object_home.sweeping import Listed

app = typer.Typer(help="Look at a home in an object store, and delete what nothing needs.", no_args_is_help=True)


@app.command("list")
def list_folders(config: ConfigPath = None, as_json: AsJson = False) -> None:
    """List the folders that machines share: state, who writes, objects, and those of older states.

    \b
    citelock home list
    citelock home list --json | jq 'map(.old_bytes) | add'
    """
    settings = load_config(config)
    home = _shared(settings)
    told = []
    for name in _names(settings):
        seen, found = home.heads.read(name), home.listed(name)
        number, writer = (seen.head.number, seen.head.holder.rpartition(":")[0]) if seen else (0, "")
        told.append({"folder": name, "number": number, "writer": writer, **_sizes(found)})
        if not as_json:
            writes = f", {for_terminal_line(writer)} writes" if writer else ""
            typer.echo(
                f"{name}  state {number}, {found.objects} objects of {_mega(found.size)}, "
                f"{len(found.old)} of {_mega(found.old_size)} from older states{writes}"
            )
    if as_json:
        typer.echo(json.dumps(told, indent=1))


@app.command("sweep")
def sweep_folders(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Delete nothing; say what would be.")] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Delete the objects that nothing in force needs: those of older states, and of builds that were killed.

    \b
    citelock home sweep --dry-run

    Builds do it by themselves, each `object_store.sweep_after` times. A folder that another machine writes is left
    out. Servers that fetch an older state at this moment go on with what they have, and fetch the newest.
    """
    settings = load_config(config)
    home, told, failed = _shared(settings), [], False
    for name in _names(settings):
        try:
            found = home.listed(name) if dry_run or not home.heads.read(name) else home.sweep(name)
        except StoreError as error:
            complain(str(error))
            failed = True
            continue
        told.append({"folder": name, "deleted": not dry_run, **_sizes(found)})
        if not as_json:
            said = "would be deleted" if dry_run else "deleted"
            typer.echo(f"{name}  {len(found.old)} objects of older states, {_mega(found.old_size)}, {said}")
    if as_json:
        typer.echo(json.dumps(told, indent=1))
    if failed:
        raise typer.Exit(FAILED)


def _shared(config: Config) -> SharedHome:
    """Return the home in an object store.

    Raises:
        ConfigError: it is a folder of this machine.
        ObjectHomeError: it cannot be used.
    """
    from rag_serving.object_home.shared_home import shared_home

    home = shared_home(config)
    if home is None:
        raise ConfigError(f"home is a folder of this machine ({config.home}); `home: s3://BUCKET/PREFIX` shares it")
    return home


def _names(config: Config) -> list[str]:
    return [
        *(f"sources/{key}" for key in sorted(config.sources)),
        *(f"tenants/{key}" for key in sorted(config.tenants)),
    ]


def _sizes(found: Listed) -> dict[str, int]:
    return {"objects": found.objects, "bytes": found.size, "old_objects": len(found.old), "old_bytes": found.old_size}


def _mega(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
