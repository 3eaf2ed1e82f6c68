"""Comparing what OpenSearch holds of a generation with its files.

Belongs here: the requests. Does not belong here: what is compared (`point_checks`), sending the documents
(`opensearch_upload`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from citelock_stores.opensearch import filters
from citelock_stores.opensearch.connection import counted, found
from citelock_stores.opensearch.layout import MOST, ROW
from citelock_stores.opensearch.packed_postings import unpack_postings
from citelock_stores.opensearch.readable_documents import graph_query
from citelock_stores.publishing.opensearch_documents import OpenSearchDocuments
from citelock_stores.publishing.point_checks import NEAREST, PROBES, Counts, PointChecks
from citelock_stores.remote.packing import term_hash
from citelock_stores.remote.protocol import PostingKind
from citelock_stores.remote.repeated_requests import RepeatedRequests
from rag_serving.config.loading import Config

_OF_A_CHUNK = 8  # windows that are asked for in place of one chunk


class OpenSearchChecks(PointChecks):
    """Compares one generation in one index."""

    def __init__(
        self, requests: RepeatedRequests[Any], index: str, documents: OpenSearchDocuments, config: Config
    ) -> None:
        super().__init__(index, documents, config.indexing)
        self._requests, self._ef, self._documents = requests, config.index.ef_search, documents
        self._name = documents.manifest.tenant, documents.manifest.id

    def _count(self, kind: str) -> int:
        narrowed = filters.unread(*self._name, kind)
        return int(self._requests.ask(lambda client: counted(client, self.collection, narrowed)))

    def _nearest(self, queries: NDArray[np.float32]) -> Sequence[Sequence[int]]:
        several = self._points.has_windows
        narrowed = filters.unread(*self._name, "window" if several else "chunk")
        limit = NEAREST * (_OF_A_CHUNK if several else 1)
        rows = []
        for query in queries:
            nearest = graph_query(query.tolist(), limit, self._ef, narrowed)
            hits = self._found({"query": nearest, "size": limit, "_source": [ROW]})
            rows.append([*dict.fromkeys(int(hit["_source"][ROW]) for hit in hits)][:NEAREST])
        return rows

    def _terms(self, kind: PostingKind) -> Iterator[tuple[str, Counts, Counts]]:
        sent = self._documents.sample(kind, PROBES)
        for term, counts in sent.items():
            conditions = [filters.with_value("posting", kind), filters.with_any("keys", [term_hash(term)])]
            narrowed = filters.unread(*self._name, "posting", conditions)
            hits = self._found({"query": narrowed, "size": MOST, "_source": ["packed"]})
            postings = unpack_postings([hit["_source"].get("packed", "") for hit in hits], [term]).get(term)
            there = {} if postings is None else dict(zip(postings.rows.tolist(), postings.counts.tolist(), strict=True))
            yield term, there, counts

    def _found(self, body: dict[str, Any]) -> Any:
        return self._requests.ask(lambda client: found(client, self.collection, body))
