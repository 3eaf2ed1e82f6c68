"""An MCP server's tools, called from ordinary code: the only module that knows the package `mcp`.

Belongs here: starting or reaching a server, calling its tools, and what can go wrong on the way.
Does not belong here: what the tools of a Confluence server answer (`answers`).
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from rag_assets.sources.base import SourceError
from rag_serving.config.sources import ConfluenceMcp as Settings
from rag_serving.escaping.redaction import RedactedError


class ToolError(RedactedError):
    """The server answered this one call with an error; the message is the server's."""


class McpTools:
    """The tools of a connected server."""

    def __init__(self, portal: Any, client: Any, tools: Mapping[str, frozenset[str]], timeout_s: float) -> None:
        self._portal = portal
        self._client = client
        self._tools = tools  # name -> names of arguments
        self._timeout_s = timeout_s

    @property
    def names(self) -> Collection[str]:
        """What the server offers."""
        return self._tools.keys()

    def call(self, name: str, **arguments: Any) -> Any:
        """Return a tool's answer: parsed where it is JSON, else its text. Arguments that the tool does not have are
        left out.

        Raises:
            ToolError: the server says that this call failed.
            SourceError: the server is gone, or does not answer in time.
        """
        taken = {key: value for key, value in arguments.items() if key in self._tools[name]}
        try:
            result = self._portal.call(self._client.call_tool, name, taken, self._timeout_s)
        except Exception as error:
            raise SourceError(f"the MCP server failed at {name}: {_reason(error)}; nothing was changed") from None
        text = "".join(getattr(part, "text", "") or "" for part in result.content)
        if result.is_error:
            raise ToolError(" ".join(text.split())[:300] or f"{name} failed without saying why")
        return _parsed(text)


@contextmanager
def open_tools(settings: Settings) -> Iterator[McpTools]:
    """Yield the tools of the server that the settings name, for as long as the block runs.

    Raises:
        SourceError: `mcp` is not installed, or the server cannot be started or reached.
    """
    try:
        from anyio.from_thread import start_blocking_portal
        from mcp import Client
    except ImportError:
        raise SourceError("kind confluence_mcp needs the package mcp; install citelock[mcp]") from None
    with start_blocking_portal() as portal:
        try:
            client = Client(_server(settings), read_timeout_seconds=settings.timeout_s)
            connection = portal.wrap_async_context_manager(client)
            connection.__enter__()
        except SourceError:
            raise
        except Exception as error:
            raise SourceError(f"the MCP server {_where(settings)} cannot be reached: {_reason(error)}") from None
        try:
            yield McpTools(portal, client, _offered(portal, client), settings.timeout_s)
        finally:
            _close(connection)


def _close(connection: Any) -> None:
    """End the session; a server that is gone already has nothing to say to that."""
    try:
        connection.__exit__(None, None, None)
    except Exception:
        return


def _server(settings: Settings) -> Any:
    """Return what `mcp.Client` connects to."""
    if settings.command:
        from mcp import StdioServerParameters

        command, *args = settings.command
        return StdioServerParameters(command=command, args=args, env={name: _secret(name) for name in settings.env})
    headers = {"Authorization": f"Bearer {_secret(settings.token_env)}"} if settings.token_env else {}
    return _http_streams(str(settings.url), headers, settings.timeout_s)


@asynccontextmanager
async def _http_streams(url: str, headers: Mapping[str, str], timeout_s: float) -> AsyncIterator[Any]:
    """Streams over HTTP; redirects to another host are not followed, so the token stays with its server."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=timeout_s) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


def _offered(portal: Any, client: Any) -> dict[str, frozenset[str]]:
    tools: dict[str, frozenset[str]] = {}
    cursor = None
    while True:
        try:
            answer = portal.call(lambda: client.list_tools(cursor=cursor))  # noqa: B023
        except Exception as error:
            raise SourceError(f"the MCP server does not list its tools: {_reason(error)}") from None
        tools |= {tool.name: frozenset((tool.input_schema or {}).get("properties", {})) for tool in answer.tools}
        if not answer.next_cursor or answer.next_cursor == cursor:
            return tools
        cursor = answer.next_cursor


def _parsed(text: str) -> Any:
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _secret(name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise SourceError(f"environment variable {name} is not set; the MCP server needs it")
    return value


def _where(settings: Settings) -> str:
    return " ".join(settings.command) if settings.command else str(settings.url)


def _reason(error: BaseException) -> str:
    """Return the first cause in one line; what runs in task groups fails in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join((str(error) or type(error).__name__).split())[:300]
