"""Rate limits of callers, and of guesses at tokens.

Belongs here: counting by key, the waiting time. Does not belong here: authentication (`auth`), responses (`admission`).

Used by the event loop alone, and so without locks.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import TypeVar

MAX_KEYS = 10_000
"""Callers, or addresses, that are remembered; beyond, those that were not seen for longest are forgotten."""
FREE_GUESSES = 10
LONGEST_WAIT_S = 300.0
LATER_S = 1.0
MOST_LATER = 64
"""Refusals of one caller that are held back at once."""
FORGOTTEN_S = 900.0
MINUTE_S = 60.0
"""Seconds over which what a caller took of its tenant's limit is forgotten, by a factor of e."""

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


class TenantRates:
    """A token bucket for each tenant that its callers share fairly.

    While more than half of a minute's worth is left, every caller may take one. Below that a caller who took more than
    its share of the last minute waits until the others had theirs: a flood drives nobody out.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._buckets = Kept[tuple[float, float]]()  # what is left, and when that was
        self._callers: dict[str, Kept[tuple[float, float]]] = {}  # of a tenant: what each took lately, and when

    def take(self, tenant: str, caller: str, per_minute: int) -> float:
        """Take one. Return 0, or the seconds until there may be one to take; a limit of 0 is none."""
        if not per_minute:
            return 0.0
        now, active = self._clock(), self._active(tenant)
        left, at = self._buckets.get(tenant, (float(per_minute), now))
        left = min(float(per_minute), left + (now - at) * per_minute / 60)
        taken, seen = active.get(caller, (0.0, now))
        taken *= math.exp((seen - now) / MINUTE_S)
        active.keep(caller, (taken, now))
        share = per_minute / len(active)
        if left < 1:
            wait_s = (1 - left) * 60 / per_minute
        elif left < per_minute / 2 and len(active) > 1 and taken + 1 > share:
            wait_s = _until_fair(taken, share, (per_minute / 2 - left) * 60 / per_minute)
        else:
            wait_s, left = 0.0, left - 1
            active.keep(caller, (taken + 1, now))
        self._buckets.keep(tenant, (left, now))
        return wait_s

    def _active(self, tenant: str) -> Kept[tuple[float, float]]:
        """Return the callers of a tenant that were active within the last minute."""
        active = self._callers.setdefault(tenant, Kept())
        while active and (first := next(iter(active.items())))[1][1] < self._clock() - MINUTE_S:
            del active[first[0]]
        return active


def _until_fair(taken: float, share: float, half_full_s: float) -> float:
    """Return the seconds until a caller has its share again, or the bucket is half full, whichever comes first."""
    if share <= 1:
        return half_full_s
    return min(half_full_s, MINUTE_S * math.log(max(1.0, taken / (share - 1))))


class Refusals:
    """The delay of a caller's refusals.

    A caller that retries too early gets its refusal later: it is made to wait, and costs nothing meanwhile.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._told = Kept[float]()  # until when
        self._later = Counter[str]()

    async def refuse(self, caller: str, wait_s: float) -> None:
        """Delay the refusal of a caller that retries before its wait is over."""
        now = self._clock()
        is_impatient = now < self._told.get(caller, 0.0)
        self._told.keep(caller, now + wait_s)
        if is_impatient and self._later[caller] < MOST_LATER:
            self._later[caller] += 1
            try:
                await asyncio.sleep(min(wait_s, LATER_S))
            finally:
                self._later[caller] -= 1
                if not self._later[caller]:
                    del self._later[caller]


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
    """Return the key for counting one caller: an address; of IPv6 the /64, which is one customer's."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
