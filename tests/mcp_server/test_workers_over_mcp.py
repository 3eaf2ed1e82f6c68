"""A server of two processes: requests stand for themselves, and either process answers any of them."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp import Client
from support.api_client import QUESTION
from support.command_line import CITELOCK, write_config
from support.mcp_calls import talk
from support.waiting import status_of, wait_until


@pytest.fixture(scope="module")
def address(wiki_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("served")
    config = write_config(folder, wiki_home, "serving: {workers: 2}\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*CITELOCK, "mcp", "--http", str(port), "--config", config], stderr=log)
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: process.poll() is None and status_of(f"{url}/readyz") == 200)
    yield url
    process.send_signal(signal.SIGINT)
    process.wait(30)
    assert "Traceback" not in (folder / "log").read_text()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_any_process_answers_any_request(address: str, mode: str) -> None:
    async def work(client: Client) -> list[str]:
        statuses: list[str] = []

        async def ask() -> None:
            receipt = (await client.call_tool("ask", QUESTION)).structured_content["receipt_id"]
            proof = await client.call_tool("verify_receipt", {"receipt_id": receipt})
            statuses.append(str(proof.structured_content["valid"]))

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(ask)
        return statuses

    assert talk(f"{address}/mcp", work, mode=mode) == ["True"] * 8
