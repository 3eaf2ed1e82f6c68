"""`citelock keys`: create, list, revoke."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, get_args
from urllib.parse import urlsplit

import typer

from rag_serving.cli.group import FAILED, UsageError
from rag_serving.cli.options import AsJson, ConfigPath, Groups, Tenant, chosen_tenant
from rag_serving.config.loading import load_config
from rag_serving.config.serving import Role
from rag_serving.escaping.targets import for_log, for_terminal_line
from rag_serving.privacy import complain

if TYPE_CHECKING:
    from citelock_governance.api_keys.store import ApiKey
    from rag_serving.config.loading import Config
    from rag_serving.hooks import Event, Kind

MAX_DAYS = 3650
MAX_NAME_CHARS = 200
_DAY_S = 86_400

app = typer.Typer(help="Create, list or revoke keys of machines.", no_args_is_help=True)


@app.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="What it is for, such as `nightly-report`.")],
    roles: Annotated[
        list[str] | None,
        typer.Option("--role", help="reader (always), editor, operator or auditor; repeatable."),
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="In whose name the machine asks.")] = None,
    groups: Groups = None,
    address: Annotated[str | None, typer.Option("--address", help="The only address that it opens.")] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=MAX_DAYS, help="Days after which it ends.")] = 90,
    config: ConfigPath = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it, once: only its digest is kept.

    \b
    citelock keys create nightly-report --group staff --days 30

    A machine sends it as `Authorization: Bearer KEY`. Without --user and --group it reads what everyone may.
    """
    from citelock_governance.api_keys.store import ApiKey, KeyStore, new_key
    from rag_serving.hooks import record

    settings = load_config(config)
    chosen = chosen_tenant(settings, tenant)
    _check_names([name, *([] if user is None else [user]), *(groups or [])])
    _check_roles(roles or [])
    _check_address(settings, address)
    now = int(time.time())
    named = frozenset(groups or ()), frozenset({"reader", *(roles or ())})
    key, written = new_key(ApiKey("", chosen, name, "", user, *named, address, now, now + days * _DAY_S))
    record(settings, chosen, event_of("key.created", key))
    with closing(KeyStore(settings)) as store:
        store.add(key)
    if as_json:
        typer.echo(json.dumps({**_payload(key), "key": written}))
        return
    typer.echo(written)
    until = _day(key.expires)
    typer.echo(f"{key.id}: for {chosen} until {until}; it is not shown again", err=True)
    if settings.serving.auth == "loopback":
        typer.echo("nobody is asked for it yet: serving.auth is loopback; set it to tokens or jwt", err=True)


@app.command("list")
def list_keys(config: ConfigPath = None, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """List the keys of a tenant, the newest first, with those that are over.

    \b
    citelock keys list --json | jq -r '.[] | select(.state == "in force") | .id'
    """
    from citelock_governance.api_keys.store import KeyStore

    settings = load_config(config)
    with closing(KeyStore(settings)) as store:
        keys = store.list(chosen_tenant(settings, tenant))
    if as_json:
        typer.echo(json.dumps([_payload(key) for key in keys]))
        return
    for key in keys:
        names = [f"user:{key.user}"] * bool(key.user) + [f"group:{group}" for group in sorted(key.groups)]
        who = ", ".join([*names, *sorted(key.roles - {"reader"}), *([key.resource] if key.resource else [])])
        state = f"{_state(key)} until {_day(key.expires)}" if _state(key) == "in force" else _state(key)
        typer.echo(for_terminal_line(f"{key.id}  {state}  {key.name}" + (f"  ({who})" if who else "")))


@app.command("revoke")
def revoke_keys(
    keys: Annotated[list[str], typer.Argument(help="Their ids, or the keys themselves.", metavar="KEY…")],
    config: ConfigPath = None,
    tenant: Tenant = None,
) -> None:
    """Revoke keys: servers refuse them within two seconds.

    \b
    citelock keys revoke 9f2c4e1ab07d5836
    """
    from citelock_governance.api_keys.store import KeyStore, parts_of
    from rag_serving.hooks import record

    settings = load_config(config)
    chosen, missing = chosen_tenant(settings, tenant), 0
    with closing(KeyStore(settings)) as store:
        for given in keys:
            identifier = parts[0] if (parts := parts_of(given)) else given
            key = store.find(identifier)
            if key is None or key.tenant != chosen:
                missing += 1
                complain(for_log(f"{identifier}: {chosen} has no such key; `citelock keys list` shows all"))
                continue
            record(settings, chosen, event_of("key.revoked", key))
            store.revoke(key)
            typer.echo(f"{key.id}: revoked")
    if missing:
        raise typer.Exit(FAILED)


def _check_names(names: Sequence[str]) -> None:
    if not all(name.strip() and len(name) <= MAX_NAME_CHARS and name.isprintable() for name in names):
        raise UsageError(f"names have 1 to {MAX_NAME_CHARS} printable characters")


def _check_roles(roles: Sequence[str]) -> None:
    if unknown := sorted(set(roles) - set(get_args(Role))):
        raise UsageError(f"{unknown[0]!r} is no role; there are {', '.join(get_args(Role))}")


def _check_address(settings: Config, address: str | None) -> None:
    public = settings.serving.public_url
    if address is None:
        return
    if urlsplit(address).scheme not in ("http", "https") or not public:
        raise UsageError("an address is an URL below serving.public_url, which must be set")
    if not f"{address}/".startswith(f"{public.rstrip('/')}/"):
        raise UsageError(f"the address is not below serving.public_url ({public}): the key would open nothing")


def event_of(kind: Kind, key: ApiKey) -> Event:
    """Return the audit log's event for an act on a key."""
    from rag_serving.hooks import Event

    return Event(kind, subject=key.id, details={"roles": sorted(key.roles), "expires": _day(key.expires)})


def _payload(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "tenant": key.tenant,
        "name": key.name,
        "user": key.user,
        "groups": sorted(key.groups),
        "roles": sorted(key.roles),
        "address": key.resource,
        "created": _moment(key.created),
        "expires": _moment(key.expires),
        "revoked": _moment(key.revoked) if key.revoked is not None else None,
        "state": _state(key),
    }


def _state(key: ApiKey) -> str:
    if key.revoked is not None:
        return "revoked"
    return "in force" if key.is_in_force(time.time()) else "expired"


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _day(seconds: int) -> str:
    return _moment(seconds)[:10]
