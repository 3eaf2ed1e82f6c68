"""A circuit breaker: whether a server that failed is worth another request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal

State = Literal["closed", "open", "half_open"]


class Breaker:
    """Closed: all requests pass. Open: none does. Half open: one does, and its outcome decides for all. `failures`
    failures in a row open it; `reset_s` seconds later the next `allow` lets one probe through. A probe that never
    reports back (its thread was killed) gives way to another one after `reset_s` more. Safe to use from several
    threads. M. Nygard, Release It! (2007), section 5.2."""

    def __init__(self, failures: int = 5, reset_s: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._failures, self._reset_s, self._clock = failures, reset_s, clock
        self._lock = threading.Lock()
        self._failed = 0
        self._opened_at: float | None = None  # or the time the last probe was let through
        self._probing = False

    @property
    def state(self) -> State:
        """half_open as soon as a probe would be let through, and while it is under way."""
        with self._lock:
            if self._opened_at is None:
                return "closed"
            return "half_open" if self._probing or self._is_due() else "open"

    def allow(self) -> bool:
        """Return whether to send a request now. An admitted caller must call `succeed` or `fail` afterwards."""
        with self._lock:
            if self._opened_at is None:
                return True
            if not self._is_due():
                return False
            self._probing, self._opened_at = True, self._clock()
            return True

    def succeed(self) -> None:
        """The server answered: closed, and no failure is remembered."""
        with self._lock:
            self._failed, self._opened_at, self._probing = 0, None, False

    def fail(self) -> None:
        """Count a failure: open after `failures` in a row, or if this was the probe. A failure that arrives while open,
        of an earlier request, changes nothing."""
        with self._lock:
            self._failed += 1
            if self._probing or (self._opened_at is None and self._failed >= self._failures):
                self._opened_at, self._probing = self._clock(), False

    def _is_due(self) -> bool:
        return self._opened_at is not None and self._clock() - self._opened_at >= self._reset_s
