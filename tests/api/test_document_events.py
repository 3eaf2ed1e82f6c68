"""`GET /v1/events` on a real socket: who is told of what, how it ends, and how many there may be."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from support.api_client import bearer
from support.running import running

from rag_serving.api.app import create_app
from rag_serving.api.server import uvicorn_settings
from rag_serving.config.loading import Config, parse_config
from rag_serving.documents.inbox import inboxes_of

EDITOR = ["reader", "editor"]
TOKENS = {
    "ann": {"tenant": "acme", "user": "ann", "groups": ["hr"], "roles": EDITOR},
    "bob": {"tenant": "acme", "user": "bob", "roles": EDITOR},
}
Event = tuple[str, dict[str, Any]]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
    return parse_config(
        {
            "home": str(tmp_path),
            "tenants": {"acme": {}},
            "sources": {"uploads": {"kind": "files", "tenant": "acme"}},
            "serving": {"auth": "tokens", "streams": 16, "request_timeout_s": 3},
        }
    )


@pytest.fixture
def app(config: Config) -> FastAPI:
    return create_app(config)


@pytest.fixture
def url(app: FastAPI, config: Config) -> Iterator[str]:
    with running(app, **{**uvicorn_settings(config.serving), "port": 0, "timeout_graceful_shutdown": 10}) as address:
        yield address


@contextmanager
def listening(url: str, token: str) -> Iterator[Queue[Event]]:
    """The documents that a caller is told of."""
    told: Queue[Event] = Queue()
    with httpx.stream("GET", f"{url}/v1/events", headers=bearer(token), timeout=20) as response:
        assert response.status_code == 200, response.read()
        lines = response.iter_lines()
        assert next(lines).startswith("retry:")

        def read() -> None:
            name = ""
            try:
                for line in lines:
                    name = line.removeprefix("event: ") if line.startswith("event: ") else name
                    if line.startswith("data: "):
                        told.put((name, json.loads(line.removeprefix("data: "))))
            except httpx.HTTPError:
                return
            told.put(("end", {}))

        threading.Thread(target=read, daemon=True).start()
        yield told


def put(url: str, token: str, content: bytes, readers: str) -> str:
    sent = {"file": ("a.md", content)}
    response = httpx.post(f"{url}/v1/documents", headers=bearer(token), files=sent, data={"readers": readers})
    assert response.status_code == 202, response.text
    return str(response.json()["document_id"])


def test_editors_are_told_of_what_they_may_read_alone(url: str, config: Config) -> None:
    with listening(url, "ann") as to_ann, listening(url, "bob") as to_bob:
        secret = put(url, "ann", b"secret", '["group:hr"]')
        shared = put(url, "ann", b"shared", "everyone")
        told = [to_ann.get(timeout=5), to_ann.get(timeout=5)]
        assert {data["document_id"] for _, data in told} == {secret, shared}
        assert {(name, data["status"]) for name, data in told} == {("document", "received")}
        assert to_bob.get(timeout=5)[1]["document_id"] == shared
        (inbox,) = inboxes_of(config, "acme")
        state = {"version": 1, "stage": "extracting", "page": 2, "of": 5}
        inbox.files.write_states({secret: state, shared: state})
        assert to_bob.get(timeout=5)[1]["progress"] == {"page": 2, "of": 5}
        inbox.files.remove_document(secret)
        inbox.files.remove_document(shared)
        assert to_bob.get(timeout=5)[1]["status"] == "deleted"
        time.sleep(0.8)
        assert secret not in str(to_bob.queue)


def test_whoever_comes_late_is_told_what_is_under_way(url: str) -> None:
    identifier = put(url, "bob", b"text", "everyone")
    with listening(url, "ann") as told:
        assert told.get(timeout=5)[1]["document_id"] == identifier


def test_a_stream_ends_with_its_request_and_gives_its_place_back(url: str, app: FastAPI) -> None:
    with listening(url, "ann") as told, listening(url, "ann"):
        refused = httpx.get(f"{url}/v1/events", headers=bearer("ann"))
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        began = time.monotonic()
        assert told.get(timeout=10) == ("end", {})
        assert time.monotonic() - began < 6
    until = time.monotonic() + 5
    while app.state.event_streams.all and time.monotonic() < until:
        time.sleep(0.05)
    assert app.state.event_streams.all == 0
