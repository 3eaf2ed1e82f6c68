"""Upload inboxes at a terminal: which one is meant, how a document is shown, building it.

Belongs here: what `citelock add` and `citelock uploads` share. Does not belong here: the commands (`add`, `uploads`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rag_serving.cli.group import UsageError

if TYPE_CHECKING:
    from rag_serving.config.loading import Config
    from rag_serving.documents.inbox import Inbox
    from rag_serving.documents.records import Entry


def inboxes_named(config: Config, source: str | None, tenant: str | None) -> list[Inbox]:
    """Return the inboxes that are meant: all of the tenant, or of the installation, or the one of this name.

    Raises:
        UsageError: there is none.
    """
    from rag_serving.documents.inbox import inboxes_of

    tenants = [tenant] if tenant else sorted(config.tenants)
    inboxes = {inbox.key: inbox for name in tenants for inbox in inboxes_of(config, name)}
    if not inboxes:
        raise UsageError("the configuration has no upload inbox: add a source of kind `files` without `path`")
    if source is None:
        return list(inboxes.values())
    if source not in inboxes:
        raise _several(inboxes)
    return [inboxes[source]]


def chosen_inbox(config: Config, source: str | None, tenant: str | None) -> Inbox:
    """Return the one inbox that is meant.

    Raises:
        UsageError: there is none, or several and none is named.
    """
    inboxes = inboxes_named(config, source, tenant)
    if len(inboxes) > 1:
        raise _several([inbox.key for inbox in inboxes])
    return inboxes[0]


def document_line(entry: Entry) -> str:
    """Return how a document is shown in a line."""
    document = entry.document
    version = f", version {document.current.version}" if document.current.version > 1 else ""
    return f"{document.document_id}  {document.name}  {entry.status}{version}, for {entry.readers}"


def build_inbox(ctx: typer.Context, source: str, config: Path | None) -> None:
    """Run `citelock build` of an inbox.

    Raises:
        UsageError: this machine does not build.
    """
    root: Any = ctx.find_root()
    found = root.command.get_command(root, "build")
    if found is None:
        raise UsageError("--build works on the machine that builds: pip install 'citelock[assets]'")
    arguments = [source, *(["--config", str(config)] if config else [])]
    with found.make_context("build", arguments, parent=root) as context:
        context.command.invoke(context)


def _several(names: Iterable[str]) -> UsageError:
    return UsageError(f"name the inbox with --source; there are: {', '.join(names)}")
