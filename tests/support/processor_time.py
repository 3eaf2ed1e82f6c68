"""Processor seconds of each test, with those of the processes that it started: `pytest -p support.processor_time`.

Elapsed time tells nothing on a busy machine. The table is appended to the file that `--processor-time` names.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

TICKS = os.sysconf("SC_CLK_TCK")
PR_SET_CHILD_SUBREAPER = 36  # of <linux/prctl.h>: servers that leave their starter, like Postgres, are our children
EVENTS = {
    "subprocess.Popen": "process",
    "os.fork": "process",
    "os.posix_spawn": "process",
    "socket.connect": "socket",
    "socket.bind": "socket",
}
seen: set[str] = set()
sys.addaudithook(lambda event, _: seen.add(EVENTS[event]) if event in EVENTS else None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the name of the table."""
    parser.addoption("--processor-time", default="processor_time.tsv", type=Path)


def pytest_configure() -> None:
    """Let no process that tests start leave those that are counted."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def of_descendants(pid: int) -> float:
    """Return the seconds that live descendants used, and children of theirs that ended."""
    seconds = 0.0
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in listed.read_text().split()]
        except OSError:
            continue
        for child in children:
            try:
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            seconds += sum(map(int, fields[11:15])) / TICKS + of_descendants(child)
    return seconds


def used() -> float:
    """Return the processor seconds that this process and those that it started have used."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + of_descendants(os.getpid())


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Write a line for each test: its seconds with setup and teardown, and its name."""
    before = used()
    seen.clear()
    yield
    with item.config.getoption("processor_time").open("a", encoding="utf-8") as table:
        table.write(f"{used() - before:.3f}\t{item.nodeid}\t{' '.join(sorted(seen)) or '-'}\n")
