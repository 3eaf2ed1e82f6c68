"""`citelock generations repair`: arguments and printing."""

from __future__ import annotations

from typing import Annotated

import typer

from rag_serving.artifacts.store import Store
from rag_serving.cli.generations import existing_generation, print_damage, tell_damage
from rag_serving.cli.group import FAILED
from rag_serving.cli.options import AsJson, ConfigPath, Tenant, chosen_tenant
from rag_serving.config.loading import load_config
from rag_serving.privacy import complain


def command(
    generation: Annotated[str | None, typer.Argument(help="Generation id; default: the published one.")] = None,
    config: ConfigPath = None,
    tenant: Tenant = None,
    resend: Annotated[
        bool, typer.Option("--resend", help="Send all of it to the database of `index` anew, whatever is there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Restore the damaged parts of a generation, to the last bit, from its other parts.

    \b
    citelock generations repair
    citelock generations repair 3f9c2a71d05e4b88 --json

    Files come from a sound copy, from the other file with the same rows, or from the tenant's cache of vectors; indexes
    are made again. If `index` names a database, missing parts of the published generation are copied there; with
    --resend all of it, altered rows included (in PostgreSQL the tenant's questions find nothing meanwhile). No source
    is read and no model is called. Parts that cannot be restored are listed (exit code 1), and the next `citelock
    build` makes the published generation again even without changes.
    """
    from rag_assets.publishing.publish import publish_to_database
    from rag_assets.publishing.repair import repair

    settings = load_config(config)
    name, store = chosen_tenant(settings, tenant), Store(settings.home)
    which = existing_generation(store, name, generation)
    done = repair(store, name, which, settings)
    if settings.index.kind != "disk" and not done.left and which == store.current(name):
        publish_to_database(store, name, which, settings, resend)
    if as_json:
        print_damage(name, which, done.left, restored=list(done.restored))
    else:
        for part in done.restored:
            typer.echo(f"{name}: restored {part}")
        if not done.left:
            typer.echo(f"{name}: generation {which} is whole{'' if done.restored else ', nothing was damaged'}")
    tell_damage(name, done.left)
    if done.left:
        current = which == store.current(name)
        again = "`citelock build` makes it again" if current else "it is removed when another is published"
        complain(f"{name}: what is left cannot be restored from what is here; {again}")
        raise typer.Exit(FAILED)
