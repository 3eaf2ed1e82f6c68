"""One writer at a time."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
from support.held_locks import has_ended, held_by_another_process

from rag_assets.state.locks import LockedError, exclusive, is_held, locked, shared_by_run
from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.config.index import ObjectStore
from rag_serving.config.loading import parse_config

REMOTE = """
import sys, pathlib
from rag_assets.state.locks import locked
from rag_serving.config.loading import parse_config
from rag_serving.config.index import ObjectStore
ObjectStore.lease_s = 2
config = parse_config({"home": sys.argv[2], "object_store": {"cache": sys.argv[1]}})
with locked(config, config.home / "tenants" / "demo", 0.1, "a run", "one"):
    print("held", flush=True)
    sys.stdin.read()
"""


def join(folder: Path) -> AbstractContextManager[None]:
    """The lock of a step of a run."""
    return shared_by_run(folder, "a run", "one")


def test_a_folder_that_another_process_writes_to_is_refused_and_the_process_named(tmp_path: Path) -> None:
    with (
        held_by_another_process(tmp_path) as process,
        pytest.raises(LockedError, match=f"process {process.pid}"),
        exclusive(tmp_path),
    ):
        pass


def test_a_killed_process_lets_go(tmp_path: Path) -> None:
    with held_by_another_process(tmp_path) as process:
        process.kill()
        process.join()
        with exclusive(tmp_path):
            pass


def test_a_process_does_not_shut_itself_out(tmp_path: Path) -> None:
    with exclusive(tmp_path), exclusive(tmp_path):
        pass
    with held_by_another_process(tmp_path):
        pass


def test_a_lock_is_given_back_when_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), exclusive(tmp_path):
        raise ZeroDivisionError
    with held_by_another_process(tmp_path):
        pass


def test_whoever_waits_gets_the_lock_once_it_is_free(tmp_path: Path) -> None:
    with held_by_another_process(tmp_path) as process:
        threading.Timer(0.5, process.kill).start()
        with exclusive(tmp_path, wait_s=60):
            assert has_ended(process)


def test_steps_of_one_run_hold_a_folder_together_and_shut_everybody_else_out(tmp_path: Path) -> None:
    with held_by_another_process(tmp_path, join) as process:
        with shared_by_run(tmp_path, "a run", "two"):
            assert is_held(tmp_path)
        for other in (exclusive(tmp_path), shared_by_run(tmp_path, "another run", "two", 0.3)):
            with pytest.raises(LockedError, match=f"process {process.pid}"), other:
                pass


def test_the_last_step_of_a_run_lets_the_next_run_in(tmp_path: Path) -> None:
    with held_by_another_process(tmp_path, join) as process, shared_by_run(tmp_path, "a run", "two"):
        process.kill()
        process.join()
        with pytest.raises(LockedError), shared_by_run(tmp_path, "another run", "two"):
            pass
    with shared_by_run(tmp_path, "another run", "two"):
        pass
    with exclusive(tmp_path):
        pass


def test_a_step_waits_for_a_build_that_has_the_folder_alone(tmp_path: Path) -> None:
    with (
        held_by_another_process(tmp_path) as process,
        pytest.raises(LockedError, match=f"process {process.pid}"),
        shared_by_run(tmp_path, "a run", "two"),
    ):
        pass


def test_a_step_in_the_process_of_a_build_goes_on(tmp_path: Path) -> None:
    with exclusive(tmp_path), shared_by_run(tmp_path, "a run", "two"):
        assert is_held(tmp_path)
    with held_by_another_process(tmp_path):
        pass


def test_a_second_attempt_of_a_step_waits_for_as_long_as_the_first_one_lives(tmp_path: Path) -> None:
    with held_by_another_process(tmp_path, join) as process:
        threading.Timer(1.0, process.kill).start()
        with shared_by_run(tmp_path, "a run", "one", wait_s=0.1):
            assert has_ended(process)


def test_the_same_step_of_another_run_is_refused_after_the_usual_time(tmp_path: Path) -> None:
    with (
        held_by_another_process(tmp_path, join) as process,
        pytest.raises(LockedError, match=f"process {process.pid}"),
        shared_by_run(tmp_path, "another run", "one", wait_s=0.1),
    ):
        pass


def test_a_step_that_writes_alone_waits_for_others_of_its_run_alone(tmp_path: Path) -> None:
    with held_by_another_process(tmp_path, join) as process:
        with pytest.raises(LockedError), exclusive(tmp_path, 0.1, "another run"):
            pass
        threading.Timer(1.0, process.kill).start()
        with exclusive(tmp_path, 0.1, "a run"):
            assert has_ended(process)


def test_a_second_attempt_of_a_step_that_writes_alone_waits_too(tmp_path: Path) -> None:
    with held_by_another_process(tmp_path, partial(exclusive, run="a run")) as process:
        threading.Timer(1.0, process.kill).start()
        with exclusive(tmp_path, 0.1, "a run"):
            assert has_ended(process)


def test_steps_of_one_run_on_two_machines_write_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET_ENV, "a secret of sixteen characters")
    store = f"file://{tmp_path / 'store'}"
    monkeypatch.setattr(ObjectStore, "lease_s", 2)
    config = parse_config({"home": store, "object_store": {"cache": str(tmp_path / "two")}})
    folder = config.home / "tenants" / "demo"
    command = [sys.executable, "-c", REMOTE, str(tmp_path / "one"), store]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        (tmp_path / "one" / "tenants" / "demo" / "part").write_text("of the first step")
        with pytest.raises(LockedError, match="another build"), locked(config, folder, 1):
            pass
        assert process.stdin is not None
        threading.Timer(2.5, process.stdin.close).start()
        with locked(config, folder, 0.1, "a run", "two"):
            assert process.wait(30) == 0
            assert (folder / "part").read_text() == "of the first step"
