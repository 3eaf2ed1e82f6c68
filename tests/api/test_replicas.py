"""Two servers without a folder in common behind a balancer: who asks notices neither which one answers nor its end.

Generations, sessions, receipts, feedback and keys are in one Postgres; both know the installation's secret.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from support.api_client import QUESTION, bearer
from support.balancer import Balancer
from support.index_backends import Backends
from support.postgres import Postgres
from support.server_process import Server
from support.wiki import PASSAGES, Passage, configuration, publish

from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.config.loading import Config

LOGS = "How long does each broker keep logs?"
CALLERS, PAUSE_S = 4, 0.05
CHOSEN_S = 1.0
"""After which a connection that was handed to an address has sent its request."""


@dataclass
class Replicas:
    """Servers with a home of their own each, of one configuration."""

    config: Config
    backends: Backends
    folder: Path
    telemetry: str
    stack: ExitStack
    started: list[Server] = field(default_factory=list)

    def start(self) -> Server:
        """One more server, which is ready."""
        own = self.folder / f"{len(self.started)}"
        own.mkdir()
        settings = {
            "home": str(own / "home"),
            "tenants": {"acme": {}},
            "index": self.config.index.model_dump(mode="json", exclude_none=True),
            "telemetry": {"url": self.telemetry},
            "sessions": {"store_days": 90},
            "serving": {"auth": "tokens"},
            "degradation": {"phase_timeout_s": 60},  # on a busy machine, too
        }
        file = own / "app.yaml"
        file.write_text(json.dumps(settings), encoding="utf-8")
        server = Server(str(file), own, processes=1)
        self.stack.callback(server.kill)
        self.started.append(server)
        return server

    def publish(self, *more: Passage) -> str:
        """Publish the wiki with further pages in the database."""
        generation_id = publish(self.config.home, (*PASSAGES, *more), configuration(self.config.home))
        self.backends.get("postgres").publish(self.config, "acme", generation_id)
        return generation_id


@pytest.fixture
def replicas(tmp_path: Path, backends: Backends, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replicas]:
    if not Path("/proc/self/task").is_dir():
        pytest.skip("needs /proc")
    monkeypatch.setenv(SECRET_ENV, "what all replicas know")
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps({"ann": {"tenant": "acme", "user": "ann"}}))
    home = tmp_path / "builder"
    publish(home)
    config = backends.moved("postgres", configuration(home), "acme")
    with ExitStack() as stack:
        yield Replicas(config, backends, tmp_path, database(backends), stack)


def database(backends: Backends) -> str:
    """An empty database for what servers remember."""
    server = backends.servers["postgres"]
    assert isinstance(server, Postgres)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS remembered WITH (FORCE)")
        connection.execute("CREATE DATABASE remembered")
    return f"postgresql://postgres@127.0.0.1:{server.port}/remembered"


def test_what_one_replica_remembers_the_other_knows(replicas: Replicas) -> None:
    first, second = (httpx.Client(base_url=replicas.start().url, headers=bearer("ann"), timeout=60) for _ in range(2))
    with first, second:
        session = first.post("/v1/sessions").json()["session_id"]
        answer = ask(first, LOGS, session_id=session)
        later = ask(second, "and how are they kept longer?", session_id=session)
        assert later["understood"].startswith("how are they kept longer: ")
        receipt = answer["receipt_id"]
        assert second.get(f"/v1/receipts/{receipt}").status_code == 200
        assert second.post(f"/v1/receipts/{receipt}/verify").json()["valid"]
        feedback = second.post("/v1/feedback", json={"receipt_id": receipt, "verdict": "helpful"})
        assert feedback.is_success, feedback.text
        questions = [turn["question"] for turn in first.get(f"/v1/sessions/{session}").json()["turns"]]
        assert questions == [LOGS, "and how are they kept longer?"]


def test_replicas_come_and_go_and_generations_with_them_and_nobody_asks_in_vain(replicas: Replicas) -> None:
    first, second = replicas.start(), replicas.start()
    failures, generations = list[str](), Counter[str]()
    done = threading.Event()
    with Balancer([first.port, second.port]).running() as balancer:

        def call() -> None:
            while not done.wait(PAUSE_S):
                with httpx.Client(base_url=balancer.url, headers=bearer("ann"), timeout=60) as client:
                    answer = ask(client, QUESTION["question"])
                if answer["status"] != "answered" or not answer["citations"]:
                    failures.append(str(answer))
                generations[answer["generation"]] += 1

        callers = [threading.Thread(target=kept(call, failures)) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
        third = replicas.start()
        balancer.ports = [second.port, third.port]
        time.sleep(CHOSEN_S)  # as an orchestrator waits until balancers know
        first.stop()
        published = replicas.publish(Passage("20", "News", "The dashboard shows the lag of every broker."))
        seen_by(published, second, third)
        balancer.ports = [third.port]
        time.sleep(CHOSEN_S)
        second.stop()
        done.set()
        for caller in callers:
            caller.join()
    assert failures == []
    ended = [server.process.returncode for server in (first, second)]
    assert ended == [-signal.SIGTERM] * 2  # after a clean end, uvicorn passes the signal on
    assert generations[published]
    assert len(generations) == 2


def ask(client: httpx.Client, question: str, **more: Any) -> dict[str, Any]:
    response = client.post("/v1/ask", json={"question": question, **more})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def kept(call: Any, failures: list[str]) -> Any:
    """What calls, and keeps an error as a failure."""

    def run() -> None:
        try:
            call()
        except Exception as error:
            failures.append(repr(error))

    return run


def seen_by(generation_id: str, *servers: Server) -> None:
    """Ask servers until each answers from this generation."""
    for server in servers:
        with httpx.Client(base_url=server.url, headers=bearer("ann"), timeout=60) as client:
            for _ in range(200):
                if ask(client, QUESTION["question"])["generation"] == generation_id:
                    break
            else:
                pytest.fail("a replica never answered from what was published")
