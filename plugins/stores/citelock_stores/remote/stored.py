"""The stored form of a generation in a database.

Belongs here: numbers, tables and bytes both ways; ids, payloads and names in a server with collections and aliases.
Does not belong here: forms of one database alone, sending them.

An id is a UUID whose upper half is a digest of (tenant, generation, kind of point) and whose lower half counts: the
same generation always has the same ids, and points of a kind come in their order.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from rag_serving.artifacts.manifest import Manifest
from rag_serving.artifacts.schema import TableSchema
from rag_serving.config.index import Index
from rag_serving.indexes.databases import RemoteDataError


def pack_numbers(numbers: NDArray[np.int32]) -> bytes:
    """Return 32-bit numbers, little endian."""
    return numbers.astype("<i4").tobytes()


def unpack_numbers(packed: bytes) -> NDArray[np.int32]:
    """Return the numbers of `pack_numbers`."""
    return np.frombuffer(packed, "<i4").astype(np.int32)


def pack_table(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream, compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpack_tables(packed: Iterable[bytes], schema: pa.Schema, order: Sequence[str]) -> pa.Table:
    """Return tables of one schema in one, by some of its columns, ascending.

    Raises:
        RemoteDataError: one cannot be read, or has other columns.
    """
    try:
        tables = [pa.ipc.open_stream(content).read_all() for content in packed]
    except (pa.ArrowException, OSError) as error:
        raise RemoteDataError("a catalog of the database cannot be read; publish the generation again") from error
    if any(not table.schema.equals(schema) for table in tables):
        raise RemoteDataError("a catalog of the database is of another version; publish the generation again")
    whole = pa.concat_tables(tables) if tables else schema.empty_table()
    return whole.sort_by([(name, "ascending") for name in order]).combine_chunks().replace_schema_metadata(None)


def term_hash(term: str) -> int:
    """Return the key of a term: 64 bits with a sign."""
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)


def text_of(content: bytes) -> str:
    """Return bytes as a JSON string."""
    return base64.b64encode(content).decode("ascii")


def bytes_of(text: str) -> bytes:
    """Return the bytes of a text.

    Raises:
        RemoteDataError: it is no base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise RemoteDataError(
            f"bytes in the database are damaged ({error}); run `citelock generations repair`"
        ) from error


FORMAT = 1
"""Of what is kept of a generation."""
_PREFIX = len("01234567-89ab-cdef-")


def point_id(tenant: str, generation: str, kind: str, number: int) -> str:
    """Return the id of the point of a kind that has this number, such as a chunk's row."""
    return str(UUID(int=_upper(tenant, generation, kind) << 64 | number))


def id_prefix(tenant: str, generation: str, kind: str) -> str:
    """Return the common prefix of the ids of a generation's points of a kind."""
    return point_id(tenant, generation, kind, 0)[:_PREFIX]


def number_of(point: object) -> int:
    """Return the number that a point's id ends in; of thousands of points, so not by `UUID`.

    Raises:
        ValueError: it is no id of ours.
    """
    lower = str(point)[_PREFIX:]
    return int(lower[:4] + lower[5:], 16)


def _upper(tenant: str, generation: str, kind: str) -> int:
    name = json.dumps([FORMAT, tenant, generation, kind]).encode()
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big")


Payload = Mapping[str, Any]

TENANT, GENERATION, POINT, READERS = "tenant", "generation", "point", "readers"
"""Fields of all that a server holds: whose it is, and of what kind."""


class ManifestPayload(BaseModel):
    """A generation's own description in a server. `published_at`, `left_at`: when the alias last came and left.

    `points`: their number by kind. `vectors`, `bytes`: the generation's share of a quota.
    """

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
    """Return a generation's own description.

    Raises:
        RemoteDataError: it is missing, of another format, or was not published as a whole.
    """
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
    return {name: _json(value) for name, value in row.items() if value is not None}


def table_of(schema: TableSchema, payloads: Sequence[Payload]) -> pa.Table:
    """Return payloads as a table of these columns; a field that is missing is null.

    Raises:
        RemoteDataError: a value is of another type.
    """
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


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return text_of(value) if isinstance(value, bytes) else value


class SearchSettings(NamedTuple):
    """The search settings of a generation's vectors. `ef`: candidates of the graph; None: all are compared."""

    windows: bool
    dimension: int
    ef: int | None


def search_settings(generation: str, payload: ManifestPayload, settings: Index) -> SearchSettings:
    """Return how a generation is searched.

    Raises:
        RemoteDataError: its manifest is damaged.
    """
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

    connection: Any
    place: str  # its collection or index
    tenant: str
    generation: str
