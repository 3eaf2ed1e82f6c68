"""A server of several processes: one set of figures, none that stays behind, none that is missed for long."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from support.command_line import CITELOCK, QUESTION, run, write_config
from support.waiting import status_of, wait_until
from support.wiki import PASSAGES, publish

from rag_serving.concurrency import cores, search_limit

# Limits on searches


@pytest.mark.parametrize(("workers", "turns"), [(1, cores()), (cores(), 1), (64, 1)])
def test_cores_are_shared_among_processes(workers: int, turns: int) -> None:
    mine = search_limit(in_process=True, workers=workers)
    assert mine is search_limit(in_process=True, workers=workers)
    with ExitStack() as stack:
        for _ in range(turns):
            stack.enter_context(mine)
        assert mine._free.empty()  # type: ignore[attr-defined]


# The server


class Server:
    """`citelock serve` with two processes, or one, on a port of its own."""

    def __init__(self, config: str, temporary: Path, processes: int = 2) -> None:
        self._temporary = temporary
        self._log = temporary / "log"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        command = [*CITELOCK, "serve", "--config", config, "--port", str(self.port), "--workers", str(processes)]
        with self._log.open("w") as errors:
            self.process = subprocess.Popen(command, stderr=errors)
        several = processes if processes > 1 else 0
        wait_until(lambda: self.process.poll() is None and len(self.workers()) == several and self.is_ready())

    def workers(self) -> list[int]:
        """Process numbers of those that answer."""
        found = []
        for child in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            command = Path(f"/proc/{child}/cmdline").read_bytes()
            found += [int(child)] * (b"spawn_main" in command)
        return found

    def folders(self) -> list[Path]:
        """What its processes count in."""
        return list(self._temporary.glob("citelock-*"))

    def is_ready(self) -> bool:
        return status_of(f"{self.url}/readyz") == 200

    def ask(self) -> str:
        """The status of an answer, over a connection of its own."""
        answer = httpx.post(f"{self.url}/v1/ask", json={"question": QUESTION}, timeout=60, verify=False)
        return str(answer.json()["status"])

    def asked(self) -> float:
        """Questions that were answered, as the metrics tell."""
        series = 'citelock_questions_total{kind="ask",outcome="told",status="answered",tenant="acme"} '
        lines = httpx.get(f"{self.url}/metrics", timeout=60, verify=False).text.splitlines()
        return sum(float(line.removeprefix(series)) for line in lines if line.startswith(series))

    def ranked_by(self) -> str:
        """Who ranks the passages of a search, over a connection of its own; nothing where its process just ended."""
        try:
            found = httpx.post(f"{self.url}/v1/search", json={"query": QUESTION}, timeout=60, verify=False)
        except httpx.TransportError:
            return ""
        return str(found.json()["reranker"])

    def log(self) -> str:
        """What it wrote so far."""
        return self._log.read_text()

    def stop(self) -> str:
        """End it as a service manager does; what it wrote."""
        self.process.terminate()
        self.process.wait(60)
        return self.log()


@contextmanager
def serving(config: str, monkeypatch: pytest.MonkeyPatch, processes: int = 2) -> Iterator[Server]:
    if not Path("/proc/self/task").is_dir():
        pytest.skip("needs /proc")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        running = Server(config, Path(folder), processes)
        try:
            yield running
        finally:
            running.process.kill()
            running.process.wait(60)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of this file alone: what is published there changes."""
    folder = tmp_path_factory.mktemp("served")
    publish(folder)
    return folder


@pytest.fixture(scope="module")
def server(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of two processes that several tests ask; it stays as it is."""
    config = write_config(tmp_path_factory.mktemp("configured"), home)
    with pytest.MonkeyPatch.context() as monkeypatch, serving(config, monkeypatch) as running:
        yield running


def test_whichever_process_is_asked_tells_what_all_counted(server: Server) -> None:
    before = server.asked()
    for number in range(1, 9):
        assert server.ask() == "answered"
        assert {server.asked() - before for _ in range(4)} == {number}
    (folder,) = server.folders()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_process_that_is_killed_is_replaced(server: Server) -> None:
    assert server.ask() == "answered"
    before, workers = server.asked(), server.workers()
    os.kill(workers[0], signal.SIGKILL)
    wait_until(lambda: len(server.workers()) == 2 and workers[0] not in server.workers())
    assert [server.ask() for _ in range(4)] == ["answered"] * 4
    assert {server.asked() - before for _ in range(4)} == {4}  # of those before, the killed process answered some
    (line,) = [line for line in server.log().splitlines() if f"process {workers[0]} " in line]
    assert line.startswith(f"citelock: process {workers[0]} was killed by SIGKILL (by hand, or because ")
    assert line.endswith("takes its place")


def test_no_process_shows_a_page_any_more_once_its_restriction_is_published(server: Server, home: Path) -> None:
    assert {server.ask() for _ in range(6)} == {"answered"}
    publish(home, [replace(one, readers="group:hr") if one.page_id == "11" else one for one in PASSAGES])
    assert {server.ask() for _ in range(12)} == {"not_found"}
    publish(home)
    assert {server.ask() for _ in range(12)} == {"answered"}


@pytest.mark.parametrize("processes", [1, 2])
def test_a_hangup_reads_the_configuration_again_and_the_server_goes_on_until_it_is_ended(
    wiki_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    sidecar = "reranker: {url: 'http://127.0.0.1:9/rerank'}\n"
    with serving(write_config(tmp_path, wiki_home), monkeypatch, processes) as running:
        assert running.log().count("\n") == 1  # the address
        workers = running.workers()
        assert running.ranked_by() == "none"
        write_config(tmp_path, wiki_home, "retrieval: {dense_k: 0}\n")
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "the configuration is not used: " in running.log())
        assert running.workers() == workers
        write_config(tmp_path, wiki_home, sidecar)
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: {running.ranked_by() for _ in range(4)} == {"heuristic"})
        wait_until(lambda: not set(workers) & set(running.workers()))
        assert running.process.poll() is None
        assert "Traceback" not in running.stop()
        assert running.folders() == []


def test_when_the_server_is_killed_its_processes_end_and_free_its_port(
    wiki_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(write_config(tmp_path, wiki_home), monkeypatch) as server:
        workers = server.workers()
        server.process.kill()
        wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
        with socket.create_server(("127.0.0.1", server.port)):
            pass
        assert server.folders() == []


def test_what_cannot_be_served_is_told_once_before_any_process_starts(wiki_home: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, wiki_home, "serving: {auth: tokens, tokens_env: NO_SUCH}\n")
    code, _, told = run("serve", "--config", config, "--workers", "2")
    assert code == 2
    assert told.splitlines()[-1].startswith("citelock: serving.auth 'tokens' needs NO_SUCH: a JSON object of token: ")


def test_a_port_in_use_is_told(wiki_home: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [*CITELOCK, "serve", "--config", write_config(tmp_path, wiki_home), "--workers", "2", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "Address already in use" in done.stderr.splitlines()[-1]
