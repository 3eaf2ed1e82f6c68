"""The services of compose.yaml as processes of this machine: commands, variables and health checks of the file.

What a container would have differs here alone: addresses, ports and folders are replaced by those of this machine, the
image's variables are read from its Dockerfile, and Postgres and redis are those that the tests start.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from support.celery_processes import BIN, free_port

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "compose"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
_VARIABLE = re.compile(r"\$\{(\w+)(?::[-?]([^}]*))?\}")
_FILES = ("app.yaml", "dagster.yaml", "workspace.yaml")


@dataclass
class Stack:
    """Processes of the services, and the folder that has their configuration and logs."""

    folder: Path
    postgres: int
    redis: int
    exported: Mapping[str, str]
    """What a person exports before `docker compose up`."""
    ports: dict[str, int] = field(default_factory=lambda: {port: free_port() for port in ("8088", "3000", "4000")})
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("home", "etc", "dagster"):
            (self.folder / name).mkdir(parents=True)
        for file in _FILES:
            target = self.folder / ("dagster" if file == "dagster.yaml" else "etc") / file
            target.write_text(self.mapped((FOLDER / file).read_text()), encoding="utf-8")

    def mapped(self, text: str) -> str:
        """Replace the addresses and folders of the containers by those of this machine."""
        text = _VARIABLE.sub(lambda found: self.exported.get(found[1], found[2] or ""), text)
        text = re.sub(r"hostname: postgres\n(\s+)port: 5432", rf"hostname: 127.0.0.1\n\1port: {self.postgres}", text)
        text = text.replace("@postgres/", f"@127.0.0.1:{self.postgres}/").replace("host: code", "host: 127.0.0.1")
        text = text.replace("redis:6379", f"127.0.0.1:{self.redis}").replace("0.0.0.0", "127.0.0.1")
        for port, here in self.ports.items():
            text = re.sub(rf"\b{port}\b", str(here), text)
        folders = {"/var/lib/citelock": "home", "/etc/citelock": "etc", "/opt/dagster": "dagster"}
        for there, name in folders.items():
            text = text.replace(there, str(self.folder / name))
        return text.replace("/srv/sample", str(ROOT / "sample"))

    def environment(self, name: str) -> dict[str, str]:
        """Return the variables of a service: those of its image, then those of the file."""
        image = "serving" if "citelock-serving" in SERVICES[name]["image"] else "assets"
        text = (ROOT / "deploy" / image / "Dockerfile").read_text()
        own = dict(re.findall(r"((?:CITELOCK|DAGSTER)_\w+)=([^\s\\]+)", text))
        own |= {key: str(value) for key, value in SERVICES[name]["environment"].items()}
        here = {key: value for key, value in os.environ.items() if not key.startswith(("CITELOCK_", "DAGSTER_"))}
        path = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        return {**here, **path, **{key: self.mapped(value) for key, value in own.items()}}

    def command(self, name: str) -> list[str]:
        """Return the command of a service, after the entry point of its image."""
        entry = ["citelock"] if "citelock-serving" in SERVICES[name]["image"] else []
        return [*entry, *(self.mapped(str(word)) for word in SERVICES[name]["command"])]

    def start(self, name: str) -> None:
        """Start a service in a group of its own, in the folder of its home."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                self.command(name), stdout=log, stderr=log, env=self.environment(name), start_new_session=True,
                cwd=self.folder / "home",
            )  # fmt: skip

    def call(self, name: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command as `docker compose exec` of a service does."""
        where = self.folder / "home"
        return subprocess.run(
            command, env=self.environment(name), cwd=where, capture_output=True, text=True, timeout=300
        )

    def is_healthy(self, name: str) -> bool:
        """Return whether the health check of a service succeeds; its process must live."""
        assert self.processes[name].poll() is None, f"{name} ended: {self.log(name)}"
        kind, *words = SERVICES[name]["healthcheck"]["test"]
        words = [self.mapped(word).replace("$$(hostname)", socket.gethostname()) for word in words]
        return self.call(name, *(["sh", "-c", *words] if kind == "CMD-SHELL" else words)).returncode == 0

    def wait_for(self, *names: str, seconds: float = 300) -> None:
        """Wait until services are healthy, as `depends_on` with `service_healthy` does."""
        until = time.monotonic() + seconds
        for name in names:
            while not self.is_healthy(name):
                assert time.monotonic() < until, f"{name} is not healthy: {self.log(name)}"
                time.sleep(1)

    def log(self, name: str) -> str:
        """Return the last lines that a service wrote."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def stop(self, name: str) -> int:
        """End a service by the signal that Docker sends, and return its status."""
        process = self.processes[name]
        process.send_signal(signal.Signals[SERVICES[name].get("stop_signal", "SIGTERM")])
        return process.wait(120)

    def close(self) -> None:
        """Kill what still runs."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
