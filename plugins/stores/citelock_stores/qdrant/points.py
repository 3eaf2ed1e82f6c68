"""The points of one generation in Qdrant: their kinds, fields and vectors, and reading them as some reader classes.

Belongs here: names, requests by a reader, each with the reader's filter, and looking at what comes back.
Does not belong here: the filter (`filters`), ids (`remote.stored`), tables (`reader`).

Every point names its one generation and tenant in its payload, also if its collection is of that
generation alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from citelock_stores.qdrant import filters
from citelock_stores.remote.stored import GENERATION, POINT, READERS, GenerationLocation, id_prefix, number_of, point_id
from rag_serving.indexes.databases import RemoteDataError

if TYPE_CHECKING:
    from qdrant_client.models import QueryRequest, Record, ScoredPoint, SearchParams


PointKind = Literal["chunk", "place", "original", "piece", "terms", "seal", "manifest"]
"""chunk: a chunk with its text and vectors. place: another place of a chunk's text. original: the file of a page.
piece: a part of its bytes. terms: a part of the vocabulary of a reader class. seal: a part of what seals a reader
class (REMOTE_SEALS). manifest: what the generation says of itself."""

DENSE, WINDOWS = "dense", "windows"
"""Vectors of chunks: one for each, or a multivector of its windows, of which the nearest counts."""
SPARSE = {"lexical": "lexical-counts", "keyword": "keyword-counts"}
"""Sparse vectors by kind of posting: how often the chunk has the term of each number."""
HNSW_M, HNSW_EF_CONSTRUCT = 16, 100

KEYWORD_FIELDS = (GENERATION, POINT, READERS, "posting", "sha256")
"""Payload fields with a keyword index beside `tenant`."""
BOOK_FIELDS = {
    "chapter": "keyword",
    "section": "keyword",
    "page": "integer",
    "passage_id": "keyword",
    "source_file": "keyword",
    "text": "text",
}
"""Payload fields of the passages of a book, each with an index of its own."""


NumberedScore = tuple[int, float]
"""The number of a chunk and its score."""
_PAGE = 1000  # points of one answer
_UNASKED = "the Qdrant server answers with a point that was not asked for, which is not shown"


class PointSearch(NamedTuple):
    """One search: by a vector [d], or by the number of a term, of the named vectors of chunks."""

    using: str
    query: Any
    limit: int


class ReadablePoints:
    """Reads in the name of some reader classes. Safe to use from several threads."""

    def __init__(self, held: GenerationLocation, classes: frozenset[str]) -> None:
        self._held, self.classes = held, classes
        self._sorted = sorted(classes)
        self._prefixes = {kind: id_prefix(held.tenant, held.generation, kind) for kind in get_args(PointKind)}

    def scroll(
        self, kind: PointKind, fields: Sequence[str], conditions: Sequence[Any] = (), vector: str | None = None
    ) -> Iterator[Record]:
        """Yield the points of a kind, by number, with some fields of their payload and one of their vectors."""
        if not self.classes:
            return
        narrowed = self._filter(kind, conditions)
        offset: Any = None
        while True:
            records, offset = self._held.connection.ask(
                lambda client, start=offset: client.scroll(
                    self._held.place,
                    scroll_filter=narrowed,
                    limit=_PAGE,
                    offset=start,
                    with_payload=[*fields, READERS],
                    with_vectors=[vector] if vector else False,
                )
            )
            yield from (self._checked(record, kind) for record in records)
            if offset is None:
                return

    def of_rows(self, rows: Sequence[int], fields: Sequence[str], vector: str | None = None) -> Iterator[Record]:
        """Yield the chunks of some rows, in any order; those that may not be read are left out."""
        ids = [self._id("chunk", row) for row in rows if row >= 0]
        for start in range(0, len(ids), _PAGE):
            condition = filters.with_ids(ids[start : start + _PAGE])
            yield from self.scroll("chunk", fields, [condition], vector)

    def nearest(
        self, search: PointSearch, params: SearchParams | None = None, rows: Sequence[int] | None = None
    ) -> list[ScoredPoint]:
        """Return the chunks nearest to a vector, the best first; `rows`: of those alone."""
        conditions = [] if rows is None else [filters.with_ids([self._id("chunk", row) for row in rows])]
        return self._searched([search], [READERS], params, conditions)[0] if self.classes else []

    def with_terms(self, searches: Sequence[PointSearch]) -> list[list[NumberedScore]]:
        """Return the chunks of several searches at once.

        Tens of thousands of them, where terms are common: the client's objects for each would take most of the time.
        """
        if not self.classes or not searches:
            return [[] for _ in searches]
        from qdrant_client.models import QueryRequestBatch

        narrowed, prefix = self._filter("chunk", []), self._prefixes["chunk"]
        batch = QueryRequestBatch(searches=[_request(search, narrowed, False, None) for search in searches])
        answer = self._held.connection.ask(
            lambda client: client.http.client.request(
                type_=dict[str, Any],
                method="POST",
                url="/collections/{collection_name}/points/query/batch",
                path_params={"collection_name": self._held.place},
                headers={"Content-Type": "application/json"},
                content=batch.model_dump_json(exclude_unset=True),
            )
        )
        try:
            listed = [[(point["id"], point["score"]) for point in each["points"]] for each in answer["result"]]
            found = [[(number_of(name), score) for name, score in each if name.startswith(prefix)] for each in listed]
        except (KeyError, TypeError, ValueError, AttributeError):
            raise RemoteDataError("the Qdrant server answers a search with what is none") from None
        if [*map(len, found)] != [*map(len, listed)] or len(found) != len(searches):
            raise RemoteDataError(_UNASKED)
        return found

    def _searched(
        self,
        searches: Sequence[PointSearch],
        fields: Sequence[str] | bool,
        params: SearchParams | None,
        conditions: Sequence[Any],
    ) -> list[list[ScoredPoint]]:
        narrowed = self._filter("chunk", conditions)
        requests = [_request(search, narrowed, fields, params) for search in searches]
        responses = self._held.connection.ask(
            lambda client: client.query_batch_points(self._held.place, requests=requests)
        )
        if len(responses) != len(searches):
            raise RemoteDataError(f"the Qdrant server answers {len(responses)} of {len(searches)} searches")
        return [[self._checked(point, "chunk", bool(fields)) for point in response.points] for response in responses]

    def _filter(self, kind: PointKind, conditions: Sequence[Any]) -> Any:
        return filters.readable(self._held.tenant, self._held.generation, kind, self._sorted, conditions)

    def _id(self, kind: PointKind, number: int) -> str:
        return point_id(self._held.tenant, self._held.generation, kind, number)

    def _checked(self, point: Any, kind: PointKind, with_readers: bool = True) -> Any:
        """Return a point that is the generation's own, and open to the reader.

        Raises:
            RemoteDataError: the server did not filter.
        """
        is_own = str(point.id).startswith(self._prefixes[kind])
        if not is_own or (with_readers and not self._is_open((point.payload or {}).get(READERS))):
            raise RemoteDataError(_UNASKED)
        return point

    def _is_open(self, readers: Any) -> bool:
        named = readers if isinstance(readers, list) else [readers]
        return not self.classes.isdisjoint(named)


def _request(
    search: PointSearch, narrowed: Any, fields: Sequence[str] | bool, params: SearchParams | None
) -> QueryRequest:
    from qdrant_client.models import QueryRequest

    return QueryRequest(
        query=search.query,
        using=search.using,
        filter=narrowed,
        limit=search.limit,
        params=params,
        with_payload=fields if isinstance(fields, bool) else list(fields),
    )
