"""Calls end with their caller, and report how far they are."""

from __future__ import annotations

import threading
import time
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from support.mcp_calls import talk

from rag_serving import deadline
from rag_serving.access.principals import Principal
from rag_serving.deadline import Deadline, StoppedError
from rag_serving.mcp.calls import TOO_LATE, Caller, Calls
from rag_serving.tracing import Listen


class Slow:
    """A tool that works until its time is over, on a server of its own."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began, self.stopped = threading.Event(), threading.Event()
        self.slots: list[str] = []
        self.server: Any = MCPServer("slow", log_level="ERROR")
        calls = Calls(self._caller)

        async def slow(context: Context) -> str:
            return await calls.answer(context, self._work)

        self.server.add_tool(slow)

    def _caller(self, request: Any) -> Caller:  # noqa: ARG002
        return Caller(Principal("acme"), None, Deadline(self.seconds), self._take)  # type: ignore[arg-type]

    def _take(self) -> Any:
        self.slots.append("taken")
        return lambda: self.slots.append("ended")

    def _work(self, caller: Caller, listen: Listen) -> str:
        assert caller.principal.tenant == "acme"
        listen("search", "")
        self.began.set()
        try:
            while True:
                deadline.check()
                time.sleep(0.005)
        except StoppedError:
            self.stopped.set()
            raise


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_cancelled_call_ends_its_work_and_gives_its_slot_back(mode: str) -> None:
    tool = Slow(60)

    async def work(client: Client) -> None:
        with anyio.move_on_after(10) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "slow")
                await anyio.to_thread.run_sync(tool.began.wait)
                group.cancel_scope.cancel()
        assert not scope.cancelled_caught
        assert await anyio.to_thread.run_sync(tool.stopped.wait, 10)
        with anyio.fail_after(10):
            while tool.slots != ["taken", "ended", "ended"]:
                await anyio.sleep(0.01)

    talk(tool.server, work, mode=mode)


def test_a_call_takes_no_longer_than_answers_may() -> None:
    tool = Slow(0.2)

    async def work(client: Client) -> Any:
        return await client.call_tool("slow")

    told = talk(tool.server, work)
    assert told.is_error
    assert TOO_LATE in told.content[0].text


def test_stages_are_told_in_order() -> None:
    told: list[tuple[float, str]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
        told.append((progress, str(message)))

    server: Any = MCPServer("quick", log_level="ERROR")
    calls = Calls(lambda _: Caller(Principal("acme"), None, Deadline(60)))  # type: ignore[arg-type]

    def steps(caller: Caller, listen: Listen) -> str:  # noqa: ARG001
        listen("search", "")
        for number in range(50):
            listen("generate", f"{number}")  # faster than anybody reads
        listen("verify", "")
        time.sleep(0.3)
        return "done"

    async def quick(context: Context) -> str:
        return await calls.answer(context, steps)

    server.add_tool(quick)

    async def work(client: Client) -> None:
        assert (await client.call_tool("quick", progress_callback=note)).structured_content == {"result": "done"}

    talk(server, work)
    assert [progress for progress, _ in told] == sorted({progress for progress, _ in told})
    assert [message for _, message in told] == ["search", "verify"]


def test_slots_come_back_whenever_a_call_is_cancelled() -> None:
    tool = Slow(60)

    async def work(client: Client) -> None:
        for pause in (0, 0, 0.001, 0.002, 0.005, 0.01) * 10:
            with anyio.move_on_after(pause):
                await client.call_tool("slow")
        with anyio.fail_after(20):
            while tool.slots.count("ended") < 2 * tool.slots.count("taken"):
                await anyio.sleep(0.01)
        assert tool.slots.count("ended") == 2 * tool.slots.count("taken") > 0

    talk(tool.server, work)
