"""How often callers may ask, and how often tokens may be guessed.

Belongs here: counting by key, how long to wait. Does not belong here: who asks (`auth`), what is
answered (`admission`).

Used by the event loop alone, and so without locks.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

MAX_KEYS = 10_000
"""Callers, or addresses, that are remembered; beyond, those that were not seen for longest are forgotten."""
FREE_GUESSES = 10
LONGEST_WAIT_S = 300.0
FORGOTTEN_S = 900.0

Clock = Callable[[], float]
Value = TypeVar("Value")


class Kept(OrderedDict[str, Value]):
    """A mapping of at most MAX_KEYS keys."""

    def keep(self, key: str, value: Value) -> None:
        self[key] = value
        self.move_to_end(key)
        while len(self) > MAX_KEYS:
            self.popitem(last=False)


class Rates:
    """A token bucket for each key: a minute's worth at once, then as fast as it fills."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._buckets = Kept[tuple[float, float]]()  # what is left, and when that was

    def take(self, key: str, per_minute: int) -> float:
        """Take one. Return 0, or the seconds until there is one to take; a limit of 0 is none."""
        if not per_minute:
            return 0.0
        now = self._clock()
        left, at = self._buckets.get(key, (float(per_minute), now))
        left = min(float(per_minute), left + (now - at) * per_minute / 60)
        taken = left >= 1
        self._buckets.keep(key, (left - 1 if taken else left, now))
        return 0.0 if taken else (1 - left) * 60 / per_minute


class Guesses:
    """Wrong tokens by address: after some, each doubles the time for which no new token of that address is looked at.

    Tokens that the address has shown to be right are looked at all the same: who guesses behind a proxy shuts
    nobody out.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._wrong = Kept[tuple[int, float]]()  # how many, and the last one's time
        self._right = Kept[None]()

    def wait(self, address: str, token: str) -> float:
        """Return the seconds for which this token is not looked at."""
        count, at = self._wrong.get(address, (0, 0.0))
        if count < FREE_GUESSES or f"{address} {token}" in self._right:
            return 0.0
        return max(0.0, at + min(2.0 ** min(count - FREE_GUESSES, 20), LONGEST_WAIT_S) - self._clock())

    def wrong(self, address: str) -> None:
        now = self._clock()
        count, at = self._wrong.get(address, (0, now))
        self._wrong.keep(address, (1 if now - at > FORGOTTEN_S else count + 1, now))

    def right(self, address: str, token: str) -> None:
        self._right.keep(f"{address} {token}", None)


def network_of(address: str) -> str:
    """Return what one caller is counted by: an address; of IPv6 the /64, which is one customer's."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
