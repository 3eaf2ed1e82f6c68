"""MCP over standard input and output, for a client that starts the process itself.

Belongs here: serving one caller until its client leaves. Does not belong here: tools (`mcp.server`), HTTP (`api.mcp`).
"""

from __future__ import annotations

from pathlib import Path

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.mcp.callers import OneCaller
from rag_serving.mcp.server import build_server


def serve(pipeline: Pipeline, principal: Principal, config: Path) -> None:
    """Answer one client until it closes standard input. `config`: the file that a build reads."""
    build_server(OneCaller(principal, pipeline), "editor" in principal.roles, config).run("stdio")
