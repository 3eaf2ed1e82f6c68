"""Probes and metrics are answered while every thread that answers questions waits; so are refusals."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from support.api_client import QUESTION, bearer
from support.running import running
from support.waiting import status_of, wait_until
from support.wiki import configuration

from rag_serving.api import app as api
from rag_serving.api import status as readiness
from rag_serving.api.app import create_app

POOL = 40  # threads of anyio's pool


class Stuck:
    """Answers that look at no deadline and do not end before they are told to."""

    def __init__(self) -> None:
        self.begun, self._end = threading.Semaphore(0), threading.Event()

    def __call__(self, *_: object, **__: object) -> None:
        self.begun.release()
        self._end.wait(60)
        raise ValueError

    @contextmanager
    def asked(self, url: str, count: int, headers: dict[str, str]) -> Iterator[None]:
        """So many questions that are not answered."""

        def ask() -> None:
            with suppress(httpx.TransportError):
                httpx.post(f"{url}/v1/ask", json=QUESTION, headers=headers, timeout=60)

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        try:
            assert all(self.begun.acquire(timeout=30) for _ in range(min(count, POOL)))
            yield
        finally:
            self._end.set()
            for thread in threads:
                thread.join(30)


def test_probes_metrics_and_refusals_need_none_of_the_threads_that_answer(
    wiki_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = Stuck()
    monkeypatch.setattr("rag_serving.answering.answerer.select", stuck)
    monkeypatch.setenv("CITELOCK_TOKENS", '{"all": {"tenant": "acme"}}')
    config = configuration(wiki_home, serving={"auth": "tokens"})
    with (
        running(create_app(config)) as url,
        httpx.Client(base_url=url, timeout=10) as client,
        stuck.asked(url, POOL + 4, bearer("all")),
    ):
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/readyz").json() == {"ready": True}
        assert client.get("/metrics", headers=bearer("all")).status_code == 200
        assert client.get("/nowhere").status_code == 404
        assert client.get("/metrics", headers=bearer("all"), params={"tenant": "x"}).status_code == 403


def test_a_tenant_whose_disk_hangs_makes_no_other_one_unready(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "READY_S", 0.5)
    monkeypatch.setattr(readiness, "OPEN_WAIT_S", 0.0)
    app = create_app(configuration(wiki_home, tenants={"acme": {}, "slow": {}}))
    end = threading.Event()
    slow = app.state.service.pipelines["slow"]
    monkeypatch.setattr(slow, "problem", lambda: end.wait(60) and None)
    with running(app) as url:
        before = threading.active_count()
        wait_until(lambda: status_of(f"{url}/readyz") == 200)
        found = [httpx.get(f"{url}/readyz", timeout=20) for _ in range(4)]
        assert {response.status_code for response in found} == {200}
        assert found[-1].json()["tenants"]["acme"] == "ok"
        assert "being opened" in found[-1].json()["tenants"]["slow"]
        assert threading.active_count() - before <= 2, "each probe leaves a thread behind"
        end.set()
