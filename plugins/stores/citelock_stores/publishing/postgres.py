"""Publishing a checked generation into PostgreSQL: all of it and the pointer in one transaction, or nothing. Whatever
ends this process or the server meanwhile, the database undoes what was not committed: the generation before answers,
and nothing is left that the next publication would have to mend. Publications of one tenant follow each other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, get_args
from uuid import UUID

import numpy as np
import pyarrow.compute as pc

from citelock_stores.postgres.publisher import Publisher, move_pointer, remove_generation
from citelock_stores.postgres.sessions import ClaimSigner, is_storable
from citelock_stores.postgres.store import pack_numbers, pack_vectors, term_hash
from citelock_stores.publishing.tables import (
    CatalogBlock,
    ReaderClasses,
    catalog_blocks,
    classes_of_chunks,
    original_files,
    place_table,
    postings_of,
    seal_blocks,
)
from citelock_stores.remote.protocol import TEXT_COLUMNS, PostingKind, pack_table
from rag_serving.access.principals import clauses_of
from rag_serving.artifacts.manifest import FILE as MANIFEST
from rag_serving.artifacts.store import Store, StoreError, open_file
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import RemoteDataError, RemoteTimeoutError, newest_pages
from rag_serving.indexes.generation import GenerationFiles, read_files
from rag_serving.text.structure import decode, page_at

Row = tuple[Any, ...]
_BATCH = 2048  # chunks that are turned into rows at once
_METADATA = ("title", "space", "source", "kind", "url", "anchor", "labels", "content_type", "passage_id", "category")


class TableColumns(NamedTuple):
    """The columns of a table and their types for `COPY`; a vector goes as the bytes of its binary form."""

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
    """One generation as rows. `placement`: the tenant's id if it has partitions of its own, or its bucket; `home`: its
    secret seals the rows."""

    def __init__(self, files: GenerationFiles, signer: ClaimSigner, placement: UUID, home: Path) -> None:
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
        """The readers of each row."""
        return classes_of_chunks(self.files)

    @cached_property
    def class_ids(self) -> list[int]:
        """The ids of `classes.names`."""
        return [self._id_of(readers) for readers in self.classes.names]

    @cached_property
    def originals(self) -> list[Any]:
        """The files of pages (`tables.OriginalFile`)."""
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
        """Yield a row for each page and reader class of its chunks: from its first chunk of that class."""
        names = ["page_id", "title", "source", "kind", "space", "url", "version", "updated_at"]
        first: dict[tuple[str, int], dict[str, Any]] = {}
        for row, number in zip(self.files.table.select(names).to_pylist(), self.classes.of_rows.tolist(), strict=True):
            first.setdefault((row["page_id"], self.class_ids[number]), row)
        for (page_id, class_id), row in first.items():
            url = clean((row["url"] or "").partition("#")[0])
            title, *facts = (clean(row[name]) for name in ("title", "source", "kind", "space"))
            yield (
                self.tenant_id, self.generation, _uuid(page_id), clean(page_id), title or "", *facts, url,
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
            _uuid(chunk["page_id"]), chunk["chunk_idx"], clean(chunk["chunk_id"]), *map(clean, texts), exact,
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
        windows = self.files.vectors.windows
        counts = np.ones(len(self.files.table), np.int64) if windows is None else windows.counts
        return np.cumsum(counts) - counts, counts


def clean(text: str | None) -> str | None:
    """Return a text that the database can store."""
    if text is None or is_storable(text):
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def cleaned(value: Any) -> Any:
    """Return a value of JSON with texts that the database can store."""
    if isinstance(value, datetime):
        return value.isoformat()
    return [clean(one) for one in value] if isinstance(value, list) else clean(value)


def batches(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    """Yield rows in lists of so many."""
    left = iter(rows)
    while batch := [*islice(left, size)]:
        yield batch


def _uuid(text: str) -> UUID:
    return UUID(bytes=hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16])


def _page_of(chunk: Mapping[str, Any]) -> int | None:
    return page_at(decode(chunk["structure"]).marks, 0) if chunk["structure"] else None


KEPT_S = 3600
"""How long a generation that the pointer left stays, for the questions that began on it."""
_ALTERED_FILES = "DELETE FROM citelock.original_files WHERE tenant_id = %s AND encode(sha256(content), 'hex') <> sha256"
_ANN_DIMENSIONS = {"vector": 2000, "halfvec": 4000}  # pgvector's limits of an HNSW index


class PostgresPublisher(Publisher):
    """Copies one tenant's generations into the database, and removes those that nobody needs any more."""

    def publish(self, files: GenerationFiles, manifest: bytes) -> dict[str, int]:
        """Copy a generation, unless it exists, and move the pointer to it; return the number of copied rows, by table:
        none if it was there. `manifest`: the bytes of its `manifest.json`. Raises RemoteError: the database refuses, or
        is gone; the publication is unchanged."""
        with self.transaction() as connection:
            copied: dict[str, int] = {}
            generation_id = files.manifest.id
            row = connection.execute(
                "SELECT FROM citelock.generations WHERE tenant_id = %s AND generation = %s",
                (self.tenant_id, generation_id),
            ).fetchone()
            if row is None:
                copied = self._copy(connection, files, manifest)
            elif not _is_sealed(connection, self.tenant_id, files.manifest.id):
                _fill_seals(connection, GenerationRows(files, self.signer, self.tenant_id, self.home))
            move_pointer(connection, self.tenant_id, files.manifest.id, self.settings)
        return copied

    def withdraw(self, generation_id: str) -> None:
        """Remove a generation though the pointer names it: the tenant has none until another is published. Raises
        RemoteError: the database refuses, is gone, or somebody keeps reading; all is as it was."""
        with self.transaction() as connection:
            connection.execute(
                "DELETE FROM citelock.pointers WHERE tenant_id = %s AND generation = %s",
                (self.tenant_id, generation_id),
            )
            remove_generation(connection, self.tenant_id, generation_id)
            connection.execute(_ALTERED_FILES, (self.tenant_id,))

    def prune(self, keep: int) -> tuple[str, ...]:
        """Drop all but the `keep` newest generations, the published one, and those left less than an hour ago; returns
        the ids of those dropped. One that is still read is left for the next time."""
        before = datetime.now(UTC) - timedelta(seconds=KEPT_S)
        kept = self.listed()
        dropped = []
        for info in kept[keep:]:
            if not info.current and info.left_at is not None and info.left_at < before and self._drop(info.id):
                dropped.append(info.id)
        return tuple(dropped)

    def _drop(self, generation_id: str) -> bool:
        try:
            with self.transaction() as connection:
                remove_generation(connection, self.tenant_id, generation_id)
        except RemoteTimeoutError:
            return False
        return True

    def _copy(self, connection: Any, files: GenerationFiles, manifest: bytes) -> dict[str, int]:
        own = files.manifest.chunks >= self.settings.partition_chunks
        placement = self.tenant_id if own else _bucket(connection, self.tenant_id)
        rows = GenerationRows(files, self.signer, placement, self.home)
        kind = "halfvec" if self.settings.halfvec == "auto" else "vector"
        if files.manifest.embedder.dimension > _ANN_DIMENSIONS[kind]:
            kind = "halfvec"
        few = files.manifest.chunks < max(self.settings.ann_chunks, self.settings.partition_chunks)
        ann = "none" if few or files.manifest.embedder.dimension > _ANN_DIMENSIONS[kind] else kind
        counts: dict[str, int] = {}
        for table in PARTITIONED:
            self.renew(connection)
            counts[table] = _fill(connection, table, rows, own)
        if own:
            for table in ("document_chunks", "chunk_windows") if ann != "none" else ():
                self.renew(connection)
                values = (table, files.manifest.id, ann, files.manifest.embedder.dimension)
                connection.execute("SELECT citelock.make_ann(%s, %s, %s, %s)", values)
            for table in PARTITIONED:
                self.renew(connection)
                connection.execute("SELECT citelock.attach(%s, %s)", (table, files.manifest.id))
        counts["chunk_windows"] = rows.windows
        newest = {source: at.isoformat() for source, at in newest_pages(files.table).items()}
        _fill_plain(connection, rows)
        _fill_seals(connection, rows)
        _fill_originals(connection, rows)
        _require_whole(connection, rows, counts)
        connection.execute(
            "INSERT INTO citelock.generations (tenant_id, generation, placement, dimension, ann, chunks, counts, "
            "manifest, newest, created_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                self.tenant_id, files.manifest.id, placement, files.manifest.embedder.dimension, ann,
                files.manifest.chunks, json.dumps(counts), manifest, json.dumps(newest),
                files.manifest.created_at,
            ),
        )  # fmt: skip
        return counts


