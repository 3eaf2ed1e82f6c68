"""Streams have a bound, hold their place no longer than they last, and nobody keeps one by not reading it."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from support.api_client import QUESTION, bearer
from support.constants import section_of
from support.running import running
from support.waiting import wait_until
from support.wiki import configuration

from rag_serving.api.app import create_app
from rag_serving.api.process import ReadInTime, end_unacknowledged
from rag_serving.api.server import uvicorn_settings
from rag_serving.config.serving import Serving
from rag_serving.deadline import check

STREAM = {**QUESTION, "stream": True}
OURS = {"http": "h11"}


class Waiting:
    """A stage that goes on until its reader leaves, or, where it is deaf, until it is told to end."""

    def __init__(self, deaf: bool = False) -> None:
        self.begun, self.end, self._deaf = threading.Semaphore(0), threading.Event(), deaf

    def __call__(self, *_: object, **__: object) -> None:
        self.begun.release()
        while not self.end.wait(0.02):
            if not self._deaf:
                check()
        raise ValueError


@pytest.fixture
def app(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    tokens = {name: {"tenant": "acme", "user": name} for name in ("ann", "bob", "eve")}
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(tokens))
    serving = {"auth": "tokens", "streams": 3, "streams_share": 2}
    made = create_app(configuration(wiki_home, serving=serving))
    made.state.service.warm()
    return made


def opened(url: str, content: bytes, receive_buffer: int = 0) -> socket.socket:
    parts = urlsplit(url)
    made = socket.socket()
    if receive_buffer:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    made.settimeout(30)
    made.connect((parts.hostname, parts.port))
    made.sendall(content)
    return made


def streaming(url: str, token: str) -> socket.socket:
    """A connection on which an answer is being streamed."""
    body = json.dumps(STREAM)
    head = f"POST /v1/ask HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    return opened(url, f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())


def reset(client: socket.socket) -> None:
    """Close with RST, as a process that is killed with data unread."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def ask(url: str, token: str, path: str = "/v1/ask", **body: Any) -> httpx.Response:
    return httpx.post(f"{url}{path}", json=body or STREAM, headers=bearer(token), timeout=60)


def test_streams_are_limited_by_caller_and_in_all_and_end_with_their_reader(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting()
    monkeypatch.setattr("rag_serving.answering.answerer.select", waiting)
    with running(app) as url:
        first = [streaming(url, "ann"), streaming(url, "ann")]
        assert all(waiting.begun.acquire(timeout=30) for _ in first)
        refused = ask(url, "ann")
        assert (refused.status_code, refused.json()["code"]) == (429, "RATE_LIMIT")
        assert int(refused.headers["Retry-After"]) >= 1
        other = streaming(url, "bob")
        assert waiting.begun.acquire(timeout=30)
        full = ask(url, "eve", "/v1/chat/completions", messages=[{"role": "user", "content": "x"}], stream=True)
        assert (full.status_code, full.headers["Retry-After"]) == (503, "5")
        assert full.json()["error"]["code"] == "unavailable"
        assert ask(url, "eve", "/v1/search", query="restart").status_code == 200
        reset(first[0])
        other.close()
        wait_until(lambda: app.state.streams.all == 1)
        waiting.end.set()
        assert ask(url, "ann").status_code == 200
        first[1].close()
        wait_until(lambda: not app.state.streams.by_caller)


def test_a_stream_whose_work_hangs_keeps_its_place_though_its_reader_left(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else who opens and leaves would have as many threads as he likes."""
    waiting = Waiting(deaf=True)
    monkeypatch.setattr("rag_serving.answering.answerer.select", waiting)
    with running(app) as url:
        for _ in range(2):
            client = streaming(url, "ann")
            assert waiting.begun.acquire(timeout=30)
            reset(client)
        assert ask(url, "ann").status_code == 429
        waiting.end.set()
        wait_until(lambda: not app.state.streams.by_caller)
        assert ask(url, "ann").status_code == 200


class Endless:
    """An app whose answers are longer than any buffer."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.app = FastAPI()
        self.app.add_middleware(ReadInTime, unread_s=0.8)
        self.app.get("/stream")(self.stream)
        self.app.get("/whole")(self.whole)

    async def stream(self) -> Response:
        ended = self.ended

        class Told(StreamingResponse):
            async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
                try:
                    await super().__call__(scope, receive, send)
                finally:
                    ended.set()

        return Told(self._parts())

    async def whole(self) -> Response:
        return Response(b"x" * 30_000_000)

    async def _parts(self) -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 100_000
            await asyncio.sleep(0)  # a client that left is noticed between two parts


def received(client: socket.socket) -> int:
    """How much still comes, until the connection ends."""
    count = 0
    with suppress(ConnectionResetError):
        while part := client.recv(1_000_000):
            count += len(part)
    client.close()
    return count


@pytest.fixture
def endless() -> Iterator[tuple[Endless, str]]:
    made = Endless()
    with running(made.app, **OURS) as url:
        yield made, url


def test_what_nobody_reads_is_dropped_and_frees_what_it_holds(
    endless: tuple[Endless, str], caplog: pytest.LogCaptureFixture
) -> None:
    made, url = endless
    unread = opened(url, b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n", 4096)
    assert made.ended.wait(30)
    assert received(unread) < 30_000_000
    assert not caplog.records, "strangers could fill the log"


@pytest.mark.skipif(sys.platform != "linux", reason="an option of Linux")
def test_the_kernel_ends_a_connection_whose_client_acknowledges_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        end_unacknowledged([listening], 1.5)
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 1500
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), "a body waits for no acknowledgement"


def test_who_reads_a_byte_a_second_is_dropped(endless: tuple[Endless, str]) -> None:
    made, url = endless
    slow = opened(url, b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n", 4096)
    while not made.ended.wait(0.3):
        with suppress(ConnectionResetError):
            slow.recv(1)
    slow.close()


def test_an_answer_that_was_sent_whole_and_is_not_read_is_dropped_too(endless: tuple[Endless, str]) -> None:
    _, url = endless
    unread = opened(url, b"GET /whole HTTP/1.1\r\nHost: x\r\n\r\n", 4096)
    reader = opened(url, b"GET /whole HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert received(reader) > 30_000_000
    time.sleep(2)
    assert received(unread) < 30_000_000


def test_an_idle_connection_is_closed_and_the_settings_say_when() -> None:
    settings = uvicorn_settings(section_of(Serving, keep_alive_s=1, drain_s=3, port=0))
    assert (settings["timeout_keep_alive"], settings["timeout_graceful_shutdown"]) == (1, 4)
    with running(Endless().app, **{**settings, "timeout_graceful_shutdown": 10}) as url:
        idle = opened(url, b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
        assert received(idle) > 0


def test_requests_are_not_read_before_the_answers_to_those_before(endless: tuple[Endless, str]) -> None:
    _, url = endless
    greedy, requests, sent = opened(url, b""), b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n" * 1000, 0
    greedy.settimeout(5)  # until nothing is taken any more
    with suppress(OSError):
        while sent < 100_000_000:
            sent += greedy.send(requests)
    greedy.close()
    assert sent < 30_000_000
