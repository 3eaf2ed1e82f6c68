"""The connection to a Qdrant server: key, time limits, the meaning of errors, and requests that are repeated."""

from __future__ import annotations

import random
import threading
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar
from urllib.parse import urlsplit

import httpx

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

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

_SHOWN = 2000  # bytes of what a server says
Result = TypeVar("Result")


class QdrantConnection:
    """One Qdrant server, with one key. Safe to use from several threads; creating one sends nothing."""

    def __init__(self, settings: Index, timeout_s: float, key_setting: str = "api_key_env") -> None:
        """`timeout_s`: how long one answer may take; `key_setting`: which key of `index` names the key's variable."""
        self.url = (settings.url or settings.writer_url or "").rstrip("/")
        self._settings = settings
        self._key_env = getattr(settings, key_setting) or settings.api_key_env
        self._key_setting = f"index.{key_setting}"
        self._timeout_s = timeout_s
        self._opening = threading.Lock()
        self._client: QdrantClient | None = None

    @property
    def sends_key_in_clear(self) -> bool:
        """Return whether the key goes over a network unencrypted."""
        address = urlsplit(self.url)
        return bool(self._key_env) and address.scheme == "http" and address.hostname not in {"127.0.0.1", "localhost"}

    def ask(self, request: Callable[[QdrantClient], Result]) -> Result:
        """Return the server's response. Raises RemoteError: as `rag_serving.indexes.databases` says; BusyError if a
        later try may succeed."""
        deadline.check()
        with self._opening:
            client = self._client = self._client or self._connect()
        return in_time(lambda: self._answer(client, request), self._timeout_s, self._too_late)

    def close(self) -> None:
        """Close every connection."""
        with self._opening:
            client, self._client = self._client, None
        if client:
            client.close()

    def _connect(self) -> QdrantClient:
        """Return the server's client. Raises RemoteConnectionError: it is not installed, or the variable of its key is
        not set."""
        try:
            from qdrant_client import QdrantClient

            key = bearer(self._key_env, self._key_setting).get("Authorization", "").removeprefix("Bearer ")
        except ImportError:
            raise RemoteConnectionError(
                "index.kind qdrant needs qdrant-client: pip install 'citelock[stores]'"
            ) from None
        except ModelError as error:
            raise RemoteConnectionError(str(error)) from None
        most = self._settings.connections
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a key over http, which `faults` reports
            return QdrantClient(
                url=self.url,
                port=urlsplit(self.url).port or 6333,
                timeout=max(1, round(self._timeout_s)),
                check_compatibility=False,
                limits=httpx.Limits(max_connections=most, max_keepalive_connections=most),
                headers={"api-key": key} if key else None,
            )

    def _answer(self, client: QdrantClient, request: Callable[[QdrantClient], Result]) -> Result:
        from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        try:
            return request(client)
        except ResourceExhaustedResponse as error:
            raise BusyError(self._line(f"is busy ({one_line(str(error))})"), error.retry_after_s) from None
        except UnexpectedResponse as error:
            raise self._refusal(error.status_code or 0, error.content) from None
        except ResponseHandlingException as error:
            if isinstance(error.source, httpx.TimeoutException):
                self._too_late()
            reason = one_line(str(error.source)) or type(error.source).__name__
            raise BusyError(self._line(f"cannot be reached, or broke the connection ({reason})")) from None
        except QdrantException as error:
            raise BusyError(self._line(f"cannot be asked ({one_line(str(error))})")) from None
        except (AssertionError, ValueError) as error:  # of the client, which takes some of an answer for granted
            raise BusyError(self._line(f"sent what is no answer ({one_line(str(error))})")) from None

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

    def _too_late(self) -> NoReturn:
        raise RemoteTimeoutError(self._line(f"did not answer in time ({self._timeout_s:g} s)")) from None

    def _line(self, what: str) -> str:
        return redacted(f"the Qdrant server at {self.url} {what}")


BACKOFF_S, LONGEST_WAIT_S = 0.5, 60.0


class RepeatedRequests:
    """A connection whose requests are sent up to `tries` times. `repeats`: how many were sent again."""

    def __init__(self, connection: QdrantConnection, tries: int) -> None:
        self._connection = connection
        self.tries, self.repeats = tries, 0

    def ask(self, request: Callable[[QdrantClient], Result]) -> Result:
        """Return the server's response. Between two tries it waits as long as the server requests, else twice as long
        with every try; a minute at most. Raises RemoteError: it refuses, or does not answer in all tries."""
        for tried in range(1, self.tries):
            try:
                return self._connection.ask(request)
            except (BusyError, RemoteTimeoutError) as error:
                self.repeats += 1
                asked_s = getattr(error, "retry_after_s", None)
                doubled = BACKOFF_S * 2 ** (tried - 1) * (0.5 + random.random())
                time.sleep(min(doubled if asked_s is None else float(asked_s), LONGEST_WAIT_S))
        return self._connection.ask(request)

    def close(self) -> None:
        """Close every connection."""
        self._connection.close()
