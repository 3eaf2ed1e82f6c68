"""Tools that write: they come from outside the serving package, by entry points, and only editors see them.

Belongs here: finding them. Does not belong here: what they do (whoever writes indexes).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from mcp.server import MCPServer

from rag_serving.mcp.calls import Calls
from rag_serving.plugins import loaded

ENTRY_POINTS = "citelock.mcp_tools"

_log = logging.getLogger(__name__)


def add_writing_tools(server: MCPServer[Any], calls: Calls, config: Path | None) -> None:
    """Offer the tools of every entry point: each is a function of the server, of what runs its calls, and of the
    configuration file. A machine that only serves has none of the libraries that they need, and offers none."""
    for entry in loaded(ENTRY_POINTS).values():
        try:
            add = entry.load()
        except ModuleNotFoundError as error:
            _log.info("the tools %s are not offered: %s is not installed", entry.name, error.name)
        else:
            add(server, calls, config)
