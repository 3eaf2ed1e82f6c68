"""The Dagster UI and the serving API side by side, until Ctrl-C, SIGTERM, or the end of either.

Where the configuration has an upload inbox, or a wiki that tells of changes, a third process waits for them; it is
started again when it ends.

Each half has a process group of its own. At the end the whole group is interrupted, and what is left of it is killed
after a while: neither Dagster's daemon, nor a code server, nor a run outlives this process.

Environment: DAGSTER_PORT (3000) and CITELOCK_SERVING__PORT (8088) are the ports.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from rag_serving.config.loading import ConfigError, load_config
from rag_serving.documents.inbox import inboxes_of
from rag_serving.documents.noted import noted_pages

STOP_SECONDS = 20.0
"""How long the halves may take to end: Dagster waits for its webserver, its daemon and runs in flight."""
RESTART_SECONDS = 5.0
"""The least time between two starts of what is started again."""
HOST = "127.0.0.1"
BIN = Path(sys.executable).parent


class PortError(Exception):
    """A port cannot be used; the message is one line and names the variable that sets another."""


class Half:
    """One of them: its name, its command in a process group of its own, and how that is ended.

    One that `restarts` is started again when it ends.
    """

    def __init__(self, name: str, command: Sequence[str], restarts: bool = False) -> None:
        self.name = name
        self._command = command
        self._restarts = restarts
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, start_new_session=True)
        self._started = time.monotonic()

    def ended(self) -> int | None:
        """Return the exit status once the command has ended, and is not started again."""
        status = self._process.poll()
        if status is None or not self._restarts:
            return status
        if time.monotonic() - self._started >= RESTART_SECONDS:
            print(f"up: {self.name} ended with status {status}, and is started again", file=sys.stderr)
            self._start()
        return None

    def alive(self) -> bool:
        """Return whether any process of the group is left."""
        self._process.poll()  # an ended leader that nobody waited for is still counted
        return self.send(0)

    def send(self, number: int) -> bool:
        """Send a signal to the whole group; False where nothing is left of it."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
            return True
        return False


def dagster_port() -> int:
    """Return the port of the Dagster UI.

    Raises:
        PortError: DAGSTER_PORT is no port.
    """
    port = os.environ.get("DAGSTER_PORT") or "3000"
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise PortError(f"DAGSTER_PORT must be a number from 1 to 65535, not {port!r}")
    return int(port)


def check_free(host: str, port: int, variable: str) -> None:
    """Check that nobody listens on a port.

    Raises:
        PortError: somebody does, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            reason = error.strerror or str(error)
            raise PortError(
                f"port {port} of {host} cannot be used ({reason}); stop the program that has it, or set {variable}"
            ) from None


def watch(halves: Sequence[Half], stopping: Callable[[], bool]) -> int:
    """Wait for a signal, or for the end of either half, and return the exit status."""
    while not stopping():
        for half in halves:
            if (status := half.ended()) is not None:
                print(f"up: {half.name} ended with status {status}; the other half is stopped", file=sys.stderr)
                return status or 1
        time.sleep(0.2)
    return 0


def stop(halves: Sequence[Half], signals: Callable[[], int]) -> None:
    """Interrupt both groups; kill what is left after STOP_SECONDS, or at a further signal."""
    before = signals()
    for half in halves:
        half.send(signal.SIGINT)
    deadline = time.monotonic() + STOP_SECONDS
    while any(half.alive() for half in halves) and time.monotonic() < deadline and signals() == before:
        time.sleep(0.1)
    for half in halves:
        half.send(signal.SIGKILL)


def handle(note: Callable[[int, FrameType | None], None]) -> None:
    """Call `note` at each signal to end, even at those that a shell ignores for its jobs in the background."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # with nohup it is to go on
        signal.signal(signal.SIGHUP, note)


def main() -> int:
    received: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)

    try:
        config, port = load_config(), dagster_port()
        serving = config.serving
        if serving.port == port:
            raise PortError(f"the Dagster UI and the API cannot share port {port}; set DAGSTER_PORT")
        check_free(HOST, port, "DAGSTER_PORT")
        check_free(serving.host, serving.port, "CITELOCK_SERVING__PORT")
    except (ConfigError, PortError) as error:
        print(f"up: {error}", file=sys.stderr)
        return 2
    handle(note)
    # So that the UI's buttons work at once.
    partitions = subprocess.run([sys.executable, "-m", "rag_assets.partitions"], start_new_session=True)
    if partitions.returncode or received:
        return partitions.returncode
    halves = []
    try:
        command = [str(BIN / "dagster"), "dev", "--host", HOST, "--port", str(port), "--workspace", "workspace.yaml"]
        halves.append(Half("the Dagster UI", command))
        halves.append(Half("the API", [str(BIN / "citelock"), "serve"]))
        if any(inboxes_of(config, tenant) for tenant in config.tenants) or noted_pages(config):
            inboxes = [sys.executable, "-m", "rag_assets.build.inboxes"]
            halves.append(Half("the process that waits for uploads", inboxes, restarts=True))
        addresses = f"Dagster http://{HOST}:{port}, API http://{serving.host}:{serving.port}"
        print(f"up: {addresses}; Ctrl-C stops both", file=sys.stderr, flush=True)
        return watch(halves, lambda: bool(received))
    finally:
        stop(halves, lambda: len(received))


if __name__ == "__main__":
    sys.exit(main())
