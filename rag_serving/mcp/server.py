"""The MCP server: which tools there are, and what clients are told of each.

Belongs here: putting the tools together. Does not belong here: what they do (`mcp.reading`, `mcp.asking`), transports
(`mcp.stdio`, `api.mcp`).
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

from mcp.server import MCPServer
from mcp.server.apps import Apps
from mcp.server.caching import CacheableMethod, CacheHint
from mcp_types import ToolAnnotations

from rag_serving.mcp import card
from rag_serving.mcp import descriptions as words
from rag_serving.mcp.asking import AskingTools
from rag_serving.mcp.callers import Callers
from rag_serving.mcp.calls import Calls
from rag_serving.mcp.card import add_card
from rag_serving.mcp.pages import add_pages
from rag_serving.mcp.prompts import add_prompts
from rag_serving.mcp.reading import ReadingTools
from rag_serving.mcp.writing import add_writing_tools

NAME = "citelock"
_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, destructive_hint=False, open_world_hint=False)
# An answer leaves a receipt, and a model may word it differently the next time.
_ANSWERS = ToolAnnotations(read_only_hint=True, idempotent_hint=False, destructive_hint=False, open_world_hint=False)
# Lists name nothing of a page. What is read of pages is read anew: a restriction holds from the next request on.
_KEPT, _UNKEPT = CacheHint(ttl_ms=60_000, scope="private"), CacheHint(ttl_ms=0, scope="private")


def build_server(callers: Callers, is_editor: bool = False, config: Path | None = None) -> MCPServer[Any]:
    """Return the server for whoever calls; the tools that write are there for editors alone.

    `config`: the file that a build reads; None: the usual one.
    """
    calls, apps = Calls(callers), Apps()
    reading, asking = ReadingTools(calls), AskingTools(calls)
    add_card(apps)
    apps.tool(
        resource_uri=card.URI, name="ask", title="Ask with citations", description=words.ASK, annotations=_ANSWERS
    )(asking.ask)
    server: MCPServer[Any] = MCPServer(
        NAME,
        title="Citelock",
        instructions=words.INSTRUCTIONS,
        version=version("citelock"),
        log_level="WARNING",
        subscriptions=False,
        extensions=[apps],
        cache_hints={method: _KEPT if "list" in method else _UNKEPT for method in get_args(CacheableMethod)},
    )
    for function, title, description in (
        (reading.search, "Search pages", words.SEARCH),
        (reading.fetch, "Read a page", words.FETCH),
        (reading.get_passage, "Read a passage", words.GET_PASSAGE),
        (reading.search_book, "Search passages", words.SEARCH_BOOK),
        (reading.list_sources, "List spaces and labels", words.LIST_SOURCES),
        (asking.verify_receipt, "Prove an answer", words.VERIFY_RECEIPT),
    ):
        server.add_tool(function, None, title, description, _READS)
    name = "search_with_contextual_retrieval"
    server.add_tool(reading.search_with_context, name, "Search passages in context", words.SEARCH_WITH_CONTEXT, _READS)
    add_pages(server, calls)
    add_prompts(server)
    if is_editor:
        add_writing_tools(server, calls, config)
    return server
