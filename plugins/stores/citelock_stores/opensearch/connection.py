"""The connection to an OpenSearch server: its client, the meaning of its errors, the completeness of its answers.

Belongs here: opening the client, reading its errors and hits. Does not belong here: requests (`reader`, the writer),
limits of time (`remote.connections`), trying again (the writer; a question goes on without).
"""

from __future__ import annotations

import base64
import logging
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from citelock_stores.remote.connections import ServerConnection
from rag_serving.indexes.databases import RemoteConnectionError, RemoteDataError, RemoteError

if TYPE_CHECKING:
    from opensearchpy import OpenSearch
    from opensearchpy.exceptions import TransportError

Result = TypeVar("Result")
Hit = Mapping[str, Any]
"""A document that was found: `_id`, `_source`, `_score`, `sort`."""


class MissingIndexError(RemoteDataError):
    """There is no index, alias or document of that name."""


class PartialError(ValueError):
    """An answer of some shards alone."""


class OpenSearchConnection(ServerConnection["OpenSearch"]):
    """One OpenSearch server, with one key. Safe to use from several threads; creating one sends nothing."""

    product = "OpenSearch"

    def _connect(self) -> OpenSearch:
        try:
            from opensearchpy import OpenSearch
        except ImportError:
            raise RemoteConnectionError(
                "index.kind opensearch needs opensearch-py: pip install 'citelock[stores]'"
            ) from None
        logging.getLogger("opensearch").setLevel(logging.CRITICAL)  # the errors list the failures
        key, headers = self._key(), dict[str, str]()
        if key:
            basic = f"Basic {base64.b64encode(key.encode()).decode('ascii')}"
            headers["Authorization"] = basic if ":" in key else f"Bearer {key}"
        return OpenSearch(
            self.url,
            headers=headers,
            timeout=self._timeout_s,
            max_retries=0,
            pool_maxsize=self._settings.connections,
            ssl_context=self._certificates() if self.url.startswith("https:") else None,
        )

    def _certificates(self) -> ssl.SSLContext:
        path = self._settings.ca_file
        try:
            return ssl.create_default_context(cafile=str(path) if path else None)
        except (OSError, ssl.SSLError) as error:
            raise RemoteConnectionError(f"index.ca_file {path} cannot be read ({error}); name a file of PEM") from None

    def _answer(self, client: OpenSearch, request: Callable[[OpenSearch], Result]) -> Result:
        from opensearchpy import exceptions

        try:
            return request(client)
        except exceptions.ConnectionTimeout:
            raise self._late() from None
        except exceptions.ConnectionError as error:
            raise self._broken(error.info if isinstance(error.info, Exception) else error) from None
        except exceptions.TransportError as error:
            raise self._refused(error) from None
        except (exceptions.OpenSearchException, KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._no_answer(error) from None

    def _refused(self, error: TransportError) -> RemoteError:
        status = error.status_code if isinstance(error.status_code, int) else 0
        refusal = self._refusal(status, reason_of(error.info).encode("utf-8", "replace"))
        return MissingIndexError(str(refusal)) if status == 404 else refusal


def reason_of(answer: object) -> str:
    """Return the error named in an answer."""
    error = answer.get("error") if isinstance(answer, dict) else answer
    if isinstance(error, dict):
        causes = error.get("root_cause") or [error]
        cause = causes[0] if isinstance(causes[0], dict) else error
        return f"{cause.get('type')}: {cause.get('reason')}"
    return str(error)


def found(client: OpenSearch, index: str, body: Mapping[str, Any]) -> list[Hit]:
    """Return the results of a search, for `OpenSearchConnection.ask`.

    Raises:
        PartialError: some shards did not answer, or not in time.
    """
    answer = client.search(
        index=index, body={"track_total_hits": False, **body}, params={"allow_partial_search_results": "false"}
    )
    if answer["timed_out"] or answer["_shards"]["failed"]:
        raise PartialError("some shards did not answer")
    hits: list[Hit] = answer["hits"]["hits"]
    return hits


def counted(client: OpenSearch, index: str, query: Mapping[str, Any]) -> int:
    """Return the number of documents that match a query; errors as those of `found`."""
    answer = client.count(index=index, body={"query": query})
    if answer["_shards"]["failed"]:
        raise PartialError("some shards did not answer")
    return int(answer["count"])


def aliases_of(client: OpenSearch, **which: str) -> list[tuple[str, str]]:
    """Return (alias, index) of the aliases of a name (`name`)."""
    return [(alias, index) for index, held in client.indices.get_alias(**which).items() for alias in held["aliases"]]
