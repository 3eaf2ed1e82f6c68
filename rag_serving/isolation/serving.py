"""The program of a child: it answers frames, one document after the other, within its limits. The process opens no file
and no socket. It ends when its standard input is at its end, or, while it works, when the system signals that the other
side has closed it (SIGIO) or that a limit is reached."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from typing import IO

from rag_serving.isolation.child import (
    REPORT,
    Frame,
    Limits,
    address_space,
    end_of_document,
    limit_document,
    limit_process,
    read_frame,
    write_frame,
)

Answer = Callable[[Frame, IO[bytes]], Frame]
"""Given a request and the stream that it came from."""

_REQUEST_MAX = 1024**3
_LEAST_PAUSE_S = 0.2  # between two reports: nobody reads faster
_KEPT_MB = 256  # of address space beyond that at the start; a process that has more after a document is replaced


def run(answer: Answer, imports: Sequence[str] = ()) -> None:
    """Answer requests from standard input until it is closed. Standard output is reserved for answers: library output
    is discarded. `imports`: modules whose memory counts for no document."""
    warnings.simplefilter("ignore")
    for name in ("SIGXCPU", "SIGALRM", "SIGIO"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller decides
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for name in imports:
        import_module(name)

    with suppress(OSError):
        serve(sys.stdin.buffer, answers, answer)


def serve(requests: IO[bytes], answers: IO[bytes], answer: Answer) -> None:
    """Answer requests until there are none, or until this process has grown too large for the next document."""
    limit_process()
    _reports.set(_Reports(answers))
    grown = address_space() + _KEPT_MB * 1024**2
    while (request := read_frame(requests, _REQUEST_MAX)) is not None:
        answered = answer(request, requests)
        is_last = address_space() > grown or "memory" in answered.facts
        write_frame(answers, Frame({**answered.facts, "last": is_last}, answered.content))
        if is_last:
            return


def report(done: int, total: int) -> None:
    """Report progress to the caller, at most as often as it is read."""
    if (reports := _reports.get()) is not None:
        reports(done, total)


class _Reports:
    def __init__(self, answers: IO[bytes]) -> None:
        self._answers, self._last = answers, time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self._last >= _LEAST_PAUSE_S:
            self._last = time.monotonic()
            write_frame(self._answers, Frame({REPORT: [done, total]}))


_reports: ContextVar[_Reports | None] = ContextVar("reports", default=None)


@contextmanager
def within_limits(limits: Limits, requests: IO[bytes]) -> Iterator[None]:
    """Let the system end this process where the block takes too much, or as soon as nobody waits for its result."""
    try:
        with _ended_with(requests):
            limit_document(limits)
            yield
    finally:
        end_of_document()


@contextmanager
def _ended_with(requests: IO[bytes]) -> Iterator[None]:
    """Let the system end this process as soon as the other side closes the pipe, even while C code runs."""
    try:
        import fcntl
        import select

        flags = fcntl.fcntl(requests, fcntl.F_GETFL)
        fcntl.fcntl(requests, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(requests, fcntl.F_SETFL, flags | os.O_ASYNC)
        poll = select.poll()
        poll.register(requests, select.POLLHUP)
        if poll.poll(0):
            sys.exit(1)
    except (ImportError, AttributeError, OSError):
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.fcntl(requests, fcntl.F_SETFL, flags)
