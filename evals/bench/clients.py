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
from typing import Any

import httpx
import numpy as np

from rag_serving.artifacts.store import write_json
from rag_serving.config.loading import Config

_START_S = 240
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
        return sum(map(_resident_mb, _with_children(self.process.pid)))


@contextmanager
def started(file: Path, workers: int) -> Iterator[RunningServer]:
    """Yield a server with this configuration that is ready."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [*CITELOCK, "serve", "--config", str(file), "--port", str(port), "--workers", str(workers)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            _wait(f"http://127.0.0.1:{port}/readyz", process)
            yield RunningServer(port, process)
        finally:
            process.terminate()


def _with_children(process: int) -> Iterator[int]:
    yield process
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        yield from _with_children(int(child))


def _resident_mb(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")), 0.0)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    """Until the server is ready.

    Raises:
        RuntimeError: it ended, or took too long.
    """
    deadline = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            if httpx.get(url).is_success:
                return
        time.sleep(0.1)
    raise RuntimeError(f"citelock serve did not become ready at {url}")


def _ask(port: int, asked: Sequence[str], k: int, clients: int) -> None:
    """Ask everything, by so many clients with a connection each. http.client: clients share the cores they measure."""
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
