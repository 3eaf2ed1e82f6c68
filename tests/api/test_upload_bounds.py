"""Uploads on a real socket: wrong lengths, senders that stop, leave or are slow, and memory."""

from __future__ import annotations

import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from support.api_client import bearer
from support.running import running

from rag_serving.api import documents as uploads
from rag_serving.api.app import create_app
from rag_serving.api.server import uvicorn_settings
from rag_serving.config.loading import parse_config

BOUNDARY = b"citelock"
FIRST = b'--citelock\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
LAST = b"\r\n--citelock--\r\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def url(home: Path) -> Iterator[str]:
    holder = {"tenant": "acme", "user": "ann", "roles": ["editor"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CITELOCK_TOKENS", json.dumps({"ann": holder, "bob": {**holder, "roles": ["reader"]}}))
        config = parse_config(
            {
                "home": str(home),
                "tenants": {"acme": {}},
                "sources": {"uploads": {"kind": "files", "tenant": "acme"}},
                "serving": {"auth": "tokens"},
            }
        )
        settings = {**uvicorn_settings(config.serving), "port": 0, "timeout_graceful_shutdown": 10}
        with running(create_app(config), **settings) as address:
            yield address


def head(length: int | None, token: str = "ann") -> bytes:
    told = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = [
        "POST /v1/documents HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {token}",
        "Content-Type: multipart/form-data; boundary=citelock",
        told,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def connected(url: str) -> socket.socket:
    address = urlsplit(url)
    return socket.create_connection((address.hostname, address.port), timeout=30)


def status_of(client: socket.socket) -> int:
    return int(client.recv(100_000).split(b" ", 2)[1])


def spooled(home: Path) -> list[Path]:
    return list((home / "sources/uploads/inbox/incoming").glob("*.part"))


def nothing_spooled(home: Path) -> bool:
    until = time.monotonic() + 10
    while spooled(home) and time.monotonic() < until:
        time.sleep(0.02)
    return not spooled(home)


def test_a_body_that_says_it_is_too_long_is_refused_before_it_is_sent(url: str) -> None:
    with connected(url) as client:
        client.sendall(head(10**12))
        assert status_of(client) == 413


def test_whoever_may_not_is_refused_before_the_body_is_read(url: str) -> None:
    with connected(url) as client:
        client.sendall(head(10_000_000, token="bob"))
        assert status_of(client) == 403
    with connected(url) as client:
        client.sendall(head(10_000_000, token="nobody"))
        assert status_of(client) == 401


def test_a_sender_that_leaves_in_the_middle_leaves_nothing(url: str, home: Path) -> None:
    with connected(url) as client:
        client.sendall(head(10_000_000) + FIRST + b"x" * 3_000_000)
        time.sleep(0.3)
    assert nothing_spooled(home)


def test_a_body_shorter_than_the_form_is_refused(url: str) -> None:
    with connected(url) as client:
        client.sendall(head(len(FIRST) + 5) + FIRST + b"hello" + LAST)
        assert status_of(client) == 400


def test_a_slow_sender_is_not_waited_for(url: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "BODY_S", 0.5)
    with connected(url) as client:
        client.sendall(head(10_000) + FIRST)
        assert status_of(client) == 408
    with connected(url) as client:  # one byte now and then is no better
        client.sendall(head(10_000) + FIRST)
        began = time.monotonic()
        while time.monotonic() - began < 3:
            try:
                client.sendall(b"x")
            except OSError:
                break
            time.sleep(0.1)
        assert time.monotonic() - began < 2.5
    assert nothing_spooled(home)


def test_so_many_are_received_of_one_caller_at_once(url: str) -> None:
    clients = [connected(url) for _ in range(uploads.MOST_OF_CALLER)]
    try:
        for client in clients:
            client.sendall(head(10_000) + FIRST)
        time.sleep(0.3)
        with connected(url) as more:
            more.sendall(head(10_000))
            assert status_of(more) == 429
    finally:
        for client in clients:
            client.close()
    until, status = time.monotonic() + 10, 0
    while status != 202 and time.monotonic() < until:
        sent = {"file": ("a.txt", b"now there is room")}
        status = httpx.post(f"{url}/v1/documents", headers=bearer("ann"), files=sent).status_code
    assert status == 202


def test_a_large_file_is_never_whole_in_memory(url: str, home: Path) -> None:
    ours = [tracemalloc.Filter(True, f"*/{room}/*") for room in ("rag_serving", "uvicorn", "python_multipart")]
    held: list[int] = []

    def chunks() -> Iterator[bytes]:
        yield FIRST
        for number in range(400):
            if number in (200, 390):
                traces = tracemalloc.take_snapshot().filter_traces(ours).traces
                held.append(sum(trace.size for trace in traces))
            yield b"some text." * 10_000
        yield LAST

    tracemalloc.start()
    try:
        headers = {**bearer("ann"), "Content-Type": "multipart/form-data; boundary=citelock"}
        response = httpx.post(f"{url}/v1/documents", headers=headers, content=chunks(), timeout=60)
    finally:
        tracemalloc.stop()
    assert response.status_code == 202, response.text
    assert max(held) < 8_000_000, "of 20 and 39 MB that had been sent"
    assert nothing_spooled(home)


def test_two_that_send_the_same_at_once_make_one_document(url: str) -> None:
    sent = {"file": ("same.txt", b"the same bytes")}
    found: set[str] = set()

    def send() -> None:
        found.add(httpx.post(f"{url}/v1/documents", headers=bearer("ann"), files=sent).json()["document_id"])

    threads = [threading.Thread(target=send) for _ in range(uploads.MOST_OF_CALLER)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1
