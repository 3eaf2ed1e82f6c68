"""Hostile connections beside good clients. `CITELOCK_HOSTILE=200` opens as many; 20 by default."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from support.api_client import QUESTION
from support.running import running
from support.wiki import configuration

from rag_serving.api import connections
from rag_serving.api.app import create_app
from rag_serving.api.connections import Connection

HOSTILE = int(os.environ.get("CITELOCK_HOSTILE", "20"))
HEAD = b"POST /v1/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
SENT = [
    b"",
    b"GET / HTT",
    HEAD,
    HEAD + b"Content-Length: 900\r\n\r\n{",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
]


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of `running` use our connections."""
    monkeypatch.setitem(uvicorn.config.HTTP_PROTOCOLS, "auto", "rag_serving.api.connections:Connection")


def opened(url: str, content: bytes) -> socket.socket:
    parts = urlsplit(url)
    made = socket.create_connection((parts.hostname, parts.port), timeout=30)
    made.sendall(content)
    return made


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(4096) == b""
    except ConnectionResetError:
        return True


@pytest.mark.usefixtures("guarded")
def test_good_clients_are_answered_beside_hostile_connections(wiki_home: Path) -> None:
    with running(create_app(configuration(wiki_home))) as url:
        hostile = [opened(url, SENT[number % len(SENT)]) for number in range(HOSTILE)]
        try:
            with httpx.Client(base_url=url, timeout=60) as good:
                statuses = {good.post("/v1/ask", json=QUESTION).status_code for _ in range(8)}
                assert (statuses, good.get("/healthz").status_code) == ({200}, 200)
        finally:
            for each in hostile:
                each.close()


@pytest.mark.usefixtures("guarded")
def test_headers_that_do_not_come_close_the_connection(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADERS_S", 0.3)
    with running(create_app(configuration(wiki_home))) as url:
        slow = [opened(url, content) for content in SENT[:3]]
        closed = [is_closed(each) for each in slow]
        for each in slow:
            each.close()
        assert closed == [True] * 3
        with httpx.Client(base_url=url, timeout=60) as good:
            assert good.post("/v1/ask", json=QUESTION).status_code == 200


@pytest.mark.usefixtures("guarded")
def test_the_connection_that_was_idle_longest_makes_room(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    with running(create_app(configuration(wiki_home))) as url:
        idle = []
        for _ in range(3):
            idle.append(opened(url, b""))
            time.sleep(0.02)
        with httpx.Client(base_url=url, timeout=60) as good:
            assert good.get("/healthz").status_code == 200
        assert is_closed(idle[0])
        for each in idle:
            each.close()


def test_the_server_uses_these_connections() -> None:
    from rag_serving.api.server import _CONNECTION

    assert uvicorn.importer.import_from_string(_CONNECTION) is Connection
