"""Attackers of every kind beside good clients. `CITELOCK_HOSTILE=200` lets as many attack; 33 by default."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from support.api_client import QUESTION, bearer
from support.attackers import KINDS, attack
from support.index_backends import Backends
from support.running import running
from support.waiting import wait_until
from support.wiki import configuration

from rag_serving.api.app import create_app
from rag_serving.api.server import uvicorn_settings

HOSTILE = int(os.environ.get("CITELOCK_HOSTILE", "33"))


@contextmanager
def attacked(url: str, count: int) -> Iterator[None]:
    """So many attackers, some of whom have a token."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(attack(urlsplit(url).port or 0, count, "eve"))

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(30)
        loop.close()


@pytest.mark.parametrize("backend", ["disk", "chroma", "chroma_server", "postgres", "qdrant"])
def test_good_clients_are_answered_beside_attackers_who_leave_nothing_behind(
    wiki_home: Path, backends: Backends, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", '{"ann": {"tenant": "acme"}, "eve": {"tenant": "acme"}}')
    config = configuration(wiki_home, serving={"auth": "tokens", "unread_s": 2, "keep_alive_s": 2})
    app = create_app(backends.moved(backend, config, "acme"))
    app.state.service.warm()
    settings = {**uvicorn_settings(config.serving), "port": 0, "timeout_graceful_shutdown": 10}
    assert len(KINDS) >= 11
    with running(app, **settings) as url:
        threads = threading.active_count()
        with attacked(url, HOSTILE), httpx.Client(base_url=url, timeout=60, headers=bearer("ann")) as good:
            for _ in range(8 if HOSTILE >= 200 else 3):
                assert good.post("/v1/ask", json=QUESTION).status_code == 200
                assert "event: answer" in good.post("/v1/ask", json={**QUESTION, "stream": True}).text
                assert {good.get(path).status_code for path in ("/healthz", "/readyz", "/metrics")} == {200}
        wait_until(lambda: not app.state.streams.by_caller and not app.state.running._requests)
        wait_until(lambda: threading.active_count() <= threads + 45)  # those of the pool stay


def test_ten_thousand_connections_that_are_opened_and_dropped_stop_nobody(wiki_home: Path) -> None:
    config = configuration(wiki_home)
    count = 10_000 if HOSTILE >= 200 else 600
    with running(create_app(config), **{**uvicorn_settings(config.serving), "port": 0}) as url:
        address = urlsplit(url)
        held = []
        for _ in range(count):
            held.append(socket.create_connection((address.hostname, address.port), timeout=30))
            if len(held) > 300:
                held.pop(0).close()
        assert httpx.post(f"{url}/v1/ask", json=QUESTION, timeout=60).status_code == 200
        for each in held:
            each.close()
