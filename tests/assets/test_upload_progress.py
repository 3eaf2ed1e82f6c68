"""How far an upload is, as editors are told while it is built, and who is told nothing of it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from sources.pdf_writer import pdf
from support.api_client import bearer
from support.building import build
from support.envelopes import Wiki
from support.running import running
from support.waiting import wait_until

from rag_assets.sources import open_source
from rag_serving.api.app import create_app
from rag_serving.api.server import uvicorn_settings
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import load_config
from rag_serving.documents.inbox import Upload, inboxes_of

EDITOR = ["reader", "editor"]
TOKENS = {
    "ann": {"tenant": "demo", "user": "ann", "groups": ["hr"], "roles": EDITOR},
    "bob": {"tenant": "demo", "user": "bob", "roles": EDITOR},
}
STAGES = ["received", "extracting", "chunking", "embedding", "published"]
PAGES = 1500
"""So many take more than a second to read; states are written four times in one."""


@pytest.fixture
def wiki(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wiki:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
    wiki = Wiki(tmp_path)
    wiki.configure(sources={"uploads": {"kind": "files", "tenant": "demo"}}, serving={"auth": "tokens"})
    return wiki


@pytest.fixture
def url(wiki: Wiki) -> Iterator[str]:
    config = load_config(wiki.config_path)
    with running(
        create_app(config), **{**uvicorn_settings(config.serving), "port": 0, "timeout_graceful_shutdown": 1}
    ) as address:
        yield address


@contextmanager
def heard(url: str, token: str, last: str) -> Iterator[list[dict[str, Any]]]:
    """The documents that a caller is told of while the block runs, and until he is told that the `last` is published:
    the name of a document."""
    told: list[dict[str, Any]] = []
    is_told = threading.Event()
    with httpx.Client(timeout=30) as client, client.stream("GET", f"{url}/v1/events", headers=bearer(token)) as stream:
        lines = stream.iter_lines()
        next(lines)

        def read() -> None:
            with suppress(httpx.HTTPError):
                for line in lines:
                    if line.startswith("data: "):
                        told.append(json.loads(line.removeprefix("data: ")))
                        if (told[-1]["name"], told[-1]["status"]) == (last, "published"):
                            is_told.set()

        threading.Thread(target=read, daemon=True).start()
        yield told
        assert is_told.wait(10)


def put(url: str, token: str, name: str, content: bytes, readers: str) -> str:
    response = httpx.post(
        f"{url}/v1/documents", headers=bearer(token), files={"file": (name, content)}, data={"readers": readers}
    )
    assert response.status_code == 202, response.text
    return str(response.json()["document_id"])


def test_an_upload_is_told_of_stage_by_stage_to_whom_it_is_for_alone(wiki: Wiki, url: str) -> None:
    with heard(url, "ann", last="Note.md") as to_ann, heard(url, "bob", last="Note.md") as to_bob:
        secret = put(url, "ann", "Plan.md", b"# Plan\n\nThe kettle is replaced in May.\n", '["group:hr"]')
        shared = put(url, "bob", "Note.md", b"# Note\n\nThe kettle is in the kitchen.\n", "everyone")
        wait_until(lambda: {event["document_id"] for event in to_ann} == {secret, shared})
        build(wiki)
    of_secret = [event for event in to_ann if event["document_id"] == secret]
    stages = [stage for stage, _ in groupby(event["status"] for event in of_secret)]
    figures = [event["progress"] for event in of_secret if event["status"] == "embedding" and event["progress"]]
    assert [figure["embedded"] for figure in figures] == sorted(figure["embedded"] for figure in figures)
    assert all(0 < figure["embedded"] <= figure["of"] for figure in figures)
    assert (stages[0], stages[-1]) == ("received", "published")
    assert len(stages) > 2  # between two looks at the files a document may go through several
    assert [STAGES.index(stage) for stage in stages] == sorted({STAGES.index(stage) for stage in stages})
    assert {event["document_id"] for event in to_bob} == {shared}
    assert secret not in str(to_bob)
    shown = httpx.get(f"{url}/v1/documents/{secret}", headers=bearer("ann")).json()
    assert (shown["status"], shown["page_id"]) == ("published", secret)
    assert httpx.get(f"{url}/v1/documents/{secret}", headers=bearer("bob")).status_code == 404


def test_a_long_document_is_told_of_page_by_page_while_it_is_read(wiki: Wiki) -> None:
    config = load_config(wiki.config_path)
    (inbox,) = inboxes_of(config, "demo")
    spool = inbox.files.spool()
    lines = (" ".join(f"part {page**power} of {power}" for power in range(1, 30)) for page in range(1, PAGES + 1))
    spool.write(pdf(*lines))
    document = inbox.receive(None, Upload(spool, "Manual.pdf", "everyone"), 10).document
    told: list[tuple[int, int]] = []
    is_read = threading.Event()

    def look() -> None:
        while not is_read.is_set():
            state = inbox.entries()[document.document_id].state
            if state and state.page is not None and state.of is not None and (state.page, state.of) not in told:
                told.append((state.page, state.of))
            time.sleep(0.05)

    looking = threading.Thread(target=look)
    looking.start()
    source = open_source("uploads", config.sources["uploads"], Store(wiki.home).source("uploads"))
    source.sync(None, {})
    is_read.set()
    looking.join()
    assert len(told) > 1
    assert {pages for _, pages in told} == {PAGES}
    assert all(0 < before < after <= PAGES for (before, _), (after, _) in pairwise(told))
    entry = inbox.entries()[document.document_id]
    assert (entry.status, entry.payload()["progress"]) == ("chunking", None)
