"""`citelock add` and `citelock uploads`: arguments and printing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_serving.cli.group import FAILED, UsageError
from rag_serving.cli.options import AsJson, ConfigPath, Tenant
from rag_serving.config.loading import load_config
from rag_serving.escaping.targets import for_log, for_terminal, for_terminal_line
from rag_serving.privacy import complain

if TYPE_CHECKING:
    from rag_serving.config.loading import Config
    from rag_serving.documents.inbox import Deletion, Entry, Inbox


def inboxes_named(config: Config, source: str | None, tenant: str | None, one: bool = False) -> list[Inbox]:
    """Return the inboxes that are meant: all of the tenant, or of the installation, or the one of this name. Raises
    UsageError: there is none, or there are several where `one` is wanted."""
    from rag_serving.documents.inbox import inboxes_of

    tenants = [tenant] if tenant else sorted(config.tenants)
    inboxes = {inbox.key: inbox for name in tenants for inbox in inboxes_of(config, name)}
    if not inboxes:
        raise UsageError("the configuration has no upload inbox: add a source of kind `files` without `path`")
    chosen = [inbox for key, inbox in inboxes.items() if source in (None, key)]
    if not chosen or (one and len(chosen) > 1):
        raise UsageError(f"name the inbox with --source; there are: {', '.join(inboxes)}")
    return chosen


def document_line(entry: Entry) -> str:
    """Return how a document is shown in a line."""
    document = entry.document
    version = f", version {document.current.version}" if document.current.version > 1 else ""
    return f"{document.document_id}  {document.name}  {entry.status}{version}, for {entry.readers}"


def build_inbox(ctx: typer.Context, source: str, config: Path | None) -> None:
    """Run `citelock build` of an inbox. Raises UsageError: this machine does not build."""
    root: Any = ctx.find_root()
    found = root.command.get_command(root, "build")
    if found is None:
        raise UsageError("--build works on the machine that builds: pip install 'citelock[assets]'")
    arguments = [source, *(["--config", str(config)] if config else [])]
    with found.make_context("build", arguments, parent=root) as context:
        context.command.invoke(context)


_BLOCK = 1024**2


def add(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Files to put in.", metavar="FILE…")],
    source: Annotated[str | None, typer.Option("--source", help="The inbox; may be left out for the only one.")] = None,
    readers: Annotated[
        list[str] | None,
        typer.Option("--readers", help="Who may read them: everyone, group:NAME or user:NAME; repeatable."),
    ] = None,
    replace: Annotated[
        str | None,
        typer.Option("--replace", metavar="DOCUMENT", help="The document that the one file is a new version of."),
    ] = None,
    config: ConfigPath = None,
    tenant: Tenant = None,
    build: Annotated[bool, typer.Option("--build", help="Build the inbox at once.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put files into an upload inbox, as `POST /v1/documents` does.

    \b
    citelock add Handbook.pdf --readers group:staff --build

    The same file again costs nothing. Files that are not accepted are listed, and the others are stored. With --replace
    the document with this id, as `citelock add` printed it, gets a new version; its readers stay unless --readers is
    given.
    """
    from rag_serving.documents.kinds import KindError
    from rag_serving.hooks import AuditUnavailableError, BudgetError, counted, open_budgets

    if replace and len(files) > 1:
        raise UsageError("--replace takes one file: the new version of the document")
    settings = load_config(config)
    inbox = inboxes_named(settings, source, tenant, one=True)[0]
    wanted = None if replace and not readers else _readers(inbox, readers)
    entries, failed = [], 0
    owner = settings.sources[inbox.key].tenant
    budget = open_budgets(settings, [owner]).get(owner)
    for file in files:
        try:
            with counted(budget, "documents", "uploads"):
                entries.append(_put(inbox, file, (wanted, replace), settings))
        except (OSError, KindError, UsageError, AuditUnavailableError, BudgetError) as error:
            failed += 1
            complain(for_log(f"{file.name}: {error.strerror if isinstance(error, OSError) else error}"))
    if as_json:
        typer.echo(json.dumps([entry.payload() for entry in entries]))
    else:
        for entry in entries:
            typer.echo(for_terminal(document_line(entry)))
    if build and entries:
        build_inbox(ctx, inbox.key, config)
    elif not as_json and any(entry.status == "received" for entry in entries):
        hint = f"the next build reads them: citelock build {inbox.key}, or --build; a running Dagster does so by itself"
        typer.echo(hint, err=True)
    if failed:
        raise typer.Exit(FAILED)


def _readers(inbox: Inbox, readers: list[str] | None) -> str:
    """Return the reader class that is meant. Raises UsageError: none is given, or not in a form that is understood."""
    from rag_serving.access.principals import EVERYONE
    from rag_serving.documents.inbox import GrantError, named_class

    if not readers:
        if inbox.settings.readers == "from_source":
            raise UsageError("say who may read the files: --readers everyone, or group:NAME or user:NAME")
        return EVERYONE  # whom the source itself is open to
    try:
        return named_class(readers)
    except GrantError as error:
        raise UsageError(str(error)) from None


def _put(inbox: Inbox, file: Path, wanted: tuple[str | None, str | None], config: Config) -> Entry:
    """Return the document that a file became; `wanted` are its readers and the document that it replaces. Raises
    OSError: the file cannot be read, or kept; KindError: it is of no kind that is read; UsageError: it is empty or too
    large, the inbox is full, or lacks the document to replace."""
    from rag_serving.documents.inbox import NoSuchDocumentError, TooManyDocumentsError, Upload
    from rag_serving.hooks import of_upload, record

    readers, replaced = wanted
    spool = inbox.files.spool()
    try:
        with file.open("rb") as stream:
            while block := stream.read(_BLOCK):
                spool.write(block)
                if spool.size > (most := inbox.settings.max_file_bytes):
                    raise UsageError(f"it is larger than {most} bytes (max_file_bytes of the source)")
        if not spool.size:
            raise UsageError("it is empty")
        upload = Upload(spool, file.name, readers, document_id=replaced, by=None)
        record(config, inbox.settings.tenant, of_upload(None, inbox.key, upload))
        return inbox.receive(None, upload, config.serving.max_documents)
    except NoSuchDocumentError:
        raise UsageError(f"the inbox has no document {replaced}") from None
    except TooManyDocumentsError:
        most = config.serving.max_documents
        raise UsageError(f"the inbox holds {most} documents, as many as it may") from None
    finally:
        spool.discard()


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
    from rag_serving.artifacts.store import Store
    from rag_serving.documents.inbox import deletion_for

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
