"""When the work for a request has to end: at its deadline, or when nobody waits for it any more.

The deadline is found by the context, so that no stage hands it on. Work in a thread of its own takes it along with
`contextvars.copy_context`.

Belongs here: the deadline, and looking whether it is over. Does not belong here: requests (`api.deadlines`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


class StoppedError(BaseException):
    """The work has to end. No `Exception`: a stage that may fail must not take it for its own failure."""


class Deadline:
    """The end of a request's time, which comes at once where it is cancelled. Safe to use from several threads."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = time.monotonic() + seconds
        self._cancelled = False

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return max(0.0, self._ends - time.monotonic())

    def cancel(self) -> None:
        """End the work: nobody waits for it."""
        self._cancelled = True

    def check(self) -> None:
        """Go on while there is time.

        Raises:
            StoppedError: the time is over, or nobody waits.
        """
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


def check() -> None:
    """Go on while there is time; work without a deadline always does.

    Raises:
        StoppedError: the time is over, or nobody waits.
    """
    if (deadline := _current.get()) is not None:
        deadline.check()
