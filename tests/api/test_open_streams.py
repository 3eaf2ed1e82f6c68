"""Many answers streamed at once by two processes: none stalls, who leaves frees what it held, memory stays.

`CITELOCK_OPEN_STREAMS=200` opens as many at once; 12 by default.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.command_line import QUESTION, write_config
from support.server_process import Server, serving
from support.stand_in_chat import MODEL, StandInChat, served
from support.waiting import wait_until
from support.wiki import publish

pytestmark = pytest.mark.load

STREAMS = int(os.environ.get("CITELOCK_OPEN_STREAMS", "12"))
ROUNDS = 3 if STREAMS < 100 else 12
MOST_THREADS = 200
"""Of two processes at rest: what they use for short work stays for a while, however much was streamed."""
LONGEST_S = 120
ANSWER = "You must not restart a broker while partitions are under-replicated. [1]"


class Gate:
    """A model that has begun to answer and goes on when it may; meanwhile it says nothing, but shows that it lives."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    def __call__(self, _: list[dict[str, str]]) -> Iterable[str]:
        while not self.opened.wait(0.2):
            yield ""
        yield ANSWER


@dataclass(frozen=True)
class Held:
    """What the processes of a server hold."""

    rss_mb: float
    threads: int
    files: int

    @classmethod
    def by(cls, server: Server) -> Held:
        rss, threads, files = 0, 0, 0
        for number in server.workers():
            status = dict(
                line.split(":", 1) for line in Path(f"/proc/{number}/status").read_text().splitlines() if ":" in line
            )
            rss += int(status["VmRSS"].split()[0])
            threads += int(status["Threads"])
            files += len(list(Path(f"/proc/{number}/fd").iterdir()))
        return cls(rss / 1024, threads, files)


@dataclass
class Stream:
    """One reader of one answer."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    begun: float

    @classmethod
    async def open(cls, url: str) -> Stream:
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        body = json.dumps({"question": QUESTION, "stream": True})
        head = "POST /v1/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        made = cls(reader, writer, time.monotonic())
        assert b" 200 " in await reader.readline()
        return made

    def leave(self) -> None:
        """Close the connection with what was sent unread."""
        self.writer.transport.abort()

    async def finish(self) -> str:
        """The status of the answer, once all of it came."""
        content = await self.reader.read()
        self.writer.close()
        (answer,) = [line for line in content.decode().splitlines() if line.startswith('data: {"status"')]
        return str(json.loads(answer.removeprefix("data: "))["status"])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streamed")
    publish(folder)
    return folder


@pytest.fixture
def model() -> Iterator[StandInChat]:
    with served(StandInChat(Gate())) as running:
        yield running


async def a_round(server: Server, model: StandInChat) -> float:
    """Open all streams, let every second reader leave, let the model answer the others. Return the longest wait for an
    answer once the model wrote it [s]."""
    gate = model.script
    assert isinstance(gate, Gate)
    gate.opened.clear()
    streams = await asyncio.gather(*(Stream.open(server.url) for _ in range(STREAMS)))
    await _until(lambda: model.open_streams == STREAMS)
    leaving, staying = streams[::2], streams[1::2]
    for stream in leaving:
        stream.leave()
    await _until(lambda: model.open_streams == len(staying))
    gate.opened.set()
    opened = time.monotonic()
    async with asyncio.timeout(LONGEST_S):
        assert set(await asyncio.gather(*(stream.finish() for stream in staying))) == {"answered"}
    waited = time.monotonic() - opened
    await _until(lambda: model.open_streams == 0)
    return waited


async def _until(holds: object) -> None:
    await asyncio.to_thread(wait_until, holds, LONGEST_S)


def test_streams_end_with_their_answer_or_their_reader_and_leave_nothing_behind(
    home: Path, model: StandInChat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generation = f"{{provider: openai, base_url: '{model.url}/v1', model: {MODEL}, timeout_s: 280}}"
    patient = "degradation: {phase_timeout_s: 60}"  # a lower phase asks no model
    config = write_config(tmp_path, home, f"serving: {{streams: {STREAMS}}}\n{patient}\ngeneration: {generation}\n")
    with serving(config, monkeypatch) as server:
        monkeypatch.setattr(model, "handle_error", lambda *_: None)  # of readers that left
        figures: list[Held] = []
        for number in range(2 * ROUNDS):  # the allocator takes what so many threads need once, sooner or later
            waited = asyncio.run(a_round(server, model))  # no slot is left over: as many as there are were taken again
            wait_until(lambda: Held.by(server).threads <= MOST_THREADS)
            figures.append(Held.by(server))
            print(f"round {number}: the last answer came {waited:.1f} s after the model's, {figures[-1]}")
            first, last = figures[len(figures) // 2], figures[-1]
            if number + 1 >= ROUNDS and last.rss_mb <= first.rss_mb * 1.05 + 10:
                break
        assert last.rss_mb <= first.rss_mb * 1.05 + 10
        assert last.files <= first.files + 8
        assert server.ask() == "answered"
        assert "error" not in server.log().lower()
