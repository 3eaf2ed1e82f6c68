"""`citelock index`: migrate, status and claims of the database of published generations, and what the doctor finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Annotated, Any

import typer

from citelock_stores.postgres.migrations.upgrade import migrate
from citelock_stores.postgres.sessions import KEY_PURPOSE, ClaimSigner, is_storable
from citelock_stores.remote.generation import Catalogs, DatabaseGeneration, open_store
from citelock_stores.remote.protocol import RemoteStore
from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import SecretError, derived_key
from rag_serving.cli.generations import print_stored
from rag_serving.cli.group import FAILED, UsageError
from rag_serving.cli.options import AsJson, ConfigPath, Groups, Tenant, User, chosen_tenant
from rag_serving.cli.printing import Finding
from rag_serving.config.loading import Config, ConfigError, load_config
from rag_serving.hooks import Event, record
from rag_serving.indexes.databases import RemoteError, open_database
from rag_serving.privacy import complain


def examine(config: Config) -> Iterator[Finding]:
    """Yield the findings of `in_database` for each tenant: the entry point `index` of `citelock.checks`."""
    if config.index.kind != "disk":
        yield from (in_database(config, tenant) for tenant in config.tenants)


def in_database(config: Config, tenant: str) -> Finding:
    """Return whether questions of a tenant can be answered from the database, and its faults."""
    name, kind = f"index of {tenant}", config.index.kind
    try:
        with closing(open_store(config)) as store:
            return _looked_at(name, config, tenant, store)
    except (ConfigError, SecretError) as error:
        return Finding(name, "fail", str(error), "see docs/configuration.md, `index`")
    except RemoteError as error:
        detail, _, mend = str(error).rpartition("; ")
        return Finding(
            name, "fail", f"{kind}: {detail or mend}", mend if detail else "see `index` in the configuration"
        )


def _looked_at(name: str, config: Config, tenant: str, store: RemoteStore) -> Finding:
    current = store.current(tenant)
    if current is None:
        return Finding(name, "warn", f"{config.index.kind}: nothing is published there yet", "run `citelock build`")
    generation = DatabaseGeneration(config.home, tenant, current, store.open(tenant, current), Catalogs(0))
    readable = len(generation.for_reader(Principal(tenant)))
    detail = f"{config.index.kind}: generation {current}, {len(generation)} chunks"
    detail += "" if readable == len(generation) else f" ({readable} of them readable for everyone)"
    if faults := store.faults(tenant):
        fault, _, mend = faults[0].rpartition("; ")
        return Finding(name, "warn", f"{detail}; {fault or mend}", mend if fault else "run `citelock build`")
    return Finding(name, "ok", detail)


LONGEST_MINUTES = 60
"""For which claims are signed: they cannot be revoked."""

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
    with closing(open_store(settings)) as store:
        faults = store.faults(name)
        stored = open_database(settings).listed(name) if not faults or settings.index.kind == "postgres" else None
        current = None if faults else store.current(name)
    rows = None if stored is None else [info.payload() for info in stored]
    if as_json:
        typer.echo(json.dumps({"tenant": name, "current": current, "generations": rows, "faults": list(faults)}))
    elif stored is None:
        typer.echo(f"{name}: {current or 'nothing'} is published (index.writer_url lists all)")
    else:
        print_stored(stored)
    for fault in faults:
        complain(f"{name}: {fault}")
    if faults:
        raise typer.Exit(FAILED)


@app.command("claims")
def claims_command(
    config: ConfigPath = None,
    tenant: Tenant = None,
    user: User = None,
    group: Groups = None,
    minutes: Annotated[int, typer.Option("--minutes", min=1, max=LONGEST_MINUTES, help="How long they hold.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Sign claims by which another program reads the database in the name of a caller, as SQL.

    \b
    citelock index claims --tenant acme --user ann --group staff
    citelock index claims --group staff --minutes 2 --json | jq -r .claims

    The statements belong at the beginning of a transaction of the user citelock_app and end with it. Whoever has the
    output can read what the caller may read until the claims expire: treat it as a password. The audit log, where it is
    on, has whose claims were signed, and for how long.
    """
    settings = _of_postgres(config)
    name, groups = chosen_tenant(settings, tenant), sorted(group or ())
    for given in (*([] if user is None else [user]), *groups):  # others open less than the claims say
        if not (given and is_storable(given) and given.isprintable()):
            raise UsageError(
                f"{given!r} is no name of a user or group: empty, or with characters that cannot be printed"
            )
    record(settings, name, Event("index.claims_signed", subject=user, details={"minutes": minutes, "groups": groups}))
    signer = ClaimSigner(derived_key(settings.home, KEY_PURPOSE))
    signed = signer.until(Principal(name, user, frozenset(groups)), 60 * minutes)
    if as_json:
        expires = json.loads(signed.claims)["exp"]
        told = {**signed._asdict(), "tenant_id": str(signer.tenant_id(name)), "expires_at": expires}
        typer.echo(json.dumps(told))
        return
    for field, value in signed._asdict().items():
        typer.echo(f"SET LOCAL request.jwt.{field} = {_literal(value)};")


def _literal(text: str) -> str:
    """Return a text as a literal of SQL that reads the same whatever the session's settings are."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


def _of_postgres(path: Any) -> Config:
    settings = load_config(path)
    if settings.index.kind != "postgres":
        raise UsageError(f"index.kind is {settings.index.kind}; `citelock index` is of postgres (CITELOCK_INDEX__KIND)")
    return settings
