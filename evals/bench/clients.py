"""Questions a second of `citelock serve` over HTTP: one client, then many."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from threading import local
from typing import IO, Any

import httpx
import numpy as np

from rag_serving.artifacts.store import write_json
from rag_serving.config.loading import Config

_START_S = 600
CITELOCK = (sys.executable, "-c", "from rag_serving.cli.main import main; main()")
_IS_JSON = {"Content-Type": "application/json"}


def over_http(config: Config, asked: Sequence[str], k: int, workers: int) -> Rates:
    """Queries a second of a server of so many processes, telemetry included."""
    with serving(config, workers) as port:
        _ask(port, asked, k, workers * 2)  # each process opens its model
        return rates(lambda clients: _ask(port, asked, k, clients), len(asked))


@contextmanager
def serving(config: Config, workers: int, **sections: Mapping[str, Any]) -> Iterator[int]:
    """Yield the port of a server that is ready; `sections` are added to its configuration."""
    file = Path(config.home) / "app.yaml"
    content = {"home": str(config.home), "tenants": {name: {} for name in config.tenants}}
    content |= {"embedding": {"query_cache": config.embedding.query_cache}, **sections}
    write_json(file, content)  # JSON is YAML
    with started(file, workers) as server:
        yield server.port


@dataclass(frozen=True)
class RunningServer:
    """A running `citelock serve`."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def resident_mb(self) -> float:
        """Return the resident megabytes of all its processes (Linux)."""
        return sum(map(memory_mb, with_children(self.process.pid)))


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def started(
    file: Path, workers: int, environment: Mapping[str, str] | None = None, log: IO[bytes] | int = subprocess.DEVNULL
) -> Iterator[RunningServer]:
    """Yield a server with this configuration that is ready.

    Raises:
        RuntimeError: it ended, or took too long.
    """
    port = free_port()
    command = [*CITELOCK, "serve", "--config", str(file), "--port", str(port), "--workers", str(workers)]
    process = subprocess.Popen(command, env=environment, stderr=log)
    try:
        server, deadline = RunningServer(port, process), time.monotonic() + _START_S
        while not _is_ready(server.url):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"citelock serve did not become ready at {server.url}")
            time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_ready(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz", timeout=30).is_success
    return False


def children_of(process: int) -> list[int]:
    """Return the numbers of the processes that a process started; none if it has ended."""
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def with_children(process: int) -> Iterator[int]:
    """Yield the numbers of a process and of all that it started, and they."""
    yield process
    for child in children_of(process):
        yield from with_children(child)


def templates_of(server: int) -> list[int]:
    """Return the number of the process that those which answer are forked from, if there is one."""
    found = []
    for child in children_of(server):
        with suppress(OSError):
            found += [child] if b"forkserver" in Path(f"/proc/{child}/cmdline").read_bytes() else []
    return found


def answering(server: int) -> list[int]:
    """Return the numbers of the processes that answer, of a server of several: they are forked from one of its own."""
    return [process for template in templates_of(server) for process in children_of(template)]


def memory_mb(process: int | str, part: str = "VmRSS") -> float:
    """Return megabytes of a process (`self`: this one): resident, or another line of its status; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{part}:")), 0.0)


def _ask(port: int, asked: Sequence[str], k: int, clients: int) -> None:
    mine = local()

    def search(query: str) -> None:
        if not hasattr(mine, "connection"):
            mine.connection = HTTPConnection("127.0.0.1", port, timeout=60)
        mine.connection.request("POST", "/v1/search", json.dumps({"query": query, "k": k}), _IS_JSON)
        answer = mine.connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"HTTP {answer.status}: {answer.read()[:200]!r}")
        answer.read()

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(search, asked))


CLIENTS, ROUNDS = 8, 5

Rates = dict[str, float]


def rates(ask: Callable[[int], object], count: int) -> Rates:
    """Return queries a second if `ask` runs `count` queries by so many clients: medians, and the median of the ratios.

    One client and `CLIENTS` take turns, because a shared machine changes its pace.
    """

    def rate(clients: int) -> float:
        started = time.perf_counter()
        ask(clients)
        return count / (time.perf_counter() - started)

    pairs = np.array([(rate(1), rate(CLIENTS)) for _ in range(ROUNDS)])
    one, many = np.median(pairs, axis=0)
    ratio = float(np.median(pairs[:, 1] / pairs[:, 0]))
    return {"1_client": round(float(one), 1), f"{CLIENTS}_clients": round(float(many), 1), "ratio": round(ratio, 2)}
