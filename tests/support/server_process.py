"""`citelock serve` as processes of its own, on a port of its own."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from evals.bench.clients import answering
from support.command_line import CITELOCK, QUESTION
from support.waiting import status_of, wait_until


class Server:
    """`citelock serve` with two processes, or one, on a port of its own."""

    def __init__(self, config: str, temporary: Path, processes: int = 2, before: str = "") -> None:
        """`before`: statements that its processes run first, which set constants."""
        self._temporary = temporary
        self._log = temporary / "log"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        command = [
            *CITELOCK[:2],
            before + CITELOCK[2],
            "serve",
            "--config",
            config,
            "--port",
            str(self.port),
            "--workers",
            str(processes),
        ]
        with self._log.open("w") as errors:
            self.process = subprocess.Popen(command, stderr=errors)
        several = processes if processes > 1 else 0
        wait_until(lambda: self.process.poll() is None and len(self.workers()) == several and self.is_ready())

    def workers(self) -> list[int]:
        """Process numbers of those that answer."""
        return answering(self.process.pid)

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

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait(60)


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
            running.kill()
