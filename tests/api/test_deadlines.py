"""A request ends at its deadline, or when its client leaves, and so does its work; nobody else notices."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from support.api_client import QUESTION, events_in
from support.running import running
from support.wiki import configuration

from rag_serving.api.app import create_app
from rag_serving.config.loading import Config
from rag_serving.deadline import Deadline, StoppedError, check, within
from rag_serving.tracing import StageTrace

SELECTION = {"question": "How do I restart it?", "mode": "selected_text", "context": "Restart it in the evening. " * 50}


def hurried(home: Path, seconds: float = 1) -> Config:
    config = configuration(home)
    return config.model_copy(update={"serving": config.serving.model_copy(update={"request_timeout_s": seconds})})


def opened(config: Config) -> FastAPI:
    """The API with model and generation open: a deadline of a second is for the work alone."""
    app = create_app(config)
    app.state.service.warm()
    return app


class Work:
    """A stage that goes on until it is stopped."""

    def __init__(self) -> None:
        self.begun, self.stopped = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, *_: object, **__: object) -> None:
        self.begun.release()
        until = time.monotonic() + 60
        try:
            while time.monotonic() < until:
                check()
                time.sleep(0.01)
        except StoppedError:
            self.stopped.release()
            raise


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    made = Work()
    monkeypatch.setattr("rag_serving.answering.answerer.select", made)
    return made


@pytest.mark.parametrize("body", [QUESTION, SELECTION])
def test_what_takes_too_long_is_a_504_and_its_work_ends(wiki_home: Path, work: Work, body: dict[str, str]) -> None:
    with running(opened(hurried(wiki_home))) as url:
        response = httpx.post(f"{url}/v1/ask", json=body, timeout=60)
    assert (response.status_code, response.json()["code"]) == (504, "TIMEOUT")
    assert response.json()["error"] is True
    assert response.headers["retry-after"]
    assert work.stopped.acquire(timeout=20)


def test_a_stream_that_takes_too_long_ends_with_an_error(wiki_home: Path, work: Work) -> None:
    with running(opened(hurried(wiki_home))) as url:
        text = httpx.post(f"{url}/v1/ask", json={**QUESTION, "stream": True}, timeout=60).text
        chat = {"model": "citelock", "messages": [{"role": "user", "content": QUESTION["question"]}]}
        told = httpx.post(f"{url}/v1/chat/completions", json=chat, timeout=60)
    assert (events_in(text)[-1][0], events_in(text)[-1][1]["code"]) == ("error", "TIMEOUT")
    assert (told.status_code, told.json()["error"]["code"]) == (504, "timeout")
    assert work.stopped.acquire(timeout=20)


@pytest.mark.parametrize("stream", [False, True])
def test_work_for_clients_that_left_ends_and_health_is_answered_meanwhile(
    wiki_home: Path, work: Work, stream: bool
) -> None:
    with running(opened(hurried(wiki_home, 60))) as url:
        clients = [httpx.Client(base_url=url) for _ in range(8)]

        def ask(client: httpx.Client) -> None:
            with pytest.raises(httpx.TimeoutException):
                client.post("/v1/ask", json={**SELECTION, "stream": stream}, timeout=httpx.Timeout(60, read=1.5))
            client.close()

        threads = [threading.Thread(target=ask, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        assert all(work.begun.acquire(timeout=20) for _ in threads)
        assert httpx.get(f"{url}/healthz", timeout=20).status_code == 200
        for thread in threads:
            thread.join(20)
        assert all(work.stopped.acquire(timeout=20) for _ in threads)


def test_a_model_that_says_nothing_is_left_when_its_reader_leaves() -> None:
    """The request to the model is given up, too: its server need not go on writing for nobody."""
    from rag_serving.models.chat.client import run_in_own_loop

    ended = threading.Event()

    async def silent() -> None:
        import asyncio

        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    def late() -> None:
        raise AssertionError

    deadline = Deadline(60)
    threading.Timer(0.3, deadline.cancel).start()
    with within(deadline), pytest.raises(StoppedError):
        run_in_own_loop(silent(), 60, late, "test")
    assert ended.wait(20)


def test_no_stage_that_may_fail_takes_the_end_for_its_own_failure() -> None:
    attempt = StageTrace()
    with within(Deadline(0)), pytest.raises(StoppedError), attempt.part("rerank", "flag"):
        raise AssertionError("it is not begun")
    with within(Deadline(60)) as _, attempt.part("rerank", "flag"):
        raise ValueError
    assert attempt.flags == ["flag"]
    check()
