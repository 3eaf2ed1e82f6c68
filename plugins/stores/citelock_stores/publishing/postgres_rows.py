"""A generation as rows of the database's tables.

Belongs here: columns and values of each table. Does not belong here: transactions and partitions (`postgres_writer`),
what every database is given (`remote_tables`), the schema (`citelock_stores.postgres.migrations`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, get_args
from uuid import UUID

import numpy as np
import pyarrow.compute as pc

from citelock_stores.postgres.claims import Signer, is_storable
from citelock_stores.postgres.packing import pack_vectors
from citelock_stores.publishing.remote_tables import (
    CatalogBlock,
    ReaderClasses,
    catalog_blocks,
    classes_of_chunks,
    original_files,
    place_table,
    postings_of,
)
from citelock_stores.publishing.seals import seal_blocks
from citelock_stores.remote.packing import pack_numbers, pack_table, term_hash
from citelock_stores.remote.protocol import PostingKind
from citelock_stores.remote.tables import TEXT_COLUMNS
from rag_serving.access.principals import clauses_of
from rag_serving.indexes.generation_files import GenerationFiles
from rag_serving.text.page_marks import page_at
from rag_serving.text.structure import decode

Row = tuple[Any, ...]
_BATCH = 2048  # chunks that are turned into rows at once
_METADATA = ("title", "space", "source", "kind", "url", "anchor", "labels", "content_type", "passage_id", "category")


class TableColumns(NamedTuple):
    """The columns of a table and their types as `COPY` is told; a vector goes as the bytes of its binary form."""

    names: tuple[str, ...]
    types: tuple[str, ...]

    @property
    def listed(self) -> str:
        """Return the names as a statement has them."""
        return ", ".join(f'"{name}"' for name in self.names)


def _columns(**types: str) -> TableColumns:
    return TableColumns(tuple(types), tuple(types.values()))


_KEY = {"tenant_id": "uuid", "placement": "uuid", "generation": "text"}
PARTITIONED: Mapping[str, TableColumns] = {
    "document_chunks": _columns(
        id="uuid", **_KEY, row="int4", reader_class="int8", document_id="uuid", chunk_index="int4", chunk_id="text",
        content="text", context_before="text", context_after="text", structure="text", exact="bytea",
        embedding="bytea", metadata="jsonb", page="int4", content_sha256="text", token_count="int4", heading="text",
        section_path="text", lang="text", version="int4", updated_at="timestamptz",
    ),
    "chunk_windows": _columns(**_KEY, row="int4", window="int4", reader_class="int8", embedding="bytea"),
    "sentence_vectors": _columns(**_KEY, row="int4", reader_class="int8", records="bytea"),
    "postings": _columns(
        **_KEY, kind="text", term_hash="int8", term="text", reader_class="int8", chunks="int4", rows="bytea",
        counts="bytea",
    ),
}  # fmt: skip
"""Tables with a partition for each generation."""


class GenerationRows:
    """One generation as rows. `placement`: the tenant's id where it has partitions of its own, or its bucket; `home`:
    whose secret seals the rows."""

    def __init__(self, files: GenerationFiles, signer: Signer, placement: UUID, home: Path) -> None:
        self.files, self._signer, self._home = files, signer, home
        self.tenant, self.generation = files.manifest.tenant, files.manifest.id
        self.tenant_id = signer.tenant_id(self.tenant)
        self.placement = placement

    def of(self, table: str) -> Iterator[Row]:
        """Yield the rows of one of the PARTITIONED tables."""
        rows: dict[str, Any] = {
            "document_chunks": self._chunks,
            "chunk_windows": self._windows,
            "sentence_vectors": self._sentences,
            "postings": self._postings,
        }
        yield from rows[table]()

    @cached_property
    def classes(self) -> ReaderClasses:
        """Who may read each row."""
        return classes_of_chunks(self.files)

    @cached_property
    def class_ids(self) -> list[int]:
        """The ids of `classes.names`."""
        return [self._id_of(readers) for readers in self.classes.names]

    @cached_property
    def originals(self) -> list[Any]:
        """The files of pages (`remote_tables.OriginalFile`)."""
        return original_files(self.files)

    @property
    def windows(self) -> int:
        """Return how many vectors belong to chunks with several."""
        windows = self.files.vectors.windows
        return 0 if windows is None else int(windows.counts[windows.counts > 1].sum())

    def reader_classes(self) -> Iterator[Row]:
        """Yield tenant, id, class, clauses and anchor of every class of a chunk, a place or an original."""
        for readers in sorted(self._every_class()):
            clauses = [sorted(filter(is_storable, clause)) for clause in clauses_of(readers)]
            anchor = min(clauses, key=len) if clauses else None
            yield self.tenant_id, self._id_of(readers), readers, json.dumps(sorted(clauses)), anchor

    def generation_classes(self) -> Iterator[Row]:
        """Yield tenant, generation, class and how many chunks it has."""
        counts = np.bincount(self.classes.of_rows, minlength=len(self.classes.names)).tolist()
        chunks = dict(zip(self.classes.names, counts, strict=True))
        for readers in sorted(self._every_class()):
            yield self.tenant_id, self.generation, self._id_of(readers), chunks.get(readers, 0)

    def documents(self) -> Iterator[Row]:
        """Yield a row for each page and reader class of its chunks: what its first chunk of that class says."""
        names = ["page_id", "title", "source", "kind", "space", "url", "version", "updated_at"]
        first: dict[tuple[str, int], dict[str, Any]] = {}
        for row, number in zip(self.files.table.select(names).to_pylist(), self.classes.of_rows.tolist(), strict=True):
            first.setdefault((row["page_id"], self.class_ids[number]), row)
        for (page_id, class_id), row in first.items():
            url = clean((row["url"] or "").partition("#")[0])
            title, *facts = (clean(row[name]) for name in ("title", "source", "kind", "space"))
            yield (
                self.tenant_id, self.generation, document_id(page_id), clean(page_id), title or "", *facts, url,
                row["version"], row["updated_at"], class_id,
            )  # fmt: skip

    def catalog_blocks(self) -> Iterator[Row]:
        """Yield tenant, generation, kind, class, number and content of every block."""
        yield from self._blocks(catalog_blocks(self.files))

    def seal_blocks(self) -> Iterator[Row]:
        """Yield the same of the seals."""
        yield from self._blocks(seal_blocks(self.files, self._home))

    def original_rights(self) -> set[Row]:
        """Return tenant, generation, digest and class of every file."""
        return {
            (self.tenant_id, self.generation, each.original.sha256, self._id_of(each.readers))
            for each in self.originals
        }

    def _blocks(self, blocks: Iterable[CatalogBlock]) -> Iterator[Row]:
        for kind, readers, number, table in blocks:
            yield self.tenant_id, self.generation, kind, self._id_of(readers), number, pack_table(table)

    def _every_class(self) -> set[str]:
        places = pc.unique(place_table(self.files)["readers"]).to_pylist()
        return {*self.classes.names, *places, *(each.readers for each in self.originals)}

    def _id_of(self, readers: str) -> int:
        return self._signer.class_id(self.tenant, readers)

    @property
    def _key(self) -> tuple[UUID, UUID, str]:
        return self.tenant_id, self.placement, self.generation

    def _class_of(self, row: int) -> int:
        return self.class_ids[int(self.classes.of_rows[row])]

    def _chunks(self) -> Iterator[Row]:
        starts, counts = self._vector_places
        vectors = self.files.vectors.vectors
        for first in range(0, len(self.files.table), _BATCH):
            chunks = self.files.table.slice(first, _BATCH).to_pylist()
            rows = np.arange(first, first + len(chunks))
            packed = pack_vectors(np.asarray(vectors[starts[rows]], np.float32)) if len(vectors) else []
            for row, chunk in zip(rows.tolist(), chunks, strict=True):
                yield self._chunk(row, chunk, packed[row - first] if counts[row] == 1 else None)

    def _chunk(self, row: int, chunk: Mapping[str, Any], embedding: bytes | None) -> Row:
        texts = [chunk[name] for name in TEXT_COLUMNS]
        is_exact = all(text is None or is_storable(text) for text in texts)
        exact = None if is_exact else json.dumps(dict(zip(TEXT_COLUMNS, texts, strict=True))).encode()
        path = [clean(heading) or "" for heading in chunk["heading_path"] or ()]
        metadata = {name: cleaned(chunk[name]) for name in _METADATA if chunk.get(name)}
        digest = hashlib.sha256(chunk["text"].encode("utf-8", "surrogatepass")).hexdigest()
        return (
            _uuid(f"{self.tenant_id} {chunk['chunk_id']}"), *self._key, row, self._class_of(row),
            document_id(chunk["page_id"]), chunk["chunk_idx"], clean(chunk["chunk_id"]), *map(clean, texts), exact,
            embedding, metadata, _page_of(chunk), digest, chunk["token_count"], path[-1] if path else None,
            " > ".join(path), clean(chunk.get("lang")), chunk["version"], chunk["updated_at"],
        )  # fmt: skip

    def _windows(self) -> Iterator[Row]:
        starts, counts = self._vector_places
        for row in np.flatnonzero(counts > 1).tolist():
            start = int(starts[row])
            packed = pack_vectors(np.asarray(self.files.vectors.vectors[start : start + int(counts[row])], np.float32))
            for number, embedding in enumerate(packed):
                yield *self._key, row, number, self._class_of(row), embedding

    def _sentences(self) -> Iterator[Row]:
        stored = self.files.sentences
        if stored is None:
            return
        for row in range(len(self.files.table)):
            records = stored.records_of(row)
            if len(records):
                yield *self._key, row, self._class_of(row), records.tobytes()

    def _postings(self) -> Iterator[Row]:
        for kind in get_args(PostingKind):
            for term, readers, rows, counts in postings_of(self.files, kind, self.classes):
                if is_storable(term):
                    packed = b"" if counts is None else pack_numbers(counts)
                    yield (
                        *self._key, kind, term_hash(term), term, self.class_ids[readers], len(rows),
                        pack_numbers(rows), packed,
                    )  # fmt: skip

    @cached_property
    def _vector_places(self) -> tuple[Any, Any]:
        """Where the vectors of each row begin, and how many it has."""
        windows = self.files.vectors.windows
        counts = np.ones(len(self.files.table), np.int64) if windows is None else windows.counts
        return np.cumsum(counts) - counts, counts


def document_id(page_id: str) -> UUID:
    """Return the id of a page's document."""
    return _uuid(page_id)


def clean(text: str | None) -> str | None:
    """Return a text as the database can hold it."""
    if text is None or is_storable(text):
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def cleaned(value: Any) -> Any:
    """Return a value of JSON whose texts the database can hold."""
    if isinstance(value, datetime):
        return value.isoformat()
    return [clean(one) for one in value] if isinstance(value, list) else clean(value)


def newest_as_json(newest: Mapping[str, datetime]) -> str:
    """Return when the newest page of each source was made, as the column `newest` has it."""
    return json.dumps({source: at.isoformat() for source, at in newest.items()})


def batches(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    """Yield rows in lists of so many."""
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _uuid(text: str) -> UUID:
    return UUID(bytes=hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16])


def _page_of(chunk: Mapping[str, Any]) -> int | None:
    """Return the page of a paged file that the chunk begins on."""
    return page_at(decode(chunk["structure"]).marks, 0) if chunk["structure"] else None
