"""`citelock mcp`: arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from rag_serving.access.principals import READER
from rag_serving.cli.group import UsageError
from rag_serving.cli.options import ConfigPath, Docs, Groups, Tenant, User, config_of, open_pipeline, principal_of
from rag_serving.config.loading import config_path
from rag_serving.plugins import require

Http = Annotated[
    int | None, typer.Option("--http", min=0, max=65535, metavar="PORT", help="Serve over HTTP at this port, at /mcp.")
]
Editor = Annotated[
    bool, typer.Option("--editor", help="Offer the tools that write as well: contexts, and indexing anew with them.")
]


def command(
    http: Http = None,
    docs: Docs = None,
    config: ConfigPath = None,
    tenant: Tenant = None,
    user: User = None,
    group: Groups = None,
    editor: Editor = False,
) -> None:
    """Let agents and chat clients ask over MCP, the Model Context Protocol.

    \b
    citelock mcp                               for a client that starts the command itself
    citelock mcp --user ann --group finance    as somebody who may read more
    citelock mcp --docs ./handbook             over a folder of documents
    citelock mcp --http 8090                   http://127.0.0.1:8090/mcp, for clients that connect

    On standard input and output --user and --group name the caller: the process is your own. Over HTTP it is `citelock
    serve` with serving.mcp: serving.auth authenticates callers, as for the API, and --user, --group and --editor are
    refused. docs/integrations.md has the configuration of Claude Desktop, Cursor and others.
    """
    require("mcp", "citelock mcp")
    config = config_of(docs, config)
    if http is not None:
        if tenant or user or group or editor:
            raise UsageError(
                "with --http callers are told by serving.auth; leave out --tenant, --user, --group, --editor"
            )
        from rag_serving.cli.main import run_server

        run_server(config, port=http, mcp=True)
        return

    from rag_serving.mcp.calls import OneCaller
    from rag_serving.mcp.server import build_server

    with open_pipeline(config, tenant, asks=True) as pipeline:
        principal = principal_of(pipeline, user, group)
        principal = replace(principal, roles=READER | {"editor"}) if editor else principal
        build_server(OneCaller(principal, pipeline), "editor" in principal.roles, config_path(config)).run("stdio")
