"""Faults of the load tool: proxies on real sockets, figures of what happened, one small fault on a real server.

All faults run where CITELOCK_FAULTS is set.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.command_line import QUESTION, write_config
from support.running import served
from support.stand_in_sidecar import sidecar

from evals.bench.clients import started
from evals.load.asking import Outcome, TimedRequest
from evals.load.faults import FAULTS, Times, _fill, _small_disk, measure, measure_all
from evals.load.installation import BuiltInstallation
from evals.load.services import FaultStage, Mode, SkippedError, TcpProxy, tcp_proxy

pytestmark = pytest.mark.load


class _Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def proxied() -> Iterator[TcpProxy]:
    with served(HTTPServer(("127.0.0.1", 0), _Hello)) as server, tcp_proxy(server.server_address[1]) as proxy:
        yield proxy


CUT = (httpx.NetworkError, httpx.RemoteProtocolError)  # as the reset comes before the request is sent, or after


@pytest.mark.parametrize(("mode", "fault"), [("reset", CUT), ("swallow", (httpx.ReadTimeout,))])
def test_a_proxy_cuts_connections_or_swallows_what_they_carry(mode: Mode, fault: tuple[type[Exception], ...]) -> None:
    with proxied() as proxy, httpx.Client(base_url=f"http://127.0.0.1:{proxy.port}", timeout=0.5) as client:
        proxy.mode = mode
        with pytest.raises(fault):
            client.get("/")
        proxy.mode = ""
        assert client.get("/", timeout=30).text == "hello"


def test_a_proxy_answers_for_a_store_that_fails() -> None:
    with proxied() as proxy:
        proxy.mode = "failing"
        assert httpx.get(f"http://127.0.0.1:{proxy.port}/").status_code == 503


def test_a_cut_meets_connections_that_are_open_already() -> None:
    with proxied() as proxy, socket.create_connection(("127.0.0.1", proxy.port)) as open_connection:
        open_connection.settimeout(30)
        threading.Timer(0.2, setattr, (proxy, "mode", "reset")).start()
        with pytest.raises(ConnectionResetError):
            open_connection.recv(1)


def request(began: float, ended: float, verdict: str = "same", fault: str = "") -> TimedRequest:
    return TimedRequest(began, ended, ("acme", "ask", "q"), fault, {"answer": verdict}, [], verdict)


CALM = [request(at, at + 0.5) for at in range(5)]
RECOVERING = [request(30 + at, 30.5 + at) for at in range(10)]


def test_a_request_under_way_when_the_fault_begins_is_one_of_its_errors() -> None:
    broken = request(9.5, 12, "error", "ReadError")
    late = request(29, 31, "degraded")
    figures = Outcome("cut", [*CALM, broken, late, *RECOVERING], injected=10, healed=30).figures()
    assert [figures[part]["requests"] for part in ("calm", "during", "after")] == [5, 2, 10]
    assert (figures["during"]["errors"], figures["during"]["faults"]) == (1, {"ReadError": 1})
    assert (figures["good"], figures["recovery_s"]) == (True, 9.5)


@pytest.mark.parametrize(
    "requests",
    [
        [*CALM, request(12, 13, "wrong"), *RECOVERING],
        [*CALM, *RECOVERING[:9]],
        [*CALM, *RECOVERING[:5], request(35.2, 35.3, "degraded"), *RECOVERING[5:]],
        [request(1, 2, "error", "HTTP 500"), *RECOVERING],
    ],
    ids=["a wrong answer", "too few answers", "never ten in a row", "an error before"],
)
def test_a_server_that_is_wrong_or_does_not_recover_fails(requests: list[TimedRequest]) -> None:
    assert not Outcome("cut", requests, injected=10, healed=30).is_good


def test_a_fact_that_does_not_hold_fails() -> None:
    requests = [*CALM, *RECOVERING]
    assert Outcome("cut", requests, 10, 30, {"audit_verified": True, "killed": 3}).is_good
    assert not Outcome("cut", requests, 10, 30, {"audit_verified": False}).is_good


def test_a_disk_is_filled_to_the_last_byte(tmp_path: Path) -> None:
    try:
        with _small_disk(tmp_path, 2):
            _fill(tmp_path / "filler")
            assert shutil.disk_usage(tmp_path).free == 0
            with pytest.raises(OSError, match="No space left"):
                (tmp_path / "more").write_bytes(b"x")
    except SkippedError as reason:
        pytest.skip(str(reason))


@pytest.mark.timeout(900)  # a busy machine takes minutes to start a server
def test_a_server_without_its_sidecar_answers_from_the_same_pages_and_recovers(wiki_home: Path, tmp_path: Path) -> None:
    with sidecar() as ranker, tcp_proxy(ranker.port) as proxy:
        section = "{timeout_s: 0.5, url: 'http://127.0.0.1:%d/rerank'}"
        config = Path(write_config(tmp_path, wiki_home))
        config.write_text(config.read_text() + f"\nreranker: {section % proxy.port}\n")
        with started(config, 1) as server:
            asked = BuiltInstallation(config, ("",), {}, (QUESTION, "How long does each broker keep logs?"))
            stage = FaultStage(
                server, asked, lambda: setattr(proxy, "mode", "swallow"), lambda: setattr(proxy, "mode", "")
            )  # fmt: skip
            figures = measure("silent", stage, Times(0.5, 1.5, 60), clients=1).figures()  # too few to open the breaker
    assert figures["good"], figures
    assert figures["during"]["flags"].keys() == {"reranker_unavailable"}


@pytest.mark.skipif("CITELOCK_FAULTS" not in os.environ, reason="takes half an hour: set CITELOCK_FAULTS")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FAULTS)
def test_no_fault_makes_an_answer_wrong(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.getbasetemp() / "faults"
    (figures,) = measure_all([name], Times(), home)
    if "skipped" in figures:
        pytest.skip(figures["skipped"])
    assert figures["good"], figures
