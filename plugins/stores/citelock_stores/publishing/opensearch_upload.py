"""Sending the documents of a generation to OpenSearch.

Belongs here: making the index, `_bulk` and what it says of each document. Does not belong here: batches (`upload`), the
documents (`opensearch_documents`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from citelock_stores.opensearch import filters
from citelock_stores.opensearch.connection import found, reason_of
from citelock_stores.opensearch.layout import NUMBER, index_body
from citelock_stores.publishing.upload import LISTED, NumberedPoint, Upload
from citelock_stores.remote.point_ids import point_id
from citelock_stores.remote.repeated_requests import RepeatedRequests
from rag_serving.config.loading import Config
from rag_serving.escaping.redaction import redacted
from rag_serving.escaping.targets import one_line
from rag_serving.indexes.databases import BusyError, RemoteDataError

from citelock_stores.publishing.opensearch_documents import OpenSearchDocuments  # isort: skip

_BUSY = frozenset({408, 429, 502, 503, 504})
_SHOWN = 300  # characters of what the server says of a document

Document = tuple[str, dict[str, Any]]
"""The id of a document and what is sent of it."""


class OpenSearchUpload(Upload):
    """One generation on its way to its index."""

    def __init__(
        self, requests: RepeatedRequests[Any], index: str, documents: OpenSearchDocuments, config: Config
    ) -> None:
        super().__init__(requests, index, documents, config)
        self._settings = config.index

    def _ensure_collection(self) -> None:
        if self._exists():
            return
        body = index_body(self._points.manifest.embedder.dimension, self._settings)
        try:
            self._requests.ask(lambda client: client.indices.create(index=self.collection, body=body))
        except RemoteDataError:
            if not self._exists():  # else an earlier try was done, and its answer lost
                raise

    def _exists(self) -> bool:
        return bool(self._requests.ask(lambda client: client.indices.exists(index=self.collection)))

    def _present(self, kind: str) -> set[int]:
        self._refresh()
        body: dict[str, Any] = {
            "query": filters.unread(*self._name, kind),
            "_source": False,
            "sort": [{NUMBER: "asc"}],
            "size": LISTED,
        }
        numbers = set[int]()
        while True:
            hits = self._requests.ask(lambda client: found(client, self.collection, body))
            numbers |= {int(hit["sort"][0]) for hit in hits}
            if len(hits) < LISTED:
                return numbers
            body["search_after"] = hits[-1]["sort"]

    def _put(self, kind: str, points: Sequence[NumberedPoint]) -> None:
        left: list[Document] = [
            (point_id(*self._name, kind, number), {NUMBER: number, **point.payload, **point.vectors})
            for number, point in points
        ]
        tried = 0
        while left:
            refused = self._send(left, at_once=kind == "manifest")
            left = [document for document in left if document[0] in refused]
            tried += 1
            if left and tried == self._requests.tries:
                raise BusyError(self._told(len(left), refused[left[0][0]]))
            if left:
                self._requests.wait(tried)

    def _send(self, documents: Sequence[Document], at_once: bool) -> Mapping[str, str]:
        """Send some documents; return those that the server asks to send later, by id, and why.

        Raises:
            RemoteDataError: it refuses some for good.
        """
        lines = [line for name, source in documents for line in ({"index": {"_id": name}}, source)]
        params = {"refresh": "true" if at_once else "false"}
        items = self._requests.ask(lambda client: _bulk(client, self.collection, lines, params))
        faults = {name: (status, reason) for name, status, reason in items if status >= 300}
        if lost := [reason for status, reason in faults.values() if status not in _BUSY]:
            raise RemoteDataError(f"{self._told(len(lost), lost[0])}; mend that, and run `citelock generations repair`")
        if len(items) != len(documents):
            raise RemoteDataError(self._told(len(documents) - len(items), "no answer about them"))
        return {name: reason for name, (_, reason) in faults.items()}

    def _told(self, count: int, reason: str) -> str:
        said = one_line(reason)[:_SHOWN]
        return redacted(f"the OpenSearch server does not take {count} documents of index {self.collection} ({said})")

    def _finish(self, _: float) -> None:
        """Make what was sent visible to searches."""
        self._refresh()

    def _refresh(self) -> None:
        self._requests.ask(lambda client: client.indices.refresh(index=self.collection))


def _bulk(client: Any, index: str, lines: Sequence[Any], params: Mapping[str, str]) -> list[tuple[str, int, str]]:
    """Return id, status and fault of each document."""
    answer = client.bulk(index=index, body=lines, params=dict(params))
    items = [item["index"] for item in answer["items"]]
    return [(str(item["_id"]), int(item["status"]), reason_of(item)) for item in items]
