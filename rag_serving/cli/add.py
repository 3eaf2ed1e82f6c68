"""`citelock add`: arguments and printing.

Belongs here: the command. Does not belong here: what becomes of a file (`documents.inbox`), which inbox is meant
(`inboxes`), building.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_serving.cli.group import FAILED, UsageError
from rag_serving.cli.inboxes import build_inbox, chosen_inbox, document_line
from rag_serving.cli.options import AsJson, ConfigPath, Tenant
from rag_serving.config.loading import load_config
from rag_serving.escaping.targets import for_log, for_terminal
from rag_serving.privacy import complain

if TYPE_CHECKING:
    from rag_serving.config.loading import Config
    from rag_serving.documents.inbox import Inbox
    from rag_serving.documents.records import Entry

_BLOCK = 1024**2


def command(
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
    from rag_serving.hooks import AuditUnavailableError, BudgetError, BudgetsAwayError, counted, open_budgets

    if replace and len(files) > 1:
        raise UsageError("--replace takes one file: the new version of the document")
    settings = load_config(config)
    inbox = chosen_inbox(settings, source, tenant)
    wanted = None if replace and not readers else _readers(inbox, readers)
    entries, failed = [], 0
    owner = settings.sources[inbox.key].tenant
    budget = open_budgets(settings, [owner]).get(owner)
    for file in files:
        try:
            with counted(budget, "documents", "uploads"):
                entries.append(_put(inbox, file, (wanted, replace), settings))
        except (OSError, KindError, UsageError, AuditUnavailableError, BudgetError, BudgetsAwayError) as error:
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
    """Return the reader class that is meant.

    Raises:
        UsageError: it is not said who may read the files, or not in a form that is understood.
    """
    from rag_serving.access.principals import EVERYONE
    from rag_serving.documents.grants import GrantError, named_class

    if not readers:
        if inbox.settings.readers == "from_source":
            raise UsageError("say who may read the files: --readers everyone, or group:NAME or user:NAME")
        return EVERYONE  # whom the source itself is open to
    try:
        return named_class(readers)
    except GrantError as error:
        raise UsageError(str(error)) from None


def _put(inbox: Inbox, file: Path, wanted: tuple[str | None, str | None], config: Config) -> Entry:
    """Return the document that a file became; `wanted` are its readers and the document that it replaces.

    Raises:
        OSError: the file cannot be read, or kept.
        KindError: it is of no kind that is read.
        UsageError: it is empty or too large, the inbox is full, or lacks the document to replace.
    """
    from rag_serving.documents.inbox import NoSuchDocumentError, TooManyDocumentsError, Upload
    from rag_serving.hooks import of_upload, record

    readers, replaced = wanted
    spool = inbox.files.spool()
    try:
        with file.open("rb") as stream:
            while block := stream.read(_BLOCK):
                spool.write(block)
                if spool.size > config.serving.max_document_bytes:
                    most = config.serving.max_document_bytes
                    raise UsageError(f"it is larger than {most} bytes (serving.max_document_bytes)")
        if not spool.size:
            raise UsageError("it is empty")
        upload = Upload(spool, file.name, readers, document_id=replaced, by=None)
        record(config, inbox.settings.tenant, of_upload(None, inbox.key, upload))
        return inbox.receive(None, upload, config.serving.max_documents)
    except NoSuchDocumentError:
        raise UsageError(f"the inbox has no document {replaced}") from None
    except TooManyDocumentsError:
        most = config.serving.max_documents
        raise UsageError(f"the inbox holds {most} documents, as many as it may (serving.max_documents)") from None
    finally:
        spool.discard()
