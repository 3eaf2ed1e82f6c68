"""A server that is told to end does so in time, whatever hangs, and tells whoever waits for an answer."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from support.api_client import QUESTION, events_in
from support.command_line import CITELOCK, write_config
from support.server_process import Server
from support.waiting import status_of, wait_until
from support.wiki import publish

from evals.bench.clients import children_of, templates_of
from rag_serving.api.process import END_S

HANGS = (
    "import time, rag_serving.answering.answerer as a; a.select = lambda *_, **__: time.sleep(600); "
    "from rag_serving.cli.main import main; main()"
)
LATE_S = 20  # what a busy machine adds to a bound


@pytest.fixture
def silent() -> Iterator[str]:
    """A model server that takes every connection and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        yield f"generation: {{provider: openai, base_url: '{url}', model: m, timeout_s: 1000}}"


@contextmanager
def serving(command: list[str], config: str, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server that is ready, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    arguments = [*command, "serve", "--config", config, "--port", str(port), *more]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: process.poll() is None and status_of(f"{url}/readyz") == 200)
            yield process, url
        finally:
            process.kill()


def asked(pool: ThreadPoolExecutor, url: str, **more: object) -> Future[httpx.Response]:
    return pool.submit(httpx.post, f"{url}/v1/ask", json={**QUESTION, **more}, timeout=120)


def ended_within(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def test_answers_that_do_not_come_are_a_503_once_the_server_has_to_end(
    wiki_home: Path, tmp_path: Path, silent: str
) -> None:
    config = write_config(tmp_path, wiki_home, f"serving: {{drain_s: 1, request_timeout_s: 600}}\n{silent}\n")
    with (
        serving(CITELOCK, config, "--workers", "2") as (process, url),
        ThreadPoolExecutor(4) as pool,
        httpx.stream("POST", f"{url}/v1/ask", json={**QUESTION, "stream": True}, timeout=120) as stream,
    ):
        lines = stream.iter_lines()
        assert any("generate" in line for line in lines)
        plain = [asked(pool, url) for _ in range(3)]
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        assert {each.result(60).status_code for each in plain} == {503}
        assert plain[0].result().json()["code"] == "UNAVAILABLE"
        assert int(plain[0].result().headers["retry-after"]) >= 1
        (name, data) = events_in("\n".join(lines) + "\n\n")[-1]
        assert (name, data["code"]) == ("error", "UNAVAILABLE")
        assert ended_within(process, 1 + END_S + LATE_S)


def test_all_processes_may_be_told_at_once(wiki_home: Path, tmp_path: Path, silent: str) -> None:
    """systemd signals each of them: the one that others are forked from outlives them, so that they are waited for."""
    config = write_config(tmp_path, wiki_home, f"serving: {{drain_s: 3, request_timeout_s: 600}}\n{silent}\n")
    with serving(CITELOCK, config, "--workers", "2") as (process, url), ThreadPoolExecutor(1) as pool:
        waiting, (template,) = asked(pool, url), templates_of(process.pid)
        answering = children_of(template)
        time.sleep(1)
        began = time.monotonic()
        for number in (template, process.pid, *answering):
            os.kill(number, signal.SIGTERM)
        os.kill(template, signal.SIGHUP)
        assert waiting.result(60).status_code == 503
        assert time.monotonic() - began > 2
        assert ended_within(process, END_S + LATE_S)
        assert process.returncode == 0
        wait_until(lambda: not any(Path(f"/proc/{number}").exists() for number in (template, *answering)))


def test_a_thread_that_cannot_be_ended_does_not_keep_the_process_and_telemetry_is_kept(tmp_path: Path) -> None:
    home = tmp_path / "home"
    publish(home)
    config = write_config(tmp_path, home, "serving: {drain_s: 1}\n")
    command = [sys.executable, "-c", HANGS]
    with serving(command, config) as (process, url), ThreadPoolExecutor(2) as pool:
        hung = [asked(pool, url), asked(pool, url, stream=True)]
        time.sleep(1)
        assert httpx.post(f"{url}/v1/search", json={"query": "restart"}, timeout=60).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert ended_within(process, 1 + END_S + LATE_S)
        assert hung[0].result(60).status_code == 503
        assert events_in(hung[1].result(60).text)[-1][1]["code"] == "UNAVAILABLE"
    with closing(sqlite3.connect(home / "serving.db")) as connection:
        assert connection.execute("SELECT kind FROM questions").fetchall() == [("search",)]


def test_a_second_interrupt_does_not_wait_for_answers(wiki_home: Path, tmp_path: Path, silent: str) -> None:
    config = write_config(tmp_path, wiki_home, f"serving: {{drain_s: 300, request_timeout_s: 600}}\n{silent}\n")
    with serving(CITELOCK, config) as (process, url), ThreadPoolExecutor(1) as pool:
        waiting = asked(pool, url)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert ended_within(process, END_S + LATE_S)
        assert waiting.result(60).status_code == 503


@pytest.mark.parametrize("processes", [1, 2])
def test_a_server_that_leaves_answers_and_says_that_it_is_not_ready(
    wiki_home: Path, tmp_path: Path, processes: int
) -> None:
    server = Server(write_config(tmp_path, wiki_home, "serving: {leave_s: 300, drain_s: 5}\n"), tmp_path, processes)
    try:
        assert server.ask() == "answered"
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: status_of(f"{server.url}/readyz") == 503)
        for _ in range(4):  # over connections of their own, so by any process
            wait_until(lambda: "ends" in httpx.get(f"{server.url}/readyz", timeout=20).json().get("message", ""))
            assert status_of(f"{server.url}/healthz") == 200
            assert server.ask() == "answered"
        for number in server.workers() or [server.process.pid]:
            os.kill(number, signal.SIGTERM)
        assert ended_within(server.process, 5 + END_S + LATE_S)
    finally:
        server.kill()


def test_a_server_leaves_for_as_long_as_is_configured(wiki_home: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, wiki_home, "serving: {leave_s: 2, drain_s: 5}\n")
    with serving(CITELOCK, config) as (process, _):
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert ended_within(process, 2 + END_S + LATE_S)
        assert time.monotonic() - began >= 2


def test_a_server_ends_while_it_opens_a_generation(tmp_path: Path) -> None:
    home = tmp_path / "home"
    publish(home)
    slow = (
        "import time; from rag_serving.indexes.generation import Generation as G; "
        "G.open = classmethod(lambda *_, **__: time.sleep(600)); from rag_serving.cli.main import main; main()"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-c", slow, "serve", "--config", write_config(tmp_path, home), "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: status_of(f"http://127.0.0.1:{port}/healthz") == 200)
        ready = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=20)
        assert (ready.status_code, json.loads(ready.text)["code"]) == (503, "NOT_READY")
        process.send_signal(signal.SIGTERM)
        assert ended_within(process, END_S + LATE_S)
