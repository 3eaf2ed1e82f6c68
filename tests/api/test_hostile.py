"""Hostile connections beside good clients. `CITELOCK_HOSTILE=200` opens as many; 20 by default."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from support.api_client import QUESTION
from support.running import running
from support.wiki import configuration

from rag_serving.api.app import create_app
from rag_serving.api.server import uvicorn_settings

HOSTILE = int(os.environ.get("CITELOCK_HOSTILE", "20"))
HEAD = b"POST /v1/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
SENT = [
    b"",
    b"GET / HTT",
    HEAD,
    HEAD + b"Content-Length: 900\r\n\r\n{",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
]


def opened(url: str, content: bytes) -> socket.socket:
    parts = urlsplit(url)
    made = socket.create_connection((parts.hostname, parts.port), timeout=30)
    made.sendall(content)
    return made


def test_good_clients_are_answered_beside_hostile_connections(wiki_home: Path) -> None:
    config = configuration(wiki_home)
    with running(create_app(config), **{**uvicorn_settings(config.serving), "port": 0}) as url:
        hostile = [opened(url, SENT[number % len(SENT)]) for number in range(HOSTILE)]
        try:
            with httpx.Client(base_url=url, timeout=60) as good:
                statuses = {good.post("/v1/ask", json=QUESTION).status_code for _ in range(8)}
                assert (statuses, good.get("/healthz").status_code) == ({200}, 200)
        finally:
            for each in hostile:
                each.close()
