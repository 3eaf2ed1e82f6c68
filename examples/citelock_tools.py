"""Connecting to Citelock's MCP server: the command on this machine, or a server by its address."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

COMMAND = f"{shlex.quote(sys.executable)} -c 'from rag_serving.cli.main import main; main()' mcp"


@asynccontextmanager
async def citelock() -> AsyncIterator[Client]:
    """Yield a client of MCP_URL with MCP_TOKEN, or of MCP_COMMAND, by default `citelock mcp`."""
    url = os.environ.get("MCP_URL")
    if url:
        token = os.environ.get("MCP_TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=180) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            yield client
        return
    command, *arguments = shlex.split(os.environ.get("MCP_COMMAND", COMMAND))
    async with Client(StdioServerParameters(command=command, args=arguments, env=dict(os.environ))) as client:
        yield client
