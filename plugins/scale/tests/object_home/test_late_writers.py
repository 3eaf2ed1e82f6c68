"""Machines that stall, threads of one process: whoever is late touches nothing that is in force."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from support.s3_server import faulty
from support.waiting import wait_until

from citelock_scale.object_home.home import ObjectHome
from rag_serving.shared_home import ObjectHomeError

NAME = "tenants/acme"


def write(home: ObjectHome, wait_s: float = 0.0, **texts: str) -> None:
    with home.writing(NAME, wait_s):
        (home.home / NAME).mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (home.home / NAME / name).write_text(text)


def texts(home: ObjectHome) -> dict[str, str]:
    home.refresh(NAME)
    return {
        path.name: path.read_text() for path in (home.home / NAME).iterdir() if path.is_file() and path.name != ".lock"
    }


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
@pytest.mark.parametrize("sweeps_between", [False, True])
def test_a_sweeper_that_stalls_deletes_nothing_that_came_in_force_meanwhile(
    machine: Any, s3: str, sweeps_between: bool
) -> None:
    """It stalls between its look at the lease and its deletion; others put in force what it deletes."""
    other = machine("b", sweep_after=0)
    for number in (1, 2, 3):
        write(other, state=f"state {number}", **{f"file{number}": f"content {number}"})
    for number in (1, 2):
        (other.home / NAME / f"file{number}").unlink()
    write(other, state="state 4")
    stalls, goes_on = threading.Event(), threading.Event()
    with faulty(s3) as proxy:
        sweeper = machine("a", endpoint=proxy.url, timeout_s=60)

        def stall(method: str, _path: str) -> str:
            if method in ("DELETE", "POST"):
                stalls.set()
                goes_on.wait(60)
            return ""

        proxy.fault = stall
        errors: list[Exception] = []

        def sweep() -> None:
            try:
                sweeper.sweep(NAME)
            except ObjectHomeError as error:
                errors.append(error)

        thread = threading.Thread(target=sweep)
        thread.start()
        assert stalls.wait(30)
        if sweeps_between:
            write(other, 20, between="1")
            other.sweep(NAME, 20)
        write(other, 20, state="state 1", file1="content 1", file2="content 2")
        wanted = texts(other)
        goes_on.set()
        thread.join()
    assert texts(machine("c")) == wanted
    assert {"state 1", "content 1", "content 2"} <= set(wanted.values())
    assert not other.repair(NAME, dry_run=True).healed


def test_no_thread_passes_before_the_lease_is_taken(machine: Any) -> None:
    home, other = machine("a"), machine("b")
    may_end, has_ended = threading.Event(), threading.Event()
    passed: list[bool] = []

    def hold() -> None:
        with other.writing(NAME):
            may_end.wait(30)
            has_ended.set()

    def enter(name: str, lasts_s: float) -> None:
        with home.writing(NAME, 30):
            passed.append(has_ended.is_set() and bool(home.heads.read(NAME).head.holder))
            time.sleep(lasts_s)
            (home.home / NAME).mkdir(parents=True, exist_ok=True)
            (home.home / NAME / name).write_text(name)

    holder = threading.Thread(target=hold)
    holder.start()
    wait_until(lambda: other.heads.read(NAME) is not None)
    threads = [threading.Thread(target=enter, args=(f"thread{number}", number / 5)) for number in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    may_end.set()
    for thread in (*threads, holder):
        thread.join()
    assert passed == [True] * 3
    assert set(texts(machine("c"))) == {"thread0", "thread1", "thread2"}, "the last one to end shared all"


def test_one_thread_that_fails_to_take_the_lease_leaves_it_to_the_next(machine: Any) -> None:
    home, other = machine("a"), machine("b")
    with other.writing(NAME), pytest.raises(ObjectHomeError):
        write(home, a="1")
    write(home, a="2")
    assert texts(machine("c")) == {"a": "2"}
