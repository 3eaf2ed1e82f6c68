"""The connection to a Qdrant server: its client, and the meaning of its errors.

Belongs here: opening the client, reading its errors. Does not belong here: requests (`points`, the writer), limits of
time (`remote.connections`), trying again (the writer; a question goes on without).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import httpx

from citelock_stores.remote.connections import ServerConnection
from rag_serving.escaping.targets import one_line
from rag_serving.indexes.databases import BusyError, RemoteConnectionError, RemoteError

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

Result = TypeVar("Result")


class QdrantConnection(ServerConnection["QdrantClient"]):
    """One Qdrant server, with one key. Safe to use from several threads; creating one sends nothing."""

    product = "Qdrant"

    def _connect(self) -> QdrantClient:
        try:
            from qdrant_client import QdrantClient
        except ImportError:
            raise RemoteConnectionError(
                "index.kind qdrant needs qdrant-client: pip install 'citelock[stores]'"
            ) from None
        key, most = self._key(), self._settings.connections
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
            raise self._failure(error.source) from None
        except QdrantException as error:
            raise BusyError(self._line(f"cannot be asked ({one_line(str(error))})")) from None
        except (
            AssertionError,
            ValueError,
        ) as error:  # of the client, which takes some of what an answer says for granted
            raise self._no_answer(error) from None

    def _failure(self, error: Exception) -> RemoteError:
        return self._late() if isinstance(error, httpx.TimeoutException) else self._broken(error)
