"""Requests to a server that are sent again where it is busy or cannot be reached.

Belongs here: how often, and after how long a wait. Does not belong here: which requests (`aliases`,
`rag_assets.publishing`), all of which leave the same behind however often they are done.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from citelock_stores.remote.connections import Client, ServerConnection
from rag_serving.indexes.databases import BusyError, RemoteTimeoutError

Result = TypeVar("Result")

BACKOFF_S, LONGEST_WAIT_S = 0.5, 60.0


class RepeatedRequests(Generic[Client]):
    """A connection whose requests are sent up to `tries` times. `repeats`: how many were sent again."""

    def __init__(self, connection: ServerConnection[Client], tries: int) -> None:
        self._connection = connection
        self.tries, self.repeats = tries, 0

    def ask(self, request: Callable[[Client], Result]) -> Result:
        """Return what the server answers.

        Raises:
            RemoteError: it refuses, or does not answer in all tries.
        """
        for tried in range(1, self.tries):
            try:
                return self._connection.ask(request)
            except (BusyError, RemoteTimeoutError) as error:
                self.wait(tried, getattr(error, "retry_after_s", None))
        return self._connection.ask(request)

    def wait(self, tried: int, asked_s: float | None = None) -> None:
        """Wait before sending again what was sent `tried` times: as long as the server asks, else twice as long with
        every try; a minute at most."""
        self.repeats += 1
        doubled = BACKOFF_S * 2 ** (tried - 1) * (0.5 + random.random())
        time.sleep(min(doubled if asked_s is None else float(asked_s), LONGEST_WAIT_S))

    def close(self) -> None:
        """Close every connection."""
        self._connection.close()
