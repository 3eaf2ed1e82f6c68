"""The documents of one generation that some reader classes open.

Belongs here: requests by a reader, each with the reader's filter, and looking at what comes back.
Does not belong here: the filter (`filters`), tables (`reader`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from citelock_stores.opensearch import filters
from citelock_stores.opensearch.connection import Connection, Hit, found
from citelock_stores.opensearch.layout import DENSE, MOST, NUMBER, ROW, SPACE, VECTOR, DocumentKind
from citelock_stores.remote.point_ids import id_prefix
from citelock_stores.remote.stored import READERS
from rag_serving.indexes.databases import RemoteDataError

Source = Mapping[str, Any]
"""Fields of a document."""
_PAGES: Mapping[DocumentKind, int] = {"block": 20, "posting": 50, "piece": 10}  # documents of one answer: large ones
_PAGE = 1000
_UNASKED = "the OpenSearch server answers with a document that was not asked for, which is not shown"


class Held(NamedTuple):
    """Where a generation is."""

    connection: Connection
    place: str  # its index
    tenant: str
    generation: str


class ReadableDocuments:
    """Reads in the name of some reader classes. Safe to use from several threads."""

    def __init__(self, held: Held, classes: frozenset[str]) -> None:
        self._held, self.classes = held, classes
        self._sorted = sorted(classes)

    def every(
        self, kind: DocumentKind, fields: Sequence[str], conditions: Sequence[filters.Query] = ()
    ) -> Iterator[Source]:
        """Yield the documents of a kind, by number, with some of their fields."""
        if not self.classes:
            return
        size = _PAGES.get(kind, _PAGE)
        body = {
            "query": self._filter(kind, conditions),
            "_source": [*fields, READERS],
            "sort": [{NUMBER: "asc"}],
            "size": size,
        }
        while True:
            hits = self._found(kind, body)
            yield from (hit["_source"] for hit in hits)
            if len(hits) < size:
                return
            body["search_after"] = hits[-1]["sort"]

    def of_rows(self, kind: DocumentKind, rows: Sequence[int], fields: Sequence[str]) -> Iterator[Source]:
        """Yield the documents of some chunks, by number; those that may not be read are left out."""
        wanted = sorted({row for row in rows if row >= 0})
        for start in range(0, len(wanted), _PAGE):
            condition = filters.with_any(ROW, wanted[start : start + _PAGE])
            yield from self.every(kind, [ROW, *fields], [condition])

    def nearest(
        self, kind: DocumentKind, vector: Sequence[float], limit: int, ef: int | None, rows: Sequence[int] | None
    ) -> list[Source]:
        """Return the documents nearest to a vector [d], at most MOST, the best first: those of `rows` alone, if given.

        `ef`: candidates of the graph, which is searched within the filter; None: all are compared.
        """
        if not self.classes:
            return []
        narrowed = self._filter(kind, [] if rows is None else [filters.with_any(ROW, rows)])
        query = exact_query(vector, narrowed) if ef is None else graph_query(vector, limit, ef, narrowed)
        body = {"query": query, "size": limit, "_source": [ROW, VECTOR, READERS]}
        return [hit["_source"] for hit in self._found(kind, body)]

    def _filter(self, kind: DocumentKind, conditions: Sequence[filters.Query]) -> filters.Query:
        return filters.readable(self._held.tenant, self._held.generation, kind, self._sorted, conditions)

    def _found(self, kind: DocumentKind, body: Mapping[str, Any]) -> list[Hit]:
        """Return documents that are the generation's own, and open to the reader.

        Raises:
            RemoteDataError: the server did not filter.
        """
        prefix = id_prefix(self._held.tenant, self._held.generation, kind)
        hits = self._held.connection.ask(lambda client: found(client, self._held.place, body))
        if not all(str(hit["_id"]).startswith(prefix) and self._is_open(hit["_source"]) for hit in hits):
            raise RemoteDataError(_UNASKED)
        return hits

    def _is_open(self, source: Source) -> bool:
        readers = source.get(READERS)
        return not self.classes.isdisjoint(readers if isinstance(readers, list) else [readers])


def graph_query(vector: Sequence[float], k: int, ef: int, narrowed: filters.Query) -> filters.Query:
    """Return the search of a graph, which the filter is applied within."""
    asked = {"vector": vector, "k": k, "filter": narrowed, "method_parameters": {"ef_search": min(ef, MOST)}}
    return {"knn": {DENSE: asked}}


def exact_query(vector: Sequence[float], narrowed: filters.Query) -> filters.Query:
    """Return the comparison with all that a filter leaves."""
    params = {"field": DENSE, "query_value": vector, "space_type": SPACE}
    script = {"lang": "knn", "source": "knn_score", "params": params}
    return {"script_score": {"query": narrowed, "script": script}}