def publish_generation(
    store: Store, tenant: str, generation_id: str, config: Config, resend: bool = False
) -> dict[str, int]:
    """Copy a generation from its folder, every file compared with its digest, and move the pointer to it. Returns the
    rows that were copied, by table; none if the database had it already. `resend`: its copy is removed first, and the
    tenant's questions find nothing until the copy is there. Raises ConfigError, RemoteError: the database cannot take
    it; its publication is unchanged. Raises StoreError: the folder is damaged."""
    publisher = PostgresPublisher(config, tenant)
    files = read_files(store, tenant, generation_id, config.indexing.memory_bytes)
    with open_file(store.generation(tenant, generation_id) / MANIFEST) as file:
        manifest = file.read()
    if resend:
        publisher.withdraw(generation_id)
    return publisher.publish(files, manifest)


def _is_sealed(connection: Any, tenant_id: UUID, generation_id: str) -> bool:
    """Return whether a generation has seals: one that an older program published has none."""
    row = connection.execute(
        "SELECT FROM citelock.catalog_blocks WHERE tenant_id = %s AND generation = %s AND kind = 'seals' LIMIT 1",
        (tenant_id, generation_id),
    ).fetchone()
    return row is not None


def _bucket(connection: Any, tenant_id: UUID) -> UUID:
    (bucket,) = connection.execute("SELECT citelock.bucket(%s)", (tenant_id,)).fetchone()
    return UUID(str(bucket))


