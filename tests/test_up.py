"""`make up`: two halves that end together, and leave nothing behind."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import ModuleType

import pytest
from support.waiting import processes_with

ROOT = Path(__file__).parents[1]
UP = ROOT / "scripts" / "up.py"
DEAF = (
    "import signal, time; [signal.signal(s, signal.SIG_IGN) for s in (2, 15)]; print('up', flush=True); time.sleep(99)"
)


@pytest.fixture
def up() -> ModuleType:
    spec = importlib.util.spec_from_file_location("up", UP)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Homes of their own for Dagster and the artifacts, and two free ports."""
    home = tmp_path / "dagster_home"
    home.mkdir()
    shutil.copy(ROOT / "dagster_home" / "dagster.yaml", home)
    ports = {"DAGSTER_PORT": str(free_port()), "CITELOCK_SERVING__PORT": str(free_port())}
    return {**os.environ, **ports, "DAGSTER_HOME": str(home), "CITELOCK_HOME": str(tmp_path / "home")}


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        yield taken


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        return int(taken.getsockname()[1])


def processes_of(environment: dict[str, str]) -> set[int]:
    """The live processes that have this test's Dagster home."""
    return processes_with(f"DAGSTER_HOME={environment['DAGSTER_HOME']}")


def wait_for(condition: object, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    assert callable(condition)
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def answers(port: str, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("variable", ["DAGSTER_PORT", "CITELOCK_SERVING__PORT"])
def test_a_port_that_is_taken_is_told_in_one_line_before_anything_starts(
    environment: dict[str, str], listener: socket.socket, variable: str
) -> None:
    port = listener.getsockname()[1]
    result = subprocess.run(
        [sys.executable, UP],
        cwd=ROOT,
        env={**environment, variable: str(port)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 2
    assert result.stderr == (
        f"up: port {port} of 127.0.0.1 cannot be used (Address already in use); stop the program that has it, or set "
        f"{variable}\n"
    )
    assert not (Path(environment["DAGSTER_HOME"]) / "storage").exists()
    assert not processes_of(environment)


@pytest.mark.parametrize("port", ["0", "-1", "65536", "http", "3000 "])
def test_a_port_that_is_none_is_refused(up: ModuleType, monkeypatch: pytest.MonkeyPatch, port: str) -> None:
    monkeypatch.setenv("DAGSTER_PORT", port)
    with pytest.raises(up.PortError, match="DAGSTER_PORT must be a number from 1 to 65535"):
        up.dagster_port()


def test_when_one_half_ends_the_other_is_ended_too_even_if_it_ignores_signals(
    up: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(up, "STOP_SECONDS", 0.5)
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {DEAF!r}])"
    deaf = up.Half("the deaf one", [sys.executable, "-c", f"import signal; signal.signal(2, signal.SIG_IGN); {child}"])
    assert wait_for(lambda: "up" in capfd.readouterr().out, 30)
    failing = up.Half("the failing one", [sys.executable, "-c", "raise SystemExit(7)"])
    assert up.watch([deaf, failing], lambda: False) == 7
    up.stop([deaf, failing], lambda: 0)
    assert wait_for(lambda: not deaf.alive(), 10)
    assert capfd.readouterr().err == "up: the failing one ended with status 7; the other half is stopped\n"


@pytest.mark.slow
@pytest.mark.nightly  # by day test_dagster_ui.py starts and ends it
def test_nothing_of_dagster_and_the_api_is_left_after_the_end(environment: dict[str, str]) -> None:
    start = ["sh", "-c", f"'{sys.executable}' '{UP}' & wait"]  # as a job in the background, which ignores Ctrl-C
    with subprocess.Popen(start, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as sh:
        try:
            ui, api = environment["DAGSTER_PORT"], environment["CITELOCK_SERVING__PORT"]
            assert wait_for(lambda: answers(ui, "/server_info") and answers(api, "/healthz"), 200)
            assert len(processes_of(environment)) >= 6  # the shell, up, the API, and dagster's: dev, webserver, daemon
            (up,) = [int(pid) for pid in Path(f"/proc/{sh.pid}/task/{sh.pid}/children").read_text().split()]
            os.kill(up, signal.SIGINT)
            assert wait_for(lambda: not processes_of(environment), 60)
        finally:
            for process in processes_of(environment):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
