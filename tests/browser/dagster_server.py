"""The Dagster UI and its daemon for a test, as `make up` starts them, with homes of their own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.waiting import processes_with

ROOT = Path(__file__).parents[2]
START_SECONDS = 120


@contextmanager
def dagster_ui(folder: Path, config: Path) -> Iterator[str]:
    """The address of a UI for this configuration, with the API beside it; all that they write is under `folder`."""
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(dagster_home(folder)),
        "DAGSTER_PORT": str(_free_port()),
        "CITELOCK_SERVING__PORT": str(_free_port()),
        "CITELOCK_HOME": str(folder / "home"),
        "CITELOCK_CONFIG": str(config),
    }
    address = f"http://127.0.0.1:{environment['DAGSTER_PORT']}"
    command = [sys.executable, str(ROOT / "scripts" / "up.py")]
    with (folder / "dagster.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            _wait_until_up(f"{address}/server_info", process, folder / "dagster.log")
            yield address
        finally:
            _stop(process, environment["DAGSTER_HOME"])


def dagster_home(folder: Path) -> Path:
    """Dagster's home below a folder, with the settings of the project's own."""
    home = folder / "dagster_home"
    home.mkdir(exist_ok=True)
    shutil.copy(ROOT / "dagster_home" / "dagster.yaml", home)
    return home


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise RuntimeError(f"the Dagster UI did not start:\n{log.read_text(encoding='utf-8')}")


def _stop(process: subprocess.Popen[bytes], home: str) -> None:
    """Ask once, and kill what is left after a while: nothing may be."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=60)
    left = processes_with(f"DAGSTER_HOME={home}")
    for each in left:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    assert not left
