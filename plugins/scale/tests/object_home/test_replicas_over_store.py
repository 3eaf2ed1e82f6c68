"""Replicas with a cache of their own each over one home in an object store: who asks notices neither a new generation
nor that the store is away; at its start a replica listens before it fetches, and answers from its cache."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.api_client import QUESTION
from support.balancer import Balancer
from support.command_line import CITELOCK
from support.s3_server import BUCKET, CREDENTIALS, FaultyProxy, faulty, s3_server
from support.server_process import Server
from support.waiting import status_of, wait_until
from support.wiki import PASSAGES, Passage, configuration, publish

from citelock_scale.object_home.home import ObjectHome
from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.config.index import ObjectStore

NEWS = Passage("20", "News", "The dashboard shows the lag of every broker.")
MORE_NEWS = Passage("21", "More news", "The dashboard shows the age of every partition.")
STALE = "stale_generation"
QUICK = "from rag_serving.config.index import ObjectStore as S; S.poll_s, S.retry_s, S.timeout_s = 0.2, 1, 10; "


@dataclass
class Shared:
    """A home in a store that replicas reach through a proxy with configurable faults, and builders without it."""

    folder: Path
    endpoint: str
    proxy: FaultyProxy

    def publish(self, *more: Passage) -> str:
        home = ObjectHome(ObjectStore(url=self.url, endpoint=self.endpoint), self.folder / "builder")
        with home.writing("tenants/acme"):
            return publish(home.home, (*PASSAGES, *more), configuration(home.home))

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}/{self.folder.name}"

    def config(self, name: str) -> str:
        """Return the configuration file of a replica of that name."""
        own = self.folder / name
        own.mkdir(exist_ok=True)
        store = {"cache": str(own / "cache"), "endpoint": self.proxy.url}
        settings = {"home": self.url, "object_store": store, "tenants": {"acme": {}}}
        (own / "app.yaml").write_text(json.dumps(settings), encoding="utf-8")
        return str(own / "app.yaml")

    @contextmanager
    def replica(self, name: str, processes: int = 1) -> Iterator[Server]:
        server = Server(self.config(name), self.folder / name, processes, QUICK)
        try:
            yield server
        finally:
            server.kill()

    def cut(self) -> None:
        self.proxy.fault = lambda _method, _path: "cut"

    def heal(self) -> None:
        self.proxy.fault = lambda _method, _path: ""


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def shared(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shared]:
    if not Path("/proc/self/task").is_dir():
        pytest.skip("needs /proc")
    for name, value in {**CREDENTIALS, SECRET_ENV: "what all replicas know"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "builder").mkdir()
    with faulty(s3) as proxy:
        yield Shared(tmp_path, s3, proxy)


def ask(url: str) -> dict[str, Any]:
    response = httpx.post(f"{url}/v1/ask", json=QUESTION, timeout=60)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    assert found["status"] == "answered", found
    return found


def answers_from(url: str, generation_id: str) -> bool:
    answer = ask(url)
    return answer["generation"] == generation_id and STALE not in answer["flags"]


def flags_of(url: str) -> list[str]:
    return list(ask(url)["flags"])


def test_replicas_swap_generations_and_go_on_without_the_store_and_no_request_is_lost(shared: Shared) -> None:
    first = shared.publish()
    failures, generations, done = list[str](), Counter[str](), threading.Event()
    with (
        shared.replica("a") as one,
        shared.replica("b") as other,
        Balancer([one.port, other.port]).running() as balancer,
    ):

        def call() -> None:
            while not done.is_set():
                try:
                    generations[ask(balancer.url)["generation"]] += 1
                except Exception as error:
                    failures.append(repr(error))

        callers = [threading.Thread(target=call) for _ in range(2)]
        for caller in callers:
            caller.start()
        try:
            replicas = (one.url, other.url)
            second = shared.publish(NEWS)
            for url in replicas:
                wait_until(lambda url=url: answers_from(url, second))  # type: ignore[misc]
            shared.cut()
            for url in replicas:
                wait_until(lambda url=url: STALE in flags_of(url))  # type: ignore[misc]
            third = shared.publish(NEWS, MORE_NEWS)
            for url in replicas:
                assert ask(url)["generation"] == second
                assert status_of(f"{url}/readyz") == 200
                status = httpx.get(f"{url}/v1/status", timeout=60).json()
                assert any("cannot be used" in reason for reason in status["degraded"]), status
                up = 'citelock_part_up{part="object_store",tenant="acme"} '
                assert f"{up}0.0" in httpx.get(f"{url}/metrics", timeout=60).text
            shared.heal()
            for url in replicas:
                wait_until(lambda url=url: answers_from(url, third))  # type: ignore[misc]
        finally:
            done.set()
            for caller in callers:
                caller.join()
    assert failures == []
    assert set(generations) >= {first, second}
    assert set(generations) <= {first, second, third}


def test_a_replica_listens_before_it_fetches_and_its_processes_fetch_once(shared: Shared) -> None:
    generation_id = shared.publish()
    let_go = threading.Event()

    def held_up(_method: str, path: str) -> str:
        return "" if let_go.is_set() or "/blobs/" not in path else "slow"

    shared.proxy.fault = held_up
    config, port = shared.config("cold"), _free_port()
    url = f"http://127.0.0.1:{port}"
    command = [*CITELOCK, "serve", "--config", config, "--port", str(port), "--workers", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: process.poll() is None and status_of(f"{url}/healthz") == 200)
            ready = httpx.get(f"{url}/readyz", timeout=20)
            if ready.status_code != 200:  # else it fetched all while this machine was busy
                assert "being fetched" in ready.json()["tenants"]["acme"]
                answer = httpx.post(f"{url}/v1/ask", json=QUESTION, timeout=60)
                assert answer.status_code in (200, 503)
            let_go.set()
            wait_until(lambda: status_of(f"{url}/readyz") == 200)
            wait_until(lambda: answers_from(url, generation_id))
        finally:
            process.terminate()
            process.wait(60)
    blobs = Counter(asked for asked in shared.proxy.asked if "/blobs/" in asked)
    published = max(blobs, key=blobs.__getitem__)  # `published.json` is read before what it names is fetched
    assert {count for name, count in blobs.items() if name != published} == {1}
    assert blobs[published] <= 4
    caches = list((Path(config).parent / "cache").rglob(".fetched*"))
    assert caches == []


def test_a_replica_with_a_full_cache_starts_without_the_store(shared: Shared) -> None:
    first = shared.publish()
    with shared.replica("warm"):
        pass
    second = shared.publish(NEWS)
    shared.cut()
    began = time.monotonic()
    with shared.replica("warm") as server:
        assert time.monotonic() - began < 50, "it does not wait for the retries of a store that is away"
        answer = ask(server.url)
        assert answer["generation"] == first
        assert STALE in answer["flags"]
        assert status_of(f"{server.url}/readyz") == 200
        shared.heal()
        wait_until(lambda: answers_from(server.url, second))


def test_a_replica_that_takes_the_place_of_another_waits_for_what_was_published_since(shared: Shared) -> None:
    shared.publish()
    with shared.replica("older"):
        pass
    second = shared.publish(NEWS)
    with shared.replica("older") as server:
        assert ask(server.url)["generation"] == second


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
