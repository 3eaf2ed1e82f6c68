"""Requests to a Qdrant server that are sent again where it is busy or cannot be reached.

Belongs here: how often, and after how long a wait. Does not belong here: which requests (`pointer`,
`rag_assets.publishing`), all of which leave the same behind however often they are done.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from rag_serving.indexes.qdrant.connection import BusyError, Connection
from rag_serving.indexes.remote.errors import RemoteTimeoutError

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

Result = TypeVar("Result")

TRIES = 6
BACKOFF_S, LONGEST_WAIT_S = 0.5, 60.0


class RepeatedRequests:
    """A connection whose requests are sent up to six times. `repeats`: how many were sent again."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.repeats = 0

    def ask(self, request: Callable[[QdrantClient], Result]) -> Result:
        """Return what the server answers.

        Raises:
            RemoteError: it refuses, or does not answer in six tries.
        """
        for tried in range(1, TRIES):
            try:
                return self._connection.ask(request)
            except (BusyError, RemoteTimeoutError) as error:
                self.repeats += 1
                time.sleep(_wait_s(error, tried))
        return self._connection.ask(request)

    def close(self) -> None:
        """Close every connection."""
        self._connection.close()


def _wait_s(error: Exception, tried: int) -> float:
    """Return what the server asks for, else a wait that doubles with every try; a minute at most."""
    asked = getattr(error, "retry_after_s", None)
    doubled = BACKOFF_S * 2 ** (tried - 1) * (0.5 + random.random())
    return min(doubled if asked is None else float(asked), LONGEST_WAIT_S)
