"""`citelock generations`: list, show, rollback, verify."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from rag_serving.artifacts.store import Store, StoreError
from rag_serving.cli.group import FAILED, JoinedCommands
from rag_serving.cli.options import AsJson, ConfigPath, Tenant, chosen_tenant
from rag_serving.config.loading import load_config
from rag_serving.escaping.targets import for_json, for_terminal_line
from rag_serving.indexes.catalog import (
    current_generation,
    list_generations,
    published_generation,
    rollback,
    show_generation,
)
from rag_serving.indexes.databases import open_database
from rag_serving.privacy import complain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_serving.config.loading import Config
    from rag_serving.indexes.databases import StoredInfo
    from rag_serving.indexes.integrity import Damage


class GenerationCommands(JoinedCommands):
    """The group `generations`."""

    prefix = "generations."


app = typer.Typer(
    cls=GenerationCommands, help="List, show, roll back, verify or repair generations.", no_args_is_help=True
)


@app.command("list")
def list_command(config: ConfigPath = None, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """List a tenant's generations, newest first; the published one is marked.

    Where `index` names a database, those that it has, by the time of their publication; on standard error how many
    candidates wait in folders of this machine.
    """
    settings = load_config(config)
    name = chosen_tenant(settings, tenant)
    if settings.index.kind != "disk":
        _list_stored(settings, name, as_json)
        return
    generations = list_generations(Store(settings.home), name)
    if as_json:
        typer.echo(for_json([info.payload() for info in generations]))
        return
    for info in generations:
        mark = "*" if info.current else " "
        when = f"{info.created_at:%Y-%m-%d %H:%M:%S}" if info.created_at else "-"
        state = info.problem or ("published" if info.current else "published before" if info.published else "candidate")
        state += f", {info.gates}" if info.gates and not info.problem else ""
        typer.echo(
            f"{mark} {info.id}  {when:<19}  {info.chunks:>8} chunks  {info.pages:>6} pages  "
            f"{info.bytes / 1e6:>8.1f} MB  {for_terminal_line(state)}"
        )


def _list_stored(settings: Config, tenant: str, as_json: bool) -> None:
    stored = open_database(settings).listed(tenant)
    if stored is None:
        raise StoreError("the database lists its generations to index.writer_url alone, which is not set here")
    if as_json:
        typer.echo(for_json([info.payload() for info in stored]))
    else:
        print_stored(stored)
    known = {info.id for info in stored}
    folders = [info.id for info in list_generations(Store(settings.home), tenant) if info.id not in known]
    if folders:
        complain(f"{tenant}: {len(folders)} more in folders of this machine, not in the database: {', '.join(folders)}")


def print_stored(generations: Sequence[StoredInfo]) -> None:
    """Print a line for each generation of a database."""
    for info in generations:
        mark = "*" if info.current else " "
        line = f"{mark} {info.id}  {info.published_at.isoformat()[:19]}  {info.chunks:>8} chunks"
        typer.echo(for_terminal_line(line))


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
    from rag_serving.hooks import Event, record
    from rag_serving.shared_home import written_with

    settings = load_config(config)
    name = chosen_tenant(settings, tenant)
    store = Store(settings.home)
    with written_with(settings, store.tenant(name)):
        before = published_generation(store, name, settings)
        record(settings, name, Event("generation.rolled_back", subject=generation, details={"from": before}))
        now = rollback(store, name, settings, generation)
    if as_json:
        typer.echo(json.dumps({"tenant": name, "previous": before, "current": now}))
    else:
        typer.echo(f"{name}: {now} is published, was {before}")


@app.command("verify")
def verify_command(
    generation: Annotated[str | None, typer.Argument(help="Generation id; default: the published one.")] = None,
    config: ConfigPath = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Compare every file of a generation with its manifest, to the last bit, and open it.

    \b
    citelock generations verify
    citelock generations verify --json | jq '.damage[].part'

    Exit code 1 if something is damaged, with a line for each part. Nothing is changed; `citelock generations repair`
    restores what can be.
    """
    from rag_serving.indexes.integrity import find_damage

    settings = load_config(config)
    name, store = chosen_tenant(settings, tenant), Store(settings.home)
    which = existing_generation(store, name, generation)
    damage = find_damage(store, name, which, settings, "digests")
    if as_json:
        print_damage(name, which, damage)
    elif not damage:
        manifest = show_generation(store, name, which)
        size = sum(file.bytes for file in manifest.files.values())
        typer.echo(
            f"{name}: generation {which} is whole: {len(manifest.files)} files ({size / 1e6:,.1f} MB) have their "
            f"digests, it opens, and its {manifest.chunks:,} chunks are in the dense index"
        )
    tell_damage(name, damage)
    if damage:
        complain(f"{name}: `citelock generations repair{f' {generation}' if generation else ''}` restores what can be")
        raise typer.Exit(FAILED)


def existing_generation(store: Store, tenant: str, generation: str | None) -> str:
    """Return the requested generation: the published one, though its folder may be gone, or an existing one."""
    current = store.current(tenant) if generation is None else None
    ids = {info.id for info in list_generations(store, tenant)}
    if generation is not None and generation not in ids:
        raise StoreError(
            f"tenant {tenant!r} has no generation {generation!r}; `citelock generations list --tenant {tenant}` shows "
            "what there is"
        )
    return generation or current or current_generation(store, tenant)


def print_damage(tenant: str, generation: str, damage: Sequence[Damage], **more: object) -> None:
    """Print what is damaged as JSON."""
    parts = [vars(one) for one in damage]
    typer.echo(json.dumps({"tenant": tenant, "generation": generation, "whole": not damage, "damage": parts, **more}))


def tell_damage(tenant: str, damage: Sequence[Damage]) -> None:
    """Print a line on standard error for each damaged part."""
    for one in damage:
        complain(f"{tenant}: {one}")
