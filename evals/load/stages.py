"""Installations of the sample wiki on which something fails: configuration, server, builds, processes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.bench.clients import CITELOCK, RunningServer
from evals.load.installation import BuiltInstallation, gold_questions, settings
from evals.load.processes import answering
from evals.load.services import answers, wait_for
from rag_serving.artifacts.store import Store, write_json

TENANT, TOKEN = "demo", "load-demo"
FIRST_SOURCE = f"eng_{TENANT}"
"""What is published before; a build of everything adds the other source, and so publishes another generation."""
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
    inject: Callable[[], object]
    heal: Callable[[], object]
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
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        command = [*CITELOCK, "serve", "--config", str(config), "--port", str(port), "--workers", str(workers)]
        with (self.folder / "server.log").open("wb") as log:
            process = subprocess.Popen(command, env=self.variables(), stderr=log)
        try:
            url = f"http://127.0.0.1:{port}/readyz"
            wait_for(lambda: process.poll() is None and answers(url), "no server became ready")
            yield RunningServer(port, process)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()

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
