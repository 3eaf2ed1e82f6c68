"""The connection to a server over HTTP by its own client: opening it, and time limits.

Belongs here: the common parts of all such clients: keys, time limits, the meaning of statuses, and repeating idempotent
requests. Does not belong here: a client (`qdrant.connection`).
"""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Generic, NoReturn, Protocol, TypeVar
from urllib.parse import urlsplit

from rag_serving import deadline
from rag_serving.config.index import Index
from rag_serving.escaping.redaction import redacted
from rag_serving.escaping.targets import one_line
from rag_serving.indexes.databases import (
    BusyError,
    RemoteConnectionError,
    RemoteDataError,
    RemoteError,
    RemoteTimeoutError,
)
from rag_serving.models.http import bearer, in_time
from rag_serving.models.protocols import ModelError

_SHOWN = 2000  # bytes of what a server says


class Closable(Protocol):
    """A client."""

    def close(self) -> object: ...


Client = TypeVar("Client", bound=Closable)
Result = TypeVar("Result")


class ServerConnection(ABC, Generic[Client]):
    """One server, with one key. Safe to use from several threads; creating one sends nothing."""

    product: ClassVar[str]
    """What the server is, as messages call it."""

    def __init__(self, settings: Index, timeout_s: float, key_setting: str = "api_key_env") -> None:
        """`timeout_s`: how long one answer may take; `key_setting`: which key of `index` names the key's variable."""
        self.url = (settings.url or settings.writer_url or "").rstrip("/")
        self._settings = settings
        self._key_env = getattr(settings, key_setting) or settings.api_key_env
        self._key_setting = f"index.{key_setting}"
        self._timeout_s = timeout_s
        self._opening = threading.Lock()
        self._client: Client | None = None

    @property
    def sends_key_in_clear(self) -> bool:
        """Return whether the key goes over a network unencrypted."""
        address = urlsplit(self.url)
        return bool(self._key_env) and address.scheme == "http" and address.hostname not in {"127.0.0.1", "localhost"}

    def ask(self, request: Callable[[Client], Result]) -> Result:
        """Return the server's response.

        Raises:
            RemoteError: as `rag_serving.indexes.databases` says; BusyError if a later try may succeed.
        """
        deadline.check()
        client = self._open()
        return in_time(lambda: self._answer(client, request), self._timeout_s, self._too_late)

    def close(self) -> None:
        """Close every connection."""
        with self._opening:
            client, self._client = self._client, None
        if client:
            client.close()

    @abstractmethod
    def _connect(self) -> Client:
        """Return the server's client.

        Raises:
            RemoteConnectionError: it is not installed, or its key is missing.
        """

    @abstractmethod
    def _answer(self, client: Client, request: Callable[[Client], Result]) -> Result:
        """Return a client's response; its errors become RemoteError."""

    def _open(self) -> Client:
        with self._opening:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _key(self) -> str:
        """Return the key that the configuration names; empty if it names none.

        Raises:
            RemoteConnectionError: its variable is not set.
        """
        try:
            return bearer(self._key_env, self._key_setting).get("Authorization", "").removeprefix("Bearer ")
        except ModelError as error:
            raise RemoteConnectionError(str(error)) from None

    def _refusal(self, status: int, content: bytes) -> RemoteError:
        said = one_line(content[:_SHOWN].decode("utf-8", "replace"))
        if status in (401, 403):
            return RemoteConnectionError(
                self._line(f"refuses the key of {self._key_setting}; set its variable ({said})")
            )
        if status in (408, 429) or status >= 500:
            return BusyError(self._line(f"answers HTTP {status} ({said})"))
        return RemoteDataError(
            self._line(f"answers HTTP {status} ({said}); `citelock generations repair` sends what is missing")
        )

    def _broken(self, error: Exception) -> BusyError:
        reason = one_line(str(error)) or type(error).__name__
        return BusyError(self._line(f"cannot be reached, or broke the connection ({reason})"))

    def _no_answer(self, error: Exception) -> BusyError:
        return BusyError(self._line(f"sent what is no answer ({one_line(str(error))})"))

    def _too_late(self) -> NoReturn:
        raise self._late()

    def _late(self) -> RemoteTimeoutError:
        what = f"did not answer in time ({self._timeout_s:g} s)"
        return RemoteTimeoutError(self._line(what))

    def _line(self, what: str) -> str:
        return redacted(f"the {self.product} server at {self.url} {what}")


BACKOFF_S, LONGEST_WAIT_S = 0.5, 60.0


class RepeatedRequests(Generic[Client]):
    """A connection whose requests are sent up to `tries` times. `repeats`: how many were sent again."""

    def __init__(self, connection: ServerConnection[Client], tries: int) -> None:
        self._connection = connection
        self.tries, self.repeats = tries, 0

    def ask(self, request: Callable[[Client], Result]) -> Result:
        """Return the server's response.

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
        """Wait before the next try after `tried`: as long as the server requests, else twice as long with every try; a
        minute at most."""
        self.repeats += 1
        doubled = BACKOFF_S * 2 ** (tried - 1) * (0.5 + random.random())
        time.sleep(min(doubled if asked_s is None else float(asked_s), LONGEST_WAIT_S))

    def close(self) -> None:
        """Close every connection."""
        self._connection.close()
