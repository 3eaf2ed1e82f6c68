"""One generation in OpenSearch, read on behalf of one principal.

Belongs here: requests by a reader, each with the reader's filter; validating the response; its tables and postings.
Does not belong here: the filter (`filters`), choosing the generation (`store`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from citelock_stores.opensearch import filters
from citelock_stores.opensearch.connection import Hit, found
from citelock_stores.opensearch.filters import DENSE, MOST, NUMBER, ROW, SPACE, VECTOR, DocumentKind
from citelock_stores.remote.nearest import NearestHits, k_nearest, nearest_of
from citelock_stores.remote.protocol import Nearest, PostingKind, Postings, Rows, Vector, WindowVectors
from citelock_stores.remote.stored import (
    READERS,
    GenerationLocation,
    SearchSettings,
    bytes_of,
    id_prefix,
    pack_table,
    table_of,
    term_hash,
    text_of,
    unpack_tables,
)
from citelock_stores.remote.tables import (
    REMOTE_CHUNKS,
    REMOTE_ORIGINALS,
    REMOTE_PLACES,
    REMOTE_SEALS,
    REMOTE_SENTENCES,
    REMOTE_TERMS,
    REMOTE_TEXTS,
    TEXT_COLUMNS,
)
from rag_serving.artifacts.columns import numbers_of
from rag_serving.indexes import exact
from rag_serving.indexes.databases import RemoteDataError
from rag_serving.indexes.exact import VectorTable

_SCHEMA = pa.schema([("term", pa.string()), ("rows", pa.list_(pa.int32())), ("counts", pa.list_(pa.int32()))])


class TermRows(NamedTuple):
    """Some of the chunks of one reader class that have a term."""

    term: str
    rows: NDArray[Any]  # ascending
    counts: NDArray[Any] | None  # None: 1 each


def pack_postings(postings: Sequence[TermRows]) -> str:
    """Return postings in a few characters."""
    terms = pa.array([each.term for each in postings], pa.string())
    rows = [np.asarray(each.rows, np.int32) for each in postings]
    counts = [np.ones(len(each.rows), np.int32) if each.counts is None else each.counts for each in postings]
    return text_of(pack_table(pa.table([terms, _lists(rows), _lists(counts)], schema=_SCHEMA)))


def unpack_postings(packed: Iterable[str], terms: Collection[str]) -> Mapping[str, Postings]:
    """Return those of some terms, of all reader classes together; terms of none are left out.

    Raises:
        RemoteDataError: they are damaged.
    """
    table = unpack_tables([*map(bytes_of, packed)], _SCHEMA, ["term"])
    table = table.filter(pc.is_in(table["term"], pa.array(sorted(set(terms)), pa.string())))
    parts = defaultdict[str, list[tuple[Any, Any]]](list)
    for term, rows, counts in zip(table["term"].to_pylist(), table["rows"], table["counts"], strict=True):
        parts[term].append((numbers_of(rows.values), numbers_of(counts.values)))
    return {term: _joined(each) for term, each in parts.items()}


def _joined(parts: Sequence[tuple[Any, Any]]) -> Postings:
    rows = np.concatenate([rows for rows, _ in parts]).astype(np.int64)
    counts = np.concatenate([counts for _, counts in parts]).astype(np.int32)
    order = np.argsort(rows, kind="stable")
    return Postings(rows[order], counts[order])


def _lists(arrays: Sequence[NDArray[Any]]) -> pa.Array:
    borders = np.cumsum([0, *map(len, arrays)]).astype(np.int32)
    values = np.concatenate([np.zeros(0, np.int32), *arrays]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(borders), pa.array(values))


Source = Mapping[str, Any]
"""Fields of a document."""
_PAGES: Mapping[DocumentKind, int] = {"block": 20, "posting": 50, "piece": 10}  # documents of one answer: large ones
_PAGE = 1000
_UNASKED = "the OpenSearch server answers with a document that was not asked for, which is not shown"


class ReadableDocuments:
    """Reads in the name of some reader classes. Safe to use from several threads."""

    def __init__(self, held: GenerationLocation, classes: frozenset[str]) -> None:
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
        hits: list[Hit] = self._held.connection.ask(lambda client: found(client, self._held.place, body))
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


_NAMED = 2000  # rows that a request names one by one; for more, the best are fetched until enough are among them
_PART = 50_000  # rows that a request names where not even MOST hits have enough of them
_EF_FOR_EACH = 8  # candidates for each requested chunk, as for Qdrant's graphs
_ERROR = 2e-6  # cosines by which the order of the server may differ


class OpenSearchReader:
    """The part of a generation open to some reader classes; a `RemoteReader`. Safe to use from several threads."""

    def __init__(self, documents: ReadableDocuments, settings: SearchSettings) -> None:
        self._documents, self._settings = documents, settings
        self._vectors: DocumentKind = "window" if settings.windows else "chunk"

    def classes(self) -> frozenset[str]:
        return self._documents.classes

    def chunks(self) -> pa.Table:
        return self._table("chunks", REMOTE_CHUNKS.columns, ["row"])

    def places(self) -> pa.Table:
        return self._table("places", REMOTE_PLACES.columns, ["row", "place"])

    def originals(self) -> pa.Table:
        return self._table("originals", REMOTE_ORIGINALS.columns, ["page_id"])

    def original(self, sha256: str) -> bytes:
        named = [filters.with_value("sha256", sha256)]
        pieces = [bytes_of(source.get("bytes", "")) for source in self._documents.every("piece", ["bytes"], named)]
        if not pieces:
            raise RemoteDataError("the file of a page is not in the OpenSearch server, or may not be read")
        return b"".join(pieces)

    def seals(self) -> pa.Table:
        return self._table("seals", REMOTE_SEALS.columns, ["readers", "part"])

    def texts(self, rows: Sequence[int]) -> pa.Table:
        return table_of(REMOTE_TEXTS, [*self._documents.of_rows("chunk", rows, TEXT_COLUMNS)])

    def sentences(self, rows: Sequence[int]) -> pa.Table:
        sources = self._documents.of_rows("chunk", rows, ["records"])
        return table_of(REMOTE_SENTENCES, [source for source in sources if "records" in source])

    def vectors(self, rows: Sequence[int]) -> WindowVectors:
        of_rows = defaultdict[int, list[NDArray[np.float32]]](list)
        for source in self._documents.of_rows(self._vectors, rows, [VECTOR]):
            of_rows[source[ROW]].append(self._vector(source))
        if missing := [row for row in rows if row not in of_rows]:
            raise RemoteDataError(f"{len(missing)} chunks have no vector in the OpenSearch server that may be read")
        found = [vector for row in rows for vector in of_rows[row]]
        counts = np.array([len(of_rows[row]) for row in rows], np.int64)
        return WindowVectors(counts, self._matrix(found))

    def nearest(self, vector: Vector, k: int, among: Rows | None = None) -> Nearest:
        query = np.ascontiguousarray(vector, np.float32)
        if k <= 0 or not self._documents.classes or (among is not None and not len(among)):
            return nearest_of([], 0)
        if among is None or len(among) <= _NAMED:
            return self._of(query, k, None if among is None else among)
        found = k_nearest(lambda asked: self._search(query, asked, None), k, among, MOST)
        if found is not None:
            return found
        parts = [self._of(query, k, among[start : start + _PART]) for start in range(0, len(among), _PART)]
        hits = [hit for part in parts for hit in zip(part.rows.tolist(), part.scores.tolist(), strict=True)]
        return nearest_of(hits, k)

    def postings(self, kind: PostingKind, terms: Sequence[str]) -> Mapping[str, Postings]:
        if not terms:
            return {}
        conditions = [
            filters.with_value("posting", kind),
            filters.with_any("keys", sorted({term_hash(term) for term in terms})),
        ]
        sources = self._documents.every("posting", ["packed"], conditions)
        return unpack_postings((source.get("packed", "") for source in sources), terms)

    def vocabulary(self, kind: PostingKind) -> pa.Table:
        table = self._table(kind, REMOTE_TERMS.columns, ["term"])
        summed = table.group_by("term", use_threads=False).aggregate([("chunks", "sum")])
        columns = [summed["term"], summed["chunks_sum"]]
        return pa.table(columns, schema=REMOTE_TERMS.columns).combine_chunks()

    def _table(self, block: str, schema: pa.Schema, order: Sequence[str]) -> pa.Table:
        sources = self._documents.every("block", ["packed"], [filters.with_value("block", block)])
        return unpack_tables([bytes_of(source.get("packed", "")) for source in sources], schema, order)

    def _of(self, query: Vector, k: int, rows: Rows | None) -> Nearest:
        """Return the k nearest of some rows, or of all; at most MOST documents are looked at."""
        named = None if rows is None else rows.tolist()
        found = k_nearest(lambda asked: self._search(query, asked, named), k, None, MOST)
        return nearest_of(self._search(query, MOST, named).hits, k) if found is None else found

    def _search(self, query: Vector, limit: int, rows: Sequence[int] | None) -> NearestHits:
        """Return the nearest chunks by their own vectors. Where a graph finds too few, all are compared."""
        limit, values = min(limit, MOST), query.tolist()
        ef = None if self._settings.ef is None or rows is not None else max(self._settings.ef, _EF_FOR_EACH * limit)
        sources = self._documents.nearest(self._vectors, values, limit, ef, rows)
        if len(sources) < limit and ef is not None:
            sources = self._documents.nearest(self._vectors, values, limit, None, rows)
        scores = self._cosines(query, sources)
        best: dict[int, float] = {}
        for source, score in zip(sources, scores.tolist(), strict=True):
            best[source[ROW]] = max(score, best.get(source[ROW], -np.inf))
        lowest = float(scores.min()) + _ERROR if len(scores) else 0.0
        return NearestHits([*best.items()], len(sources) < limit, lowest)

    def _cosines(self, query: Vector, sources: Sequence[Source]) -> NDArray[np.float32]:
        table = VectorTable(self._matrix([self._vector(source) for source in sources]))
        return exact.similarities(table, query, np.arange(len(sources), dtype=np.int64))

    def _matrix(self, vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        empty = np.zeros((0, self._settings.dimension), np.float32)
        return np.concatenate([empty, *(vector[None] for vector in vectors)])

    def _vector(self, source: Source) -> NDArray[np.float32]:
        """Return a vector [d].

        Raises:
            RemoteDataError: it is of another dimension.
        """
        content = bytes_of(source.get(VECTOR, ""))
        if len(content) != 4 * self._settings.dimension or not isinstance(source.get(ROW), int):
            raise RemoteDataError(
                "a chunk's vector in the OpenSearch server is damaged; run `citelock generations repair`"
            )
        return np.frombuffer(content, "<f4").astype(np.float32)
