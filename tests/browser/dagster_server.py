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

ROOT = Path(__file__).parents[2]
START_SECONDS = 120


@contextmanager
def dagster_ui(folder: Path, config: Path) -> Iterator[str]:
    """The address of a running UI for this configuration; everything it writes is under `folder`."""
    home = folder / "dagster_home"
    home.mkdir()
    shutil.copy(ROOT / "dagster_home" / "dagster.yaml", home)
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "CITELOCK_HOME": str(folder / "home"),
        "CITELOCK_CONFIG": str(config),
    }
    subprocess.run([sys.executable, "-m", "rag_assets.partitions"], cwd=ROOT, env=environment, check=True, timeout=60)
    port = _free_port()
    command = [sys.executable, "-m", "dagster", "dev", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "dagster.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*command, "--workspace", "workspace.yaml"],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            _wait_until_up(f"http://127.0.0.1:{port}/server_info", process, folder / "dagster.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            _stop(process)


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


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask once; then end the whole group, runs and daemons with it."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=15)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