def _fill(connection: Any, table: str, rows: GenerationRows, own: bool) -> int:
    """Copy the rows of one table, into a table that becomes its partition or among those of others; returns how
    many."""
    columns = PARTITIONED[table]
    if own:
        (leaf,) = connection.execute("SELECT citelock.stage(%s, %s)", (table, rows.generation)).fetchone()
        target = f'citelock."{leaf}"'
    else:
        target = f"pg_temp.{table}"
        connection.execute(f"CREATE TEMPORARY TABLE {table} (LIKE citelock.{table} INCLUDING DEFAULTS) ON COMMIT DROP")
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY {target} ({columns.listed}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(columns.types)
            for row in rows.of(table):
                copy.write_row(row)
        copied = int(cursor.rowcount)
    if not own:  # row policies look at each row, which COPY does not let them
        connection.execute(f"INSERT INTO citelock.{table} ({columns.listed}) SELECT {columns.listed} FROM {target}")
    return copied


def _fill_plain(connection: Any, rows: GenerationRows) -> None:
    with connection.cursor() as cursor:
        statement = (
            "INSERT INTO citelock.reader_classes (tenant_id, id, class, clauses, anchor) "
            "VALUES (%s, %s, %s, %s, %s) ON CONFLICT (tenant_id, id) DO UPDATE SET clauses = excluded.clauses, "
            "anchor = excluded.anchor WHERE reader_classes.class = excluded.class"
        )
        cursor.executemany(statement, [*rows.reader_classes()])
        cursor.executemany(
            "INSERT INTO citelock.generation_classes VALUES (%s, %s, %s, %s)", [*rows.generation_classes()]
        )
        for batch in batches(rows.documents(), 1000):
            cursor.executemany(f"INSERT INTO citelock.documents VALUES ({', '.join(['%s'] * 12)})", batch)
        _fill_blocks(cursor, rows.catalog_blocks())
        cursor.executemany(
            "INSERT INTO citelock.original_rights VALUES (%s, %s, %s, %s)", sorted(rows.original_rights())
        )


def _fill_seals(connection: Any, rows: GenerationRows) -> None:
    with connection.cursor() as cursor:
        _fill_blocks(cursor, rows.seal_blocks())


def _fill_blocks(cursor: Any, blocks: Iterable[Row]) -> None:
    for batch in batches(blocks, 8):
        cursor.executemany("INSERT INTO citelock.catalog_blocks VALUES (%s, %s, %s, %s, %s, %s)", batch)


def _fill_originals(connection: Any, rows: GenerationRows) -> None:
    """Write the bytes of originals that the database does not have yet. Raises StoreError: one is missing or was
    altered."""
    held = connection.execute(
        "SELECT sha256 FROM citelock.original_files WHERE tenant_id = %s", (rows.tenant_id,)
    ).fetchall()
    known = {sha256 for (sha256,) in held}
    for each in rows.originals:
        if each.original.sha256 not in known:
            known.add(each.original.sha256)
            connection.execute(
                "INSERT INTO citelock.original_files (tenant_id, sha256, content) VALUES (%s, %s, %s)",
                (rows.tenant_id, each.original.sha256, each.original.read()),
            )


def _require_whole(connection: Any, rows: GenerationRows, counts: dict[str, int]) -> None:
    """Refuse a copy that lacks rows. Raises RemoteDataError: the database counts others than were sent, or two reader
    classes have one id."""
    manifest = rows.files.manifest
    if counts["document_chunks"] != manifest.chunks:
        raise StoreError(f"generation {manifest.id} has {counts['document_chunks']} of {manifest.chunks} chunks")
    for table, count in counts.items():
        (stored,) = connection.execute(
            f"SELECT count(*) FROM citelock.{table} WHERE tenant_id = %s AND placement = %s AND generation = %s",
            (rows.tenant_id, rows.placement, manifest.id),
        ).fetchone()
        if stored != count:
            raise RemoteDataError(f"the database holds {stored} of {count} rows of {table}; nothing was published")
    stored_classes = connection.execute(
        "SELECT id, class FROM citelock.reader_classes WHERE tenant_id = %s", (rows.tenant_id,)
    ).fetchall()
    names = dict(stored_classes)
    if any(names.get(row[1]) != row[2] for row in rows.reader_classes()):
        raise RemoteDataError("two reader classes have one id; nothing was published")
