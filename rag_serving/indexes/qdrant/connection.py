"""The connection to a Qdrant server: its client, how long an answer is waited for, what its errors mean.

Belongs here: opening the client, calls with a limit of time. Does not belong here: what is asked
(`readable_points`, the writer), trying again (the writer; a question goes on without).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar
from urllib.parse import urlsplit

import httpx

from rag_serving import deadline
from rag_serving.config.index import Index
from rag_serving.escaping.redaction import redacted
from rag_serving.escaping.targets import one_line
from rag_serving.indexes.remote.errors import RemoteConnectionError, RemoteDataError, RemoteError, RemoteTimeoutError
from rag_serving.models.http import bearer, in_time
from rag_serving.models.protocols import ModelError

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

Result = TypeVar("Result")


class BusyError(RemoteConnectionError):
    """The server asks to come back later: 408, 429 or 5xx. `retry_after_s`: when, if it says so."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Connection:
    """One server, asked by one key. Safe to use from several threads; nothing is sent by making one."""

    def __init__(self, settings: Index, timeout_s: float, key_setting: str = "api_key_env") -> None:
        """`timeout_s`: how long one answer may take; `key_setting`: which key of `index` names the key's variable."""
        self.url = (settings.url or settings.writer_url or "").rstrip("/")
        self._key_env = getattr(settings, key_setting) or settings.api_key_env
        self._key_setting = f"index.{key_setting}"
        self._timeout_s, self._connections = timeout_s, settings.connections
        self._opening = threading.Lock()
        self._client: QdrantClient | None = None

    @property
    def sends_key_in_clear(self) -> bool:
        """Return whether the key goes over a network unencrypted."""
        address = urlsplit(self.url)
        return bool(self._key_env) and address.scheme == "http" and address.hostname not in {"127.0.0.1", "localhost"}

    def ask(self, request: Callable[[QdrantClient], Result]) -> Result:
        """Return what the server answers.

        Raises:
            RemoteError: as `rag_serving.indexes.remote.errors` says; BusyError where a later try may succeed.
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

    def _open(self) -> QdrantClient:
        with self._opening:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> QdrantClient:
        try:
            from qdrant_client import QdrantClient
        except ImportError:
            raise RemoteConnectionError(
                "index.kind qdrant needs qdrant-client: pip install 'citelock[qdrant]'"
            ) from None
        try:
            key = bearer(self._key_env, self._key_setting).get("Authorization", "").removeprefix("Bearer ")
        except ModelError as error:
            raise RemoteConnectionError(str(error)) from None
        limits = httpx.Limits(max_connections=self._connections, max_keepalive_connections=self._connections)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a key over http, which `faults` reports
            return QdrantClient(
                url=self.url,
                port=urlsplit(self.url).port or 6333,
                timeout=max(1, round(self._timeout_s)),
                check_compatibility=False,
                limits=limits,
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
            raise self._failure(error.source) from None
        except QdrantException as error:
            raise BusyError(self._line(f"cannot be asked ({one_line(str(error))})")) from None
        except (
            AssertionError,
            ValueError,
        ) as error:  # of the client, which takes some of what an answer says for granted
            raise BusyError(self._line(f"sent what is no answer ({one_line(str(error))})")) from None

    def _refusal(self, status: int, content: bytes) -> RemoteError:
        said = one_line(content[:2000].decode("utf-8", "replace"))
        if status in (401, 403):
            return RemoteConnectionError(
                self._line(f"refuses the key of {self._key_setting}; set its variable ({said})")
            )
        if status in (408, 429) or status >= 500:
            return BusyError(self._line(f"answers HTTP {status} ({said})"))
        return RemoteDataError(
            self._line(f"answers HTTP {status} ({said}); `citelock generations repair` sends what is missing")
        )

    def _failure(self, error: Exception) -> RemoteError:
        if isinstance(error, httpx.TimeoutException):
            return RemoteTimeoutError(self._late())
        reason = one_line(str(error)) or type(error).__name__
        return BusyError(self._line(f"cannot be reached, or broke the connection ({reason})"))

    def _too_late(self) -> NoReturn:
        raise RemoteTimeoutError(self._late())

    def _late(self) -> str:
        return self._line(f"did not answer in time; index.statement_timeout_s is {self._timeout_s:g} s")

    def _line(self, what: str) -> str:
        return redacted(f"the Qdrant server at {self.url} {what}")
