"""Celery workers over a redis of their own, and Dagster runs on them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

BIN = Path(sys.executable).parent
APP = "citelock_scale.executors.celery_app"
_UP_S = 60.0


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def redis_server(folder: Path) -> Iterator[int]:
    """Yield the port of a redis that forgets everything at its end.

    Raises:
        FileNotFoundError: Debian's redis-server is not installed.
    """
    program = shutil.which("redis-server")
    if program is None:
        raise FileNotFoundError("redis-server is not installed (Debian's package of this name)")
    port = free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(port, process)
            yield port
        finally:
            process.terminate()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _UP_S
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("redis-server did not start")


@dataclass
class Cluster:
    """A folder for Dagster, its environment, and the Celery workers that were started."""

    folder: Path
    config: Path
    redis: int
    storage: Mapping[str, object] = field(default_factory=dict)
    """The sections of dagster.yaml that name the storage; none: SQLite in the folder."""
    variables: Mapping[str, str] = field(default_factory=dict)
    configs: Mapping[str, Path] = field(default_factory=dict)
    """Configurations of workers that have one of their own, as on other machines."""
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    runs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        instance = {"telemetry": {"enabled": False}, "nux": {"enabled": False}, **self.storage}
        (self.folder / "dagster.yaml").write_text(yaml.safe_dump(instance), encoding="utf-8")

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "CELERY_BROKER_URL": f"redis://127.0.0.1:{self.redis}/0",
            "CELERY_RESULT_BACKEND": f"redis://127.0.0.1:{self.redis}/1",
            "CITELOCK_CONFIG": str(self.config),
            "DAGSTER_HOME": str(self.folder),
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        return {**os.environ, **own, **self.variables}

    def start_worker(self, name: str, *options: str) -> None:
        """Start a worker of one process, in a group of its own; a worker of this name takes the place of a dead one."""
        node = ["--hostname", f"{name}@citelock", "--concurrency", "1", "--loglevel", "INFO", *options]
        command = [sys.executable, "-m", "celery", "--app", APP, "worker", "--queues", "dagster", *node]
        environment = {**self.environment, "CITELOCK_CONFIG": str(self.configs.get(name, self.config))}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.workers[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def kill_worker(self, name: str) -> None:
        """Kill a worker's own process, as the system does for want of memory: its children end by themselves."""
        self.workers[name].send_signal(signal.SIGKILL)
        self.workers[name].wait()

    def has_step(self, name: str) -> bool:
        """Return whether a worker has begun a step that it has not ended: Dagster logs that from its process."""
        log = (self.folder / f"{name}.log").read_bytes()
        is_under_way = log.count(b" received") > log.count(b" succeeded in ")
        return is_under_way and b"STEP_START" in log.rpartition(b" received")[2]

    def wait_for_workers(self) -> None:
        """Wait until each worker says that it is ready."""
        until = time.monotonic() + _UP_S
        waiting = set(self.workers)
        while waiting:
            waiting = {name for name in waiting if b" ready." not in (self.folder / f"{name}.log").read_bytes()}
            if time.monotonic() > until:
                raise RuntimeError(f"workers did not start: {', '.join(sorted(waiting))}")
            time.sleep(0.1)

    def run(self, job: str, partition: str) -> subprocess.Popen[bytes]:
        """Start a run of a job for a partition in a process of its own, with the executor of the configuration."""
        tags = json.dumps({"dagster/partition": partition})
        command = ["dagster", "job", "execute", "-m", "rag_assets.definitions", "-j", job, "--tags", tags]
        with (self.folder / f"{job}-{partition}.log").open("ab") as log:
            command[0] = str(BIN / command[0])
            run = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment, start_new_session=True)
        self.runs.append(run)
        return run

    def call(self, command: Sequence[str]) -> None:
        """Run a command in the cluster's environment.

        Raises:
            CalledProcessError: it failed.
        """
        subprocess.run(command, env=self.environment, check=True, stdout=subprocess.DEVNULL)

    def close(self) -> None:
        """End the workers, and the runs that a test has given up with the processes of their steps."""
        for run in self.runs:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
                run.wait()
        for process in self.workers.values():
            process.kill()
            process.wait()


class Killer(threading.Thread):
    """Kills a worker that has a step, and starts another one in its place, some times in turns of some seconds."""

    def __init__(self, cluster: Cluster, times: int, pause_s: float) -> None:
        super().__init__(name="killer", daemon=True)
        self._cluster, self._times, self._pause_s = cluster, times, pause_s
        self._ended = threading.Event()
        self.killed = 0

    def __enter__(self) -> Killer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        while self.killed < self._times and not self._ended.wait(0.05):
            busy = [name for name in self._cluster.workers if self._cluster.has_step(name)]
            if not busy:
                continue
            self._cluster.kill_worker(busy[0])
            log = self._cluster.folder / f"{busy[0]}.log"
            log.rename(log.with_suffix(f".killed-{self.killed}"))
            self._cluster.start_worker(busy[0])
            self.killed += 1
            self._ended.wait(self._pause_s)
