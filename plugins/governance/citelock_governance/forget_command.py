"""`citelock forget`: arguments and printing."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from rag_serving.cli.options import AsJson, ConfigPath, Tenant, chosen_tenant
from rag_serving.config.loading import load_config

if TYPE_CHECKING:
    from rag_serving.config.loading import Config


def command(
    user: Annotated[str, typer.Option("--user", help="Account id or name, as the person asked under it.")],
    config: ConfigPath = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Delete a user's questions and feedback: receipts, sessions, telemetry; revoke the keys in the user's name; unlink
    the audit log from them.

    \b
    citelock forget --user ann

    Rows of the audit log stay, and verify, but their user and questions cannot be recovered. Receipts of older programs
    do not name the user; they are deleted after telemetry.retention_days. Running servers drop the tenant's answers and
    vectors from memory with the next question, those with a home of their own within two seconds.
    """
    from rag_serving.access.principals import Principal
    from rag_serving.artifacts.secret import derived_key
    from rag_serving.artifacts.store import Store
    from rag_serving.caching.memory import mark_forgotten
    from rag_serving.conversations.sessions import SessionStore
    from rag_serving.hooks import Event, record
    from rag_serving.receipts.receipt import Secrecy
    from rag_serving.receipts.store import open_receipts
    from rag_serving.telemetry.events import RowBuilder
    from rag_serving.telemetry.tables import opened
    from rag_serving.telemetry.telemetry import KEY_PURPOSE
    from rag_serving.telemetry.writer import forget_user

    settings = load_config(config)
    name = chosen_tenant(settings, tenant)
    record(settings, name, Event("user.forgotten"))
    keys = _revoked(settings, name, user)
    unlinked = _unlinked(settings, name, user)
    with closing(open_receipts(settings)) as store:
        receipts = store.forget(name, Secrecy(settings.home).asker(Principal(name, user)))
    database, rows = Store(settings.home).serving_db(), 0
    if settings.telemetry.url is not None or database.exists():
        digest = RowBuilder(name, derived_key(settings.home, KEY_PURPOSE)).user_hash(user) or ""
        with opened(settings.telemetry.url, database) as engine:
            rows = forget_user(engine, name, digest)
    sessions = 0
    if settings.telemetry.url is not None or database.exists():
        with closing(SessionStore(settings, name, lambda: datetime.now(UTC))) as stored:
            sessions = stored.forget(user)
    mark_forgotten(settings, name)
    if as_json:
        counts = {"receipts": receipts, "sessions": sessions, "telemetry": rows, "audit": unlinked, "keys": keys}
        typer.echo(json.dumps({"tenant": name, **counts}))
    else:
        told = f"{receipts} receipts, {sessions} sessions, {rows} rows of telemetry and feedback"
        also = [f"revoked {keys} keys"] * bool(keys) + ["unlinked the audit log"] * bool(unlinked)
        typer.echo("; ".join([f"{name}: deleted {told}", *also]))


def _revoked(settings: Config, tenant: str, user: str) -> int:
    """Return how many valid keys had the user's name; the name is removed from revoked ones, too."""
    from citelock_governance.api_keys.command import event_of
    from citelock_governance.api_keys.store import KeyStore
    from rag_serving.hooks import record

    count = 0
    with closing(KeyStore(settings)) as store:
        for key in store.list(tenant):
            if key.user != user:
                continue
            if key.revoked is None:
                record(settings, tenant, event_of("key.revoked", key))
                count += 1
            store.forget(key)
    return count


def _unlinked(settings: Config, tenant: str, user: str) -> int:
    """Return how many pseudonyms of a user the audit log had; it may have been switched off since."""
    from citelock_governance.audit.ledger import Ledger
    from rag_serving.artifacts.store import Store

    if settings.telemetry.url is None and not Store(settings.home).serving_db().exists():
        return 0
    with closing(Ledger(settings.home, settings.telemetry.url, tenant, settings.audit)) as ledger:
        return ledger.forget(user)
