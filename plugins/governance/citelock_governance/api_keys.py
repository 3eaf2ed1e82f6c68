"""Keys of machines: made, listed and revoked by `citelock keys`, looked up at each request. A row of the store counts
only with its signature under the installation's secret: write access to the database alone can add no key, widen none
and move none to another tenant. It can put back an earlier row of a key, from before it was revoked; a key therefore
always ends. The lookup is used by the event loop alone, and so without locks."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, get_args
from urllib.parse import urlsplit

import typer
from sqlalchemy import JSON, BigInteger, Column, Connection, MetaData, String, Table, Text, insert, select, update

from rag_serving.access.principals import READER, Principal
from rag_serving.artifacts.secret import FIELD, SecretError, signature_fault, signature_of
from rag_serving.artifacts.store import Store
from rag_serving.cli.group import FAILED, UsageError
from rag_serving.cli.options import AsJson, ConfigPath, Groups, Tenant, chosen_tenant
from rag_serving.config.loading import Config, load_config
from rag_serving.config.serving import Role
from rag_serving.deadline import run_in_thread
from rag_serving.escaping.targets import for_log, for_terminal_line
from rag_serving.hooks import Event, KeysAwayError, Kind, MachineKey, record
from rag_serving.privacy import complain
from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import GuardedDatabase

PREFIX = "ck_"  # of every key: scanners for leaked credentials look for it
ID_CHARS = 16
SECRET_CHARS = 43
_ID, _SECRET = (
    frozenset("0123456789abcdef"),
    frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
)


@dataclass(frozen=True)
class ApiKey:
    """The stored facts of a key. Times in whole seconds since 1970."""

    id: str
    tenant: str
    name: str
    digest: str
    """SHA-256 of the secret, in hexadecimal digits."""
    user: str | None
    groups: frozenset[str]
    roles: frozenset[str]
    resource: str | None
    """The only address that it opens; None: all."""
    created: int
    expires: int
    revoked: int | None = None

    @property
    def principal(self) -> Principal:
        """The principal behind the key."""
        return Principal(self.tenant, self.user, self.groups, READER | self.roles)

    def is_in_force(self, now: float) -> bool:
        """Return whether it opens anything now."""
        return self.revoked is None and now < self.expires

    def holds(self, secret: str) -> bool:
        """Return whether this is the key's secret."""
        return hmac.compare_digest(self.digest, digest_of(secret))


