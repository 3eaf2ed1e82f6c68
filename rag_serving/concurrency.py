"""The limit of concurrent searches: the number of cores; others wait for their turn.

Belongs here: the number of cores, the limit, and the configurations that it applies to. Does not belong here: searching
(`pipeline`).

A search is many short calls of numpy, each of which yields the interpreter lock to waiting threads. With more threads
than cores most of the time goes into that: eight clients of two cores are answered a fifth faster in turns. Requests
that wait for a server use no core, so searches that ask servers are not limited.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from queue import SimpleQueue


class ConcurrencyLimit:
    """A context that at most `count` threads are in at once, in the order of their coming."""

    def __init__(self, count: int) -> None:
        self._free = SimpleQueue[None]()  # lighter than a semaphore, which waits in Python
        for _ in range(count):
            self._free.put(None)

    def __enter__(self) -> None:
        self._free.get()

    def __exit__(self, *_: object) -> None:
        self._free.put(None)


def cores() -> int:
    """Return the number of cores for this process, at least 1: its CPU affinity where the system reports one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def search_limit(in_process: bool, workers: int = 1) -> AbstractContextManager[None]:
    """Return the limiter of a search: this process's limit if it is computed `in_process`; with several workers each
    has its share of the cores."""
    return _limit(-(-cores() // workers)) if in_process else nullcontext()


@cache
def _limit(count: int) -> ConcurrencyLimit:
    """Return the one limit of the process, for all tenants."""
    return ConcurrencyLimit(count)
