"""A generation's points in Qdrant: their ids, fields, names, and reading them in the name of some reader classes. Every
point names its one generation and tenant in its payload, also if its collection is of that generation alone. An id is a
UUID whose upper half is a digest of (tenant, generation, kind of point) and whose lower half counts: the same
generation always has the same ids, and points of a kind come in their order."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args
from uuid import UUID

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from citelock_stores.qdrant import filters
from citelock_stores.qdrant.connection import QdrantConnection
from citelock_stores.qdrant.filters import GENERATION, POINT, READERS
from rag_serving.artifacts.manifest import Manifest
from rag_serving.artifacts.schema import TableSchema
from rag_serving.config.index import Index
from rag_serving.indexes.databases import RemoteDataError

if TYPE_CHECKING:
    from qdrant_client.models import QueryRequest, Record, ScoredPoint, SearchParams

FORMAT = 1
"""Of what is kept of a generation."""
_PREFIX = len("01234567-89ab-cdef-")
Payload = Mapping[str, Any]


def text_of(content: bytes) -> str:
    """Return bytes as a JSON string."""
    return base64.b64encode(content).decode("ascii")


def bytes_of(text: str) -> bytes:
    """Return the bytes of a text. Raises RemoteDataError: it is no base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise RemoteDataError(
            f"bytes in the database are damaged ({error}); run `citelock generations repair`"
        ) from error


def point_id(tenant: str, generation: str, kind: str, number: int) -> str:
    """Return the id of the point of a kind that has this number, such as a chunk's row."""
    return str(UUID(int=_upper(tenant, generation, kind) << 64 | number))


def id_prefix(tenant: str, generation: str, kind: str) -> str:
    """Return the common prefix of the ids of a generation's points of a kind."""
    return point_id(tenant, generation, kind, 0)[:_PREFIX]


def number_of(point: object) -> int:
    """Return the number that a point's id ends in; of thousands of points, so not by `UUID`. Raises ValueError: it is
    no id of ours."""
    lower = str(point)[_PREFIX:]
    return int(lower[:4] + lower[5:], 16)


def _upper(tenant: str, generation: str, kind: str) -> int:
    name = json.dumps([FORMAT, tenant, generation, kind]).encode()
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big")


class ManifestPayload(BaseModel):
    """A generation's own description in a server. `published_at`, `left_at`: when the alias last came and left.
    `points`: their number by kind. `vectors`, `bytes`: the generation's share of a quota."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    format: int
    content: str  # manifest.json in base64
    created_at: datetime
    newest: dict[str, datetime]
    classes: tuple[str, ...]
    points: dict[str, int]
    windows: bool
    vectors: int
    bytes: int
    complete: bool = False
    published_at: datetime | None = None
    left_at: datetime | None = None


@dataclass(frozen=True)
class StoredGeneration:
    """A generation in a server. `manifest`: None if unreadable."""

    id: str
    tenant: str
    collection: str
    manifest: ManifestPayload | None

    @property
    def is_whole(self) -> bool:
        """Whether all of it is stored."""
        return self.manifest is not None and self.manifest.complete

    @property
    def chunks(self) -> int:
        """The number of its chunks."""
        return self.manifest.points.get("chunk", 0) if self.manifest else 0

    @property
    def left_at(self) -> datetime | None:
        """The time when the alias left it; None if it did not, or never came."""
        return self.manifest.left_at if self.manifest else None

    @property
    def published_at(self) -> datetime | None:
        """The time when the alias last moved to it; None if it never did."""
        return self.manifest.published_at if self.manifest else None

    @property
    def created_at(self) -> datetime:
        """The time of its build."""
        return self.manifest.created_at if self.manifest else datetime.min.replace(tzinfo=UTC)


def manifest_of(payload: Payload | None, tenant: str, generation: str) -> ManifestPayload:
    """Return a generation's own description. Raises RemoteDataError: it is missing, of another format, or was not
    published as a whole."""
    where = f"generation {generation} of tenant {tenant!r}"
    try:
        manifest = ManifestPayload.model_validate(payload or {})
    except ValidationError:
        reason = "is not in the database" if payload is None else "has a damaged manifest in the database"
        raise RemoteDataError(f"{where} {reason}; run `citelock generations repair`") from None
    if manifest.format != FORMAT:
        raise RemoteDataError(f"{where} has format {manifest.format} in the database, this program reads {FORMAT}")
    if not manifest.complete:
        raise RemoteDataError(f"{where} is not in the database as a whole; run `citelock generations repair`")
    return manifest


def stored_generation(payload: Payload, collection: str) -> StoredGeneration:
    """Return the generation that the payload of a manifest is of."""
    tenant, generation = str(payload.get("tenant")), str(payload.get("generation"))
    try:
        manifest = manifest_of({**payload, "complete": True}, tenant, generation)
    except RemoteDataError:
        return StoredGeneration(generation, tenant, collection, None)
    manifest = manifest.model_copy(update={"complete": payload.get("complete") is True})
    return StoredGeneration(generation, tenant, collection, manifest)


def payload_of(row: Payload) -> dict[str, Any]:
    """Return a row as JSON, without nulls."""

    def as_json(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.isoformat()
        return text_of(value) if isinstance(value, bytes) else value

    return {name: as_json(value) for name, value in row.items() if value is not None}


def table_of(schema: TableSchema, payloads: Sequence[Payload]) -> pa.Table:
    """Return payloads as a table of these columns; a field that is missing is null. Raises RemoteDataError: a value is
    of another type."""
    columns = []
    try:
        for field in schema.columns:
            values = [payload.get(field.name) for payload in payloads]
            if pa.types.is_timestamp(field.type):
                values = [None if value is None else datetime.fromisoformat(value) for value in values]
            elif pa.types.is_binary(field.type):
                values = [None if value is None else bytes_of(value) for value in values]
            columns.append(pa.array(values, field.type))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise RemoteDataError(
            f"a point of {schema.name} is damaged ({error}); run `citelock generations repair`"
        ) from error
    return pa.table(columns, schema=schema.arrow)


class SearchSettings(NamedTuple):
    """The search settings of a generation's vectors. `ef`: candidates of the graph; None: all are compared."""

    windows: bool
    dimension: int
    ef: int | None


