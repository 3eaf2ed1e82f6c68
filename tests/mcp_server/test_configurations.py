"""The configurations of `docs/integrations.md` start a server that answers."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from support.command_line import CITELOCK, write_config
from support.mcp_calls import talk

DOCUMENT = Path(__file__).parents[2] / "docs" / "integrations.md"
BLOCKS = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)]
SERVERS = [server for block in BLOCKS for server in block.get("mcpServers", {}).values()]
STARTED = [server for server in SERVERS if "command" in server]


def test_both_ways_are_documented() -> None:
    assert len(STARTED) >= 2
    assert [server["url"] for server in SERVERS if "url" in server]


@pytest.mark.parametrize("server", STARTED)
def test_a_documented_command_answers(server: dict[str, Any], wiki_home: Path, tmp_path: Path) -> None:
    assert server["command"] == "citelock"
    config = write_config(tmp_path, wiki_home)
    written = Path(config).read_text("utf-8").replace("{acme: {}}", "{acme: {}, other: {}}")
    Path(config).write_text(written, "utf-8")  # a second tenant changes nothing
    arguments = [config if argument.endswith("app.yaml") else argument for argument in server["args"]]
    command, *first = CITELOCK
    started = StdioServerParameters(command=command, args=[*first, *arguments], env=dict(os.environ))

    async def work(client: Client) -> set[str]:
        assert not (await client.call_tool("search", {"query": "broker"})).is_error
        return {tool.name for tool in (await client.list_tools()).tools}

    assert {"ask", "search", "fetch"} <= talk(started, work)