def new_key(scope: ApiKey) -> tuple[ApiKey, str]:
    """Return a new key of a scope, whose id and digest are set here, and its written form, which is shown once."""
    identifier, secret = secrets.token_hex(ID_CHARS // 2), secrets.token_urlsafe(32)
    return replace(scope, id=identifier, digest=digest_of(secret)), f"{PREFIX}{identifier}_{secret}"


def parts_of(token: str) -> tuple[str, str] | None:
    """Return the id and the secret of a written key; None for anything else."""
    if len(token) != len(PREFIX) + ID_CHARS + 1 + SECRET_CHARS or not token.startswith(PREFIX):
        return None
    identifier, joint, secret = token[len(PREFIX) :][:ID_CHARS], token[len(PREFIX) + ID_CHARS], token[-SECRET_CHARS:]
    is_written = joint == "_" and set(identifier) <= _ID and set(secret) <= _SECRET
    return (identifier, secret) if is_written else None


def digest_of(secret: str) -> str:
    """Return the stored form of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


METADATA = MetaData()
KEYS = Table(
    "api_keys",
    METADATA,
    Column("id", String(16), primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("digest", String(64), nullable=False),  # SHA-256 of the secret
    Column("user", Text),
    Column("groups", JSON, nullable=False),  # [name], in order
    Column("roles", JSON, nullable=False),  # [role], in order
    Column("resource", Text),  # the only address that it opens
    Column("created", BigInteger, nullable=False),  # seconds since 1970
    Column("expires", BigInteger, nullable=False),
    Column("revoked", BigInteger),
    Column(FIELD, String(64), nullable=False),
)
_PURPOSE = "api keys"

_log = logging.getLogger(__name__)


class KeyStoreError(KeysAwayError):
    """The keys cannot be read or written; the message says why."""


class KeyStore:
    """The keys of an installation. Safe to use from several threads and processes."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.time) -> None:
        self._home, self._url, self._clock = config.home, config.telemetry.url, clock
        self._serving_db = Store(config.home).serving_db()
        self._database = GuardedDatabase(self._url, self._serving_db, METADATA)

    def add(self, key: ApiKey) -> None:
        """Keep a new key. Raises KeyStoreError: it cannot be kept."""
        row = self._signed(key)
        self._ask(lambda connection: connection.execute(insert(KEYS), row))

    def list(self, tenant: str) -> list[ApiKey]:
        """Return the keys of a tenant, the newest first, those that are over included; a row that this installation did
        not sign is none. Raises KeyStoreError: they cannot be read."""
        if not self._is_there():
            return []
        query = select(KEYS).where(KEYS.c.tenant == tenant).order_by(KEYS.c.created.desc(), KEYS.c.id)
        rows = self._ask(lambda connection: [dict(row) for row in connection.execute(query).mappings()])
        return [key for row in rows if (key := self._believed(row)) is not None]

    def find(self, identifier: str) -> ApiKey | None:
        """Return a key by its id; None if there is none that this installation signed. Raises KeyStoreError: the
        database does not answer."""
        if not self._is_there():
            return None
        query = select(KEYS).where(KEYS.c.id == identifier)
        row = self._ask(lambda connection: connection.execute(query).mappings().first())
        return self._believed(dict(row)) if row is not None else None

    def revoke(self, key: ApiKey) -> None:
        """Revoke a key. Revoked twice it keeps the first time. Raises KeyStoreError: that cannot be written."""
        row = self._signed(replace(key, revoked=int(self._clock())))
        is_new = KEYS.c.id == key.id, KEYS.c.revoked.is_(None)
        self._ask(lambda connection: connection.execute(update(KEYS).where(*is_new).values(row)))

    def forget(self, key: ApiKey) -> None:
        """Revoke a key, unless it is, and take the user's name out of its row. Raises KeyStoreError: that cannot be
        written."""
        revoked = int(self._clock()) if key.revoked is None else key.revoked
        row = self._signed(replace(key, user=None, revoked=revoked))
        self._ask(lambda connection: connection.execute(update(KEYS).where(KEYS.c.id == key.id).values(row)))

    def close(self) -> None:
        self._database.close()

    def _is_there(self) -> bool:
        """Return whether there can be keys: looking for one must not make a database."""
        return self._url is not None or self._serving_db.exists()

    def _ask(self, work: Callable[[Connection], Any]) -> Any:
        try:
            return self._database.ask(work)
        except TelemetryError as error:
            raise KeyStoreError(f"keys cannot be read or written: {error}") from None

    def _signed(self, key: ApiKey) -> dict[str, Any]:
        row = {**asdict(key), "groups": sorted(key.groups), "roles": sorted(key.roles)}
        try:
            return {**row, FIELD: signature_of(row, self._home, _PURPOSE)}
        except SecretError as error:
            raise KeyStoreError(str(error)) from None

    def _believed(self, row: Mapping[str, Any]) -> ApiKey | None:
        if signature_fault(row, self._home, _PURPOSE) is not None:
            _log.error("the row of the key %s in the database was not signed here and opens nothing", row["id"])
            return None
        content = {name: value for name, value in row.items() if name != FIELD}
        return ApiKey(**{**content, "groups": frozenset(row["groups"]), "roles": frozenset(row["roles"])})


FRESH_S = 2.0
"""Seconds after which a key is looked up again: a revoked one is refused no later, in each process."""
KEPT_S = 60.0
"""Seconds for which a key that was found serves while the database does not answer."""
MAX_KEYS = 10_000
MAX_AT_ONCE = 32
"""Keys that are looked up at once."""


def opened(config: Config) -> KeyLookup:
    """Return the lookup of an installation's keys. Nothing is connected before the first lookup."""
    return KeyLookup(KeyStore(config))


class KeyLookup:
    """Finds keys by what is written and by their ids."""

    def __init__(self, store: KeyStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._found: OrderedDict[str, tuple[float, ApiKey]] = OrderedDict()  # with the time of the look
        self._under_way: dict[str, asyncio.Task[ApiKey | None]] = {}

    def is_key(self, token: str) -> bool:
        return parts_of(token) is not None

    async def of_token(self, token: str) -> MachineKey | None:
        identifier, secret = parts_of(token) or ("", "")
        key = await self.find(identifier)
        return _in_force(key) if key is not None and key.holds(secret) else None

    async def of_id(self, identifier: str) -> MachineKey | None:
        return _in_force(await self.find(identifier))

    async def find(self, identifier: str) -> ApiKey | None:
        """Return a key, possibly an expired one; None if there is none. Raises KeyStoreError: the database does not
        answer."""
        at, kept = self._found.get(identifier, (float("-inf"), None))
        if self._clock() - at < FRESH_S:
            return kept
        try:
            key = await self._looked_up(identifier)
        except KeyStoreError:
            if self._clock() - at < KEPT_S:
                return kept
            raise
        self._keep(identifier, key)
        return key

    def close(self) -> None:
        self._store.close()

    async def _looked_up(self, identifier: str) -> ApiKey | None:
        """Look a key up in a thread; of requests at once one does for all."""
        task = self._under_way.get(identifier)
        if task is None or task.done():
            if len(self._under_way) >= MAX_AT_ONCE:
                raise KeyStoreError("too many keys are looked up at once")
            task = asyncio.create_task(self._read(identifier))
            self._under_way[identifier] = task
        return await asyncio.shield(task)

    async def _read(self, identifier: str) -> ApiKey | None:
        try:
            return await asyncio.wrap_future(run_in_thread(lambda: self._store.find(identifier), "api-key"))
        finally:
            self._under_way.pop(identifier, None)

    def _keep(self, identifier: str, key: ApiKey | None) -> None:
        """Cache a result; made-up ids take no room from keys."""
        if key is None:
            self._found.pop(identifier, None)
            return
        self._found[identifier] = self._clock(), key
        self._found.move_to_end(identifier)
        while len(self._found) > MAX_KEYS:
            self._found.popitem(last=False)


def _in_force(key: ApiKey | None) -> MachineKey | None:
    if key is None or not key.is_in_force(time.time()):
        return None
    return MachineKey(key.id, key.principal, key.expires, key.resource)


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
    settings = load_config(config)
    chosen = chosen_tenant(settings, tenant)
    names = [name, *([] if user is None else [user]), *(groups or [])]
    if not all(each.strip() and len(each) <= MAX_NAME_CHARS and each.isprintable() for each in names):
        raise UsageError(f"names have 1 to {MAX_NAME_CHARS} printable characters")
    if unknown := sorted(set(roles or ()) - set(get_args(Role))):
        raise UsageError(f"{unknown[0]!r} is no role; there are {', '.join(get_args(Role))}")
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
