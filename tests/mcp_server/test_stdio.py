"""The official client over standard input and output, as Claude Desktop and Cursor start the command."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

QUESTION = "May I restart a broker while partitions are under-replicated?"


@pytest.fixture
def command(wiki_home: Path, tmp_path: Path) -> StdioServerParameters:
    config = tmp_path / "app.yaml"
    config.write_text(f"home: {wiki_home}\ntenants: {{acme: {{}}}}\n")
    code = "from rag_serving.cli.main import main; main()"
    arguments = ["-c", code, "mcp", "--config", str(config)]
    return StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))


def test_a_client_searches_fetches_and_asks(command: StdioServerParameters) -> None:
    async def talk() -> None:
        async with Client(stdio_client(command)) as client:
            assert {"search", "fetch", "ask"} <= {tool.name for tool in (await client.list_tools()).tools}
            found = await client.call_tool("search", {"query": "log retention"})
            first = found.structured_content["results"][0]
            assert set(first) == {"id", "title", "url", "text", "passage_id"}
            assert json.loads(found.content[0].text) == found.structured_content
            document = await client.call_tool("fetch", {"id": first["id"]})
            assert "168 hours" in document.structured_content["text"]
            assert set(document.structured_content) == {"id", "title", "text", "url", "metadata"}
            answer = await client.call_tool("ask", {"question": QUESTION})
            assert answer.structured_content["status"] == "answered"
            assert "[1]" in answer.content[0].text

    anyio.run(talk)
