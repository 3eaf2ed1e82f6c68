"""The manifest of a generation: every chunk, shard and page it is made of, in one immutable document."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer

from rag_serving.artifacts.schema import TableSchema
from rag_serving.artifacts.secret import canonical, signature_fault
from rag_serving.artifacts.store import Store, StoreError, open_file, read_json, read_table

FORMAT = 1
FILE = "manifest.json"
KEY_PURPOSE = "manifest"
# Reproducible from the same inputs in another home; the rest records how and when this copy was made.
IDENTITY = frozenset({"format", "tenant", "inputs_digest", "embedder", "shards", "chunks", "parts", "pages", "formats"})


class Record(BaseModel):
    """An immutable part of the manifest; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class EmbedderFacts(Record):
    """The model behind every vector; a query vector of another one must not be compared."""

    name: str
    dimension: int


WORDS = EmbedderFacts(name="words", dimension=1)
"""In place of a model where vectors are still being made: such a generation is searched by words alone."""


class Shard(Record):
    """A dense shard: chunks of the pages whose hash falls there, in one Chroma collection."""

    name: str
    collection: str
    chunks: int
    digest: str


class SourcePages(Record):
    """The pages of one source that have chunks: how many, and a digest of ids and versions."""

    pages: int
    digest: str


class PartSize(Record):
    """A part of a large generation: how many chunks and vectors it has."""

    chunks: int
    vectors: int


class FileFacts(Record):
    """Size and SHA-256 of a file of the generation's folder."""

    bytes: int
    sha256: str


class Manifest(Record):
    """The contents of a generation. `id` covers the fields named in `IDENTITY`."""

    id: str
    format: int = FORMAT
    tenant: str
    created_at: datetime
    inputs_digest: str  # of the content of the chunk table, and of originals if there are any
    embedder: EmbedderFacts
    shards: tuple[Shard, ...]
    chunks: int
    pages: dict[str, SourcePages]
    sources: dict[str, str | None]  # sync fingerprint of each source, as its publisher saw it
    formats: dict[str, int]  # versions of the index formats
    settings: dict[str, Any]
    files: dict[str, FileFacts]
    versions: dict[str, str]  # of the libraries that wrote the indexes
    vectors: int | None = None  # None: one for each chunk
    parts: tuple[PartSize, ...] = ()  # in the order of their rows; none: all files are in the generation's folder
    signature: str = ""  # keyed digest of all the rest: write access to files alone cannot forge one

    @model_serializer(mode="wrap")
    def _content(self, content_of: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = content_of(self)
        if not self.parts:
            content.pop("parts", None)
        return content

    @property
    def vector_count(self) -> int:
        return self.chunks if self.vectors is None else self.vectors

    @property
    def collections(self) -> frozenset[str]:
        return frozenset(shard.collection for shard in self.shards)

    @property
    def page_count(self) -> int:
        return sum(source.pages for source in self.pages.values())


def id_of(manifest: Manifest) -> str:
    """Return the id for a manifest's contents: it differs from its own if it was altered."""
    return _digest(manifest.model_dump(mode="json", include=set(IDENTITY)))[:16]


def file_facts(path: Path) -> FileFacts:
    """Size and digest of a file."""
    with open_file(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return FileFacts(bytes=os.fstat(file.fileno()).st_size, sha256=digest)


def read_manifest(store: Store, tenant: str, generation_id: str) -> Manifest:
    """Read the manifest of a generation, as it was signed. Raises StoreError: missing, unreadable, of another format,
    or not signed by this installation."""
    path = store.generation(tenant, generation_id) / FILE
    return _manifest_of(read_json(path), str(path), store.home)


def read_named_table(
    store: Store, manifest: Manifest, name: str, schema: TableSchema, columns: list[str] | None = None
) -> pa.Table:
    """Return a table of a generation, as its manifest says it is; `columns`: some of its columns. Raises StoreError:
    the file is missing or damaged, or the generation was built before there was one."""
    folder, facts = store.generation(manifest.tenant, manifest.id), manifest.files.get(name)
    if facts is None:
        raise StoreError(f"{folder} has no {name}: it was built by an older program")
    path = folder / name
    try:
        with open_file(path) as file:
            content = file.read(facts.bytes + 1)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror})") from None
    if hashlib.sha256(content).hexdigest() != facts.sha256:
        raise StoreError(f"{path} is not what the manifest says")
    return read_table(path, schema, columns, content)


def manifest_of(content: bytes, where: str, home: Path) -> Manifest:
    """Return the manifest in a file's bytes; `where` names the file in errors. Raises StoreError: no JSON, another
    format, or not signed by the installation in `home`."""
    try:
        return _manifest_of(json.loads(content), where, home)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{where} is damaged ({error}); run `citelock build`") from None


def _manifest_of(content: object, where: str, home: Path) -> Manifest:
    version = content.get("format") if isinstance(content, Mapping) else None
    if version != FORMAT or not isinstance(content, Mapping):
        raise StoreError(f"{where} has format {version!r}, this program reads format {FORMAT}; run `citelock build`")
    if unsigned := signature_fault(content, home, KEY_PURPOSE):
        raise StoreError(f"{where} {unsigned}")
    try:
        return Manifest.model_validate(content)
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(str(part) for part in fault["loc"])
        raise StoreError(
            f"{where} is not a manifest ({field}: {fault['msg']}); delete its folder and run `citelock build`"
        ) from None


def _digest(value: object) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def mend(tenant: str) -> str:
    """Return how a damaged generation is mended."""
    return f"`citelock generations repair --tenant {tenant}` restores it, else `citelock build` makes it again"
