"""A limit on requests per second, shared by all that this process asks of a site.

Belongs here: when the next request may go out.
Does not belong here: pauses that a server asks for (`client`), or runs side by side (Dagster's pool).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit


class Pace:
    """Lets requests go at an even rate, after as many as one second may have at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._next = 0.0

    def wait(self, per_second: float) -> float:
        """Take the next place; the seconds to sleep until it comes."""
        with self._lock:
            now = self._clock()
            self._next = max(self._next, now - 1.0) + 1.0 / per_second
            return max(0.0, self._next - now)


_paces: dict[str, Pace] = {}
_lock = threading.Lock()


def pace_of(base_url: str) -> Pace:
    """Return the pace of a site; sources of the same site share it."""
    with _lock:
        return _paces.setdefault(urlsplit(base_url).netloc.lower(), Pace())
