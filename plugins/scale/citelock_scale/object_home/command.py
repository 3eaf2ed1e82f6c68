"""`citelock home`: list, sweep, repair."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from citelock_scale.object_home.home import ObjectHome, object_home
from citelock_scale.object_home.writing import Listed, Repaired
from rag_serving.artifacts.store import StoreError
from rag_serving.cli.group import FAILED
from rag_serving.cli.options import AsJson, ConfigPath
from rag_serving.config.loading import Config, ConfigError, load_config
from rag_serving.escaping.targets import for_terminal_line
from rag_serving.privacy import complain

app = typer.Typer(
    help="Look at a home in an object store, delete what nothing needs, put back what was lost.", no_args_is_help=True
)


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
        is_erased = bool(seen and seen.head.erased)
        told.append({"folder": name, "number": number, "erased": is_erased, "writer": writer, **_sizes(found)})
        if not as_json:
            writes = ", erased" if is_erased else ""
            writes += f", {for_terminal_line(writer)} writes" if writer else ""
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

    Builds do it by themselves, each 20 times. A folder that another machine writes is left
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


@app.command("repair")
def repair_folders(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what is lost.")] = False,
    without_lost: Annotated[
        bool,
        typer.Option(
            "--without-lost", help="Put folders in force without files that are lost and not on this machine."
        ),
    ] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Compare all objects with their digests, and send again what is lost or altered and this machine has.

    \b
    citelock home repair --dry-run

    Run it on the machine that builds, and where files are still lost on others. It reads all that is in force. A head
    that is missing, or older than this machine saw, is put back, too. Exit code 1: files of a folder stay lost. After
    `--without-lost`, `citelock build` makes them again.
    """
    settings = load_config(config)
    home, told, failed = _shared(settings), [], False
    for name in _names(settings):
        try:
            found = home.repair(name, dry_run, without_lost)
        except StoreError as error:
            complain(str(error))
            failed = True
            continue
        failed = failed or (bool(found.lost) and not (without_lost and not dry_run))
        told.append({"folder": name, "repaired": not dry_run, **found._asdict()})
        if not as_json:
            _print_repaired(name, found, dry_run, without_lost)
    if as_json:
        typer.echo(json.dumps(told, indent=1))
    if failed:
        raise typer.Exit(FAILED)


def _print_repaired(name: str, found: Repaired, dry_run: bool, without_lost: bool) -> None:
    if not (found.parts or found.healed or found.lost):
        typer.echo(f"{name}  {found.objects} objects are what their names say")
    for part in found.parts:
        typer.echo(f"{name}  its {part} was lost: {'would be' if dry_run else 'is'} put back")
    for path in found.healed:
        typer.echo(f"{name}  {for_terminal_line(path)} was lost: {'would be' if dry_run else 'is'} sent again")
    last = "left out" if without_lost and not dry_run else "not on this machine"
    for path in found.lost:
        typer.echo(f"{name}  {for_terminal_line(path)} is lost: {last}")


def _shared(config: Config) -> ObjectHome:
    """Return the home in an object store. Raises ConfigError: it is a folder of this machine. Raises ObjectHomeError:
    it cannot be used."""
    home = object_home(config)
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
