"""The end of a request's work: at its deadline, when nobody waits for it any more, or when the server ends. The
deadline is a context variable, so that no stage passes it on. Work in a thread of its own inherits it by
`contextvars.copy_context`."""

from __future__ import annotations

import os
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cache
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar


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


LOOK_S = 0.25
"""Seconds between looks of a thread that waits whether somebody still waits for it."""
_LONGEST_RESERVE_S = 5.0

Result = TypeVar("Result")
_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


class StoppedError(BaseException):
    """The work has to end. No `Exception`: a stage that may fail must not take it for its own failure."""


class Deadline:
    """The end of a request's time, which comes at once if it is cancelled. Safe to use from several threads."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.is_server_ending = False
        self._ends = time.monotonic() + seconds
        self._cancelled = False
        self._calls: list[Callable[[], object]] = []

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return 0.0 if self._cancelled else max(0.0, self._ends - time.monotonic())

    def cancel(self, server_ends: bool = False) -> None:
        """End the work: nobody waits for it, or the server ends."""
        self.is_server_ending = self.is_server_ending or server_ends
        self._cancelled = True
        for call in tuple(self._calls):
            call()

    def on_cancel(self, call: Callable[[], object]) -> None:
        """Call something when the work is cancelled, at once if it already is; perhaps more than once."""
        self._calls.append(call)
        if self._cancelled:
            call()

    def check(self) -> None:
        """Go on while there is time. Raises StoppedError: the time is over, or nobody waits."""
        if self._cancelled or time.monotonic() >= self._ends:
            raise StoppedError


@contextmanager
def within(deadline: Deadline) -> Iterator[None]:
    """Let the work of this context end by a deadline."""
    token = _current.set(deadline)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Deadline | None:
    """Return the deadline of this context's work, if it has one."""
    return _current.get()


def check() -> None:
    """Go on while there is time; without a deadline always. Raises StoppedError: time is over, or nobody waits."""
    if (deadline := _current.get()) is not None:
        deadline.check()


def at_most(seconds: float) -> float:
    """Return how long to wait for a server: its own patience, or what is left of the request's time if that is less. A
    fifth of what is left, 5 s at most, is kept for doing without the server."""
    deadline = _current.get()
    if deadline is None:
        return seconds
    return min(seconds, deadline.left - min(_LONGEST_RESERVE_S, deadline.left / 5))


def run_in_thread(work: Callable[[], Result], name: str) -> Future[Result]:
    """Run some work in a thread that keeps no process alive. Return its future, with its result or error."""
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # any error belongs to the waiting caller
            outcome.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return outcome


def call_soon(loop: AbstractEventLoop, call: Callable[..., object], *arguments: object) -> None:
    """Have an event loop call something, from another thread; one that has ended hears nothing."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)


def result_within(outcome: Future[Result], seconds: float) -> Result:
    """Return the result of a future; wait `seconds` at most, and only while somebody waits for the answer. Raises
    TimeoutError: it did not come in time; StoppedError: the request's time is over, or nobody waits any more."""
    ends = time.monotonic() + seconds
    while True:
        check()
        left = ends - time.monotonic()
        wait([outcome], min(LOOK_S, max(0.0, left)))
        if outcome.done() or left <= 0:
            return outcome.result(0)
