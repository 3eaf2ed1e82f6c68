"""MCP servers and clients of tests: the official client, in this process or over HTTP.

Belongs here: connecting and calling from ordinary code. Does not belong here: what is asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.mcp.calls import OneCaller
from rag_serving.mcp.server import build_server

Value = TypeVar("Value")
Talk = Callable[[Client], Awaitable[Value]]


def talk(server: Any, work: Talk[Value], **options: Any) -> Value:
    """Return what a conversation with a server comes to."""

    async def connected() -> Value:
        async with Client(server, **options) as client:
            return await work(client)

    return anyio.run(connected)


def server_of(pipeline: Pipeline, principal: Principal, is_editor: bool = False) -> Any:
    """Return the server of a process that this principal started."""
    return build_server(OneCaller(principal, pipeline), is_editor)


def talk_over_http(url: str, headers: dict[str, str], work: Talk[Value], **options: Any) -> Value:
    """Return what a conversation over HTTP comes to."""

    async def connected() -> Value:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http), **options) as client,
        ):
            return await work(client)

    return anyio.run(connected)


def call(server: Any, tool: str, **arguments: Any) -> Any:
    """Return the result of one call."""
    return talk(server, lambda client: client.call_tool(tool, arguments))
