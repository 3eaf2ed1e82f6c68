"""`citelock uploads`: list, show, delete.

Belongs here: arguments and printing. Does not belong here: which documents there are and what deleting one means
(`documents.inbox`), putting files in (`add`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rag_serving.cli.group import FAILED
from rag_serving.cli.inboxes import build_inbox, document_line, inboxes_named
from rag_serving.cli.options import AsJson, ConfigPath, Tenant
from rag_serving.config.loading import load_config
from rag_serving.escaping.targets import for_log, for_terminal_line
from rag_serving.privacy import complain

if TYPE_CHECKING:
    from rag_serving.config.loading import Config
    from rag_serving.documents.deletions import Deletion
    from rag_serving.documents.inbox import Inbox
    from rag_serving.documents.records import Entry

app = typer.Typer(help="List, show or delete uploaded documents.", no_args_is_help=True)

Source = Annotated[str | None, typer.Option("--source", help="Only this inbox.")]


@app.command("list")
def list_uploads(
    source: Source = None, config: ConfigPath = None, tenant: Tenant = None, as_json: AsJson = False
) -> None:
    """List the documents of the upload inboxes, the newest first.

    \b
    citelock uploads list --json | jq -r '.[] | select(.status == "failed") | .name + ": " + .reason'

    Whoever has this machine sees all of them; `GET /v1/documents` shows editors what they may read.
    """
    inboxes = inboxes_named(load_config(config), source, tenant)
    entries = [entry for inbox in inboxes for entry in inbox.entries().values()]
    entries.sort(key=lambda entry: (entry.document.current.uploaded_at, entry.page_id), reverse=True)
    _tell(entries, as_json)


@app.command("show")
def show_upload(
    document: Annotated[str, typer.Argument(help="Its id, as `citelock uploads list` has it.")],
    source: Source = None,
    config: ConfigPath = None,
    tenant: Tenant = None,
) -> None:
    """Show a document as JSON: its versions, and how far the build is with it; of one that is gone, what proves it."""
    settings = load_config(config)
    found = _found(settings, inboxes_named(settings, source, tenant), document)
    if found is None:
        complain(for_log(_missing(document)))
        raise typer.Exit(FAILED)
    typer.echo(json.dumps(found.payload(), indent=2))


@app.command("delete")
def delete_uploads(
    ctx: typer.Context,
    documents: Annotated[list[str], typer.Argument(help="Their ids.", metavar="DOCUMENT…")],
    source: Source = None,
    config: ConfigPath = None,
    tenant: Tenant = None,
    build: Annotated[bool, typer.Option("--build", help="Build their inboxes at once.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take documents away, as `DELETE /v1/documents/{id}` does.

    \b
    citelock uploads delete doc0e4b1c9a7d52f311 --build

    A document is `deleting` until a generation without it is published; then `citelock uploads show` has what proves
    that it is gone. A new version that is put in before that keeps it.
    """
    settings = load_config(config)
    inboxes = inboxes_named(settings, source, tenant)
    found = {document: _deleted(settings, inboxes, document) for document in documents}
    for document in [document for document, entry in found.items() if entry is None]:
        complain(for_log(_missing(document)))
    entries = [entry for entry in found.values() if entry is not None]
    _tell(entries, as_json)
    touched = list(dict.fromkeys(entry.source for entry in entries))
    if build:
        for key in touched:
            build_inbox(ctx, key, config)
    elif touched and not as_json:
        hint = f"the next build takes them away: citelock build {' '.join(touched)}, or --build"
        typer.echo(f"{hint}; a running Dagster does so by itself", err=True)
    if len(entries) < len(found):
        raise typer.Exit(FAILED)


def _tell(entries: Sequence[Entry], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([entry.payload() for entry in entries]))
        return
    for entry in entries:
        reason = entry.payload()["reason"]
        typer.echo(for_terminal_line(document_line(entry) + (f": {reason}" if reason else "")))


def _found(config: Config, inboxes: Sequence[Inbox], document: str) -> Entry | Deletion | None:
    """Return a document, or the record of its deletion."""
    from rag_serving.artifacts.store import Store
    from rag_serving.documents.deletions import deletion_for

    for inbox in inboxes:
        if (entry := inbox.entries().get(document)) is not None:
            return entry
        if (gone := deletion_for(Store(config.home), inbox, None, document)) is not None:
            return gone
    return None


def _deleted(config: Config, inboxes: Sequence[Inbox], document: str) -> Entry | None:
    from rag_serving.hooks import Event, record

    for inbox in inboxes:
        if document in inbox.entries():
            record(config, inbox.settings.tenant, Event("document.deleted", subject=document))
            return inbox.delete(None, document)
    return None


def _missing(document: str) -> str:
    return f"{document}: no inbox has such a document; `citelock uploads list` shows all"
