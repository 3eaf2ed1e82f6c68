"""A server of several processes: one set of figures, none that stays behind, none that is missed for long."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from support.command_line import CITELOCK, run, write_config
from support.server_process import Server, serving
from support.waiting import wait_until
from support.wiki import PASSAGES, publish

from rag_serving.deadline import cores, search_limit

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


def test_a_process_that_gets_no_time_for_a_while_is_not_replaced(server: Server) -> None:
    """uvicorn alone kills what does not react for 5 s; on a machine with too much to do, that is every process."""
    workers = server.workers()
    os.kill(workers[0], signal.SIGSTOP)
    time.sleep(6.5)
    os.kill(workers[0], signal.SIGCONT)
    wait_until(lambda: server.ask() == "answered")
    assert server.workers() == workers


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


def test_when_the_server_is_killed_its_processes_end_and_free_its_port(server: Server) -> None:
    """The last test that asks this server."""
    workers = server.workers()
    assert len(workers) == 2
    server.process.kill()
    wait_until(lambda: not any(is_running(worker) for worker in workers))
    with socket.create_server(("127.0.0.1", server.port)):
        pass
    assert server.folders() == []


def is_running(number: int) -> bool:
    """Return whether a process has not ended; one that nobody has waited for yet has."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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
        wait_until(lambda: "the configuration that was changed is not used: " in running.log())
        assert running.workers() == workers
        write_config(tmp_path, wiki_home, sidecar)  # is followed without a signal
        wait_until(lambda: {running.ranked_by() for _ in range(4)} == {"heuristic"})
        wait_until(lambda: not set(workers) & set(running.workers()))
        workers = running.workers()
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: running.log().count(" was read again") == 2)
        wait_until(lambda: not set(workers) & set(running.workers()))
        assert running.process.poll() is None
        assert "Traceback" not in running.stop()
        assert running.folders() == []


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
