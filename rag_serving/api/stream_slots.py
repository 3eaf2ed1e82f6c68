"""The limit of concurrent streams: per caller, and in all.

Belongs here: counting and refusing. Does not belong here: streaming (`streams`), authentication (`auth`).

Used by the event loop alone, and so without locks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from rag_serving.api.wire import RequestError
from rag_serving.config.serving import Serving

RETRY_AFTER_S = 5


@dataclass
class ActiveStreams:
    """The streams that are under way, of all configurations that this process has had."""

    by_caller: Counter[str] = field(default_factory=Counter)
    """By the caller's tenant and name, with a space between; without one where nobody is asked who he is."""

    @property
    def all(self) -> int:
        return self.by_caller.total()

    def of_tenant(self, tenant: str) -> int:
        """Return how many of them are a tenant's."""
        mine = (count for caller, count in self.by_caller.items() if not caller or caller.startswith(f"{tenant} "))
        return sum(mine)


class Slots:
    """The streams that a configuration allows a caller beside those that are under way."""

    def __init__(self, taken: ActiveStreams, serving: Serving, caller: str) -> None:
        """`caller` without a name: not limited individually (loopback)."""
        self._taken, self._serving, self._caller = taken, serving, caller

    def take(self) -> RequestError | None:
        """Take one. Return why there is none to take."""
        caller = self._caller
        if caller and self._taken.by_caller[caller] >= self._serving.streams_per_caller:
            message = f"at most {self._serving.streams_per_caller} answers are streamed to one caller at once"
            message = f"{message}; read one to its end, or ask without `stream`"
            return RequestError(429, "RATE_LIMIT", message, retry_after=RETRY_AFTER_S)
        if self._taken.all >= self._serving.streams:
            message = "too many answers are being streamed; try again in a few seconds"
            return RequestError(503, "UNAVAILABLE", message, retry_after=RETRY_AFTER_S)
        self._taken.by_caller[caller] += 1
        return None

    def ended_twice(self) -> Callable[[], None]:
        """Return a function whose second call frees the slot: by the response, and by the thread."""
        left = [None, None]

        def ended() -> None:
            left.pop()
            if not left:
                self._give()

        return ended

    def _give(self) -> None:
        self._taken.by_caller[self._caller] -= 1
        if not self._taken.by_caller[self._caller]:
            del self._taken.by_caller[self._caller]