def search_settings(generation: str, payload: ManifestPayload, settings: Index) -> SearchSettings:
    """Return how a generation is searched. Raises RemoteDataError: its manifest is damaged."""
    try:
        manifest = Manifest.model_validate_json(bytes_of(payload.content))
    except ValidationError:
        raise RemoteDataError(
            f"the manifest of generation {generation} is damaged; run `citelock generations repair`"
        ) from None
    ef = settings.ef_search if manifest.chunks >= settings.ann_chunks else None
    return SearchSettings(payload.windows, manifest.embedder.dimension, ef)


class AliasTarget(NamedTuple):
    """The target of a tenant's alias."""

    alias: str
    collection: str
    generation: str


@dataclass(frozen=True)
class CollectionNames:
    """Names of collections and aliases. `base`: what they begin with; `shared`: one collection for all tenants."""

    base: str
    shared: bool

    @classmethod
    def of(cls, settings: Index) -> CollectionNames:
        """Return the configured layout."""
        return cls(settings.collection, settings.collections == "shared")

    def collection(self, tenant: str, generation: str) -> str:
        """Return the collection of a generation. Names of tenants and generations have no dot."""
        return self.base if self.shared else f"{self.base}.{tenant}.{generation}"

    def alias(self, tenant: str, generation: str) -> str:
        """Return the alias that publishes a generation."""
        return f"{self.base}.{tenant}.{generation}" if self.shared else f"{self.base}.{tenant}"

    def published(self, tenant: str, aliases: Iterable[tuple[str, str]]) -> list[AliasTarget]:
        """Return the targets of a tenant's aliases, of all (alias, collection): one if something is published."""
        targets = [
            AliasTarget(alias, collection, (alias if self.shared else collection).rpartition(".")[2])
            for alias, collection in aliases
        ]
        return [
            target
            for target in targets
            if target.alias == self.alias(tenant, target.generation)
            and target.collection == self.collection(tenant, target.generation)
        ]

    def generation_in(self, tenant: str, collection: str) -> str | None:
        """Return the generation that a collection of the tenant is of; None: it is none of the tenant's."""
        generation = collection.rpartition(".")[2]
        own = not self.shared and collection == self.collection(tenant, generation)
        return generation if own else None


class GenerationLocation(NamedTuple):
    """The location of a generation."""

    connection: QdrantConnection
    place: str  # its collection
    tenant: str
    generation: str


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
                lambda client, start=offset: client.scroll(  # type: ignore[misc]
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
        """Return the chunks of several searches at once. Tens of thousands of them, where terms are common: the
        client's objects for each would take most of the time."""
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
        """Return a point that is the generation's own, and open to the reader. Raises RemoteDataError: the server did
        not filter."""
        readers = (point.payload or {}).get(READERS)
        is_hidden = with_readers and self.classes.isdisjoint(readers if isinstance(readers, list) else [readers])
        if is_hidden or not str(point.id).startswith(self._prefixes[kind]):
            raise RemoteDataError(_UNASKED)
        return point


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
