"""`citelock forget`: arguments and printing.

Belongs here: the command. Does not belong here: deleting rows (`telemetry.writer`, `receipts.store`,
`conversations.store`).
"""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated

import typer

from rag_serving.cli.options import AsJson, ConfigPath, Tenant, chosen_tenant
from rag_serving.config.loading import load_config


def command(
    user: Annotated[str, typer.Option("--user", help="Account id or name, as the person asked under it.")],
    config: ConfigPath = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Delete what a user asked and judged: receipts, sessions, telemetry and feedback.

    \b
    citelock forget --user ann

    Receipts of older programs do not say who asked; they go with the days that telemetry.retention_days keeps.
    """
    from rag_serving.access.principals import Principal
    from rag_serving.artifacts.secret import derived_key
    from rag_serving.artifacts.store import Store
    from rag_serving.conversations.store import SessionStore
    from rag_serving.receipts.secrecy import Secrecy
    from rag_serving.receipts.store import open_receipts
    from rag_serving.telemetry.events import RowBuilder
    from rag_serving.telemetry.tables import opened
    from rag_serving.telemetry.telemetry import KEY_PURPOSE
    from rag_serving.telemetry.writer import forget_user

    settings = load_config(config)
    name = chosen_tenant(settings, tenant)
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
    if as_json:
        typer.echo(json.dumps({"tenant": name, "receipts": receipts, "sessions": sessions, "telemetry": rows}))
    else:
        told = f"{receipts} receipts, {sessions} sessions, {rows} rows of telemetry and feedback"
        typer.echo(f"{name}: deleted {told}")
