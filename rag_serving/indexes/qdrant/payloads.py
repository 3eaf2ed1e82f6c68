"""Rows of tables as payloads of points, and back.

Belongs here: values as JSON has them, packed vocabularies, the manifest's payload. Does not belong here: which fields
there are (`remote.tables`, `layout`), sending them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from rag_serving.artifacts.schema import TableSchema
from rag_serving.indexes.qdrant.layout import FORMAT
from rag_serving.indexes.remote.errors import RemoteDataError

Payload = Mapping[str, Any]

_PACKED = pa.schema([("term", pa.string()), ("number", pa.int32()), ("chunks", pa.int64())])


class PackedTerms(NamedTuple):
    """Terms of one reader class in code point order, the number of each, and how many chunks of the class have it."""

    terms: pa.Array
    numbers: pa.Array
    chunks: pa.Array


class ManifestPayload(BaseModel):
    """What a generation says of itself in Qdrant. `published_at`, `left_at`: when the alias came to it last, and went.

    `points`: how many there are of each kind. `vectors`, `bytes`: what the generation takes of a quota.
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


def payload_of(row: Payload) -> dict[str, Any]:
    """Return a row as JSON has it; what is null is left out."""
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


def manifest_of(payload: Payload | None, tenant: str, generation: str) -> ManifestPayload:
    """Return what a generation says of itself.

    Raises:
        RemoteDataError: it is missing, of another format, or was not published as a whole.
    """
    where = f"generation {generation} of tenant {tenant!r}"
    try:
        manifest = ManifestPayload.model_validate(payload or {})
    except ValidationError:
        reason = "is not in the Qdrant server" if payload is None else "has a damaged manifest in the Qdrant server"
        raise RemoteDataError(f"{where} {reason}; run `citelock generations repair`") from None
    if manifest.format != FORMAT:
        raise RemoteDataError(f"{where} has format {manifest.format} in the Qdrant server, this program reads {FORMAT}")
    if not manifest.complete:
        raise RemoteDataError(f"{where} is not in the Qdrant server as a whole; run `citelock generations repair`")
    return manifest


def pack_terms(terms: Sequence[str], numbers: Sequence[int], chunks: Sequence[int]) -> str:
    """Return terms with their numbers and chunks in a few characters."""
    arrays = [pa.array(values, field.type) for values, field in zip((terms, numbers, chunks), _PACKED, strict=True)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _PACKED, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_batch(pa.record_batch(arrays, schema=_PACKED))
    return text_of(sink.getvalue().to_pybytes())


def unpack_terms(packed: str) -> PackedTerms:
    """Return what was packed.

    Raises:
        RemoteDataError: it is damaged.
    """
    try:
        table = pa.ipc.open_stream(bytes_of(packed)).read_all()
        if table.schema != _PACKED or any(column.null_count for column in table.columns):
            raise ValueError("other columns")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RemoteDataError(
            f"a vocabulary in the Qdrant server is damaged ({error}); run `citelock generations repair`"
        ) from error
    return PackedTerms(*(column.combine_chunks() for column in table.columns))


def text_of(content: bytes) -> str:
    """Return bytes as JSON can hold them."""
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
            f"bytes in the Qdrant server are damaged ({error}); run `citelock generations repair`"
        ) from error


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return text_of(value) if isinstance(value, bytes) else value
