"""Publishing a checked generation into PostgreSQL: all of it and the pointer in one transaction, or nothing.

Belongs here: transactions, partitions, pointer, pruning. Does not belong here: rows (`postgres_rows`), the checks
before (`rag_assets.publishing.checks`), the schema (`citelock_stores.postgres.migrations`).

Whatever ends this process or the server meanwhile, the database undoes what was not committed: the generation before
answers, and nothing is left that the next publication would have to mend. Publications of one tenant follow each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from citelock_stores.postgres.generations import move_pointer
from citelock_stores.postgres.publisher import Publisher
from citelock_stores.postgres.removal import remove_generation
from citelock_stores.publishing.postgres_rows import PARTITIONED, GenerationRows, Row, batches, newest_as_json
from rag_serving.artifacts.manifest import FILE as MANIFEST
from rag_serving.artifacts.store import Store, StoreError, open_file
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import RemoteDataError, RemoteTimeoutError
from rag_serving.indexes.generation_files import GenerationFiles, read_files
from rag_serving.indexes.source_dates import newest_pages

KEPT_S = 3600
"""How long a generation that the pointer left stays, for the questions that began on it."""
_ALTERED_FILES = "DELETE FROM citelock.original_files WHERE tenant_id = %s AND encode(sha256(content), 'hex') <> sha256"
_ANN_DIMENSIONS = {"vector": 2000, "halfvec": 4000}  # pgvector's limits of an HNSW index


class PostgresPublisher(Publisher):
    """Copies one tenant's generations into the database, and removes those that nobody needs any more."""

    def publish(self, files: GenerationFiles, manifest: bytes) -> dict[str, int]:
        """Copy a generation, unless it is there, and let the pointer name it; returns the rows that were copied, by
        table: none where it was there.

        `manifest`: the bytes of its `manifest.json`.

        Raises:
            RemoteError: the database refuses, or is gone; what was published is as it was.
        """
        with self.transaction() as connection:
            copied: dict[str, int] = {}
            if not _exists(connection, self.tenant_id, files.manifest.id):
                copied = self._copy(connection, files, manifest)
            elif not _is_sealed(connection, self.tenant_id, files.manifest.id):
                _fill_seals(connection, GenerationRows(files, self.signer, self.tenant_id, self.home))
            move_pointer(connection, self.tenant_id, files.manifest.id, self.settings)
        return copied

    def withdraw(self, generation_id: str) -> None:
        """Remove a generation though the pointer names it: the tenant has none until another is published.

        Raises:
            RemoteError: the database refuses, is gone, or somebody keeps reading; all is as it was.
        """
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
        ann = self._ann(files)
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
        _fill_plain(connection, rows)
        _fill_seals(connection, rows)
        _fill_originals(connection, rows)
        _require_whole(connection, rows, counts)
        connection.execute(
            "INSERT INTO citelock.generations (tenant_id, generation, placement, dimension, ann, chunks, counts, "
            "manifest, newest, created_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                self.tenant_id, files.manifest.id, placement, files.manifest.embedder.dimension, ann,
                files.manifest.chunks, json.dumps(counts), manifest, newest_as_json(newest_pages(files.table)),
                files.manifest.created_at,
            ),
        )  # fmt: skip
        return counts

    def _ann(self, files: GenerationFiles) -> str:
        """Return what the HNSW index is made of: none where an exact search is as quick, or no index is possible."""
        kind = "halfvec" if self.settings.halfvec == "auto" else "vector"
        if files.manifest.embedder.dimension > _ANN_DIMENSIONS[kind]:
            kind = "halfvec"
        few = files.manifest.chunks < max(self.settings.ann_chunks, self.settings.partition_chunks)
        return "none" if few or files.manifest.embedder.dimension > _ANN_DIMENSIONS[kind] else kind


def publish_generation(
    store: Store, tenant: str, generation_id: str, config: Config, resend: bool = False
) -> dict[str, int]:
    """Copy a generation from its folder, every file compared with its digest, and let the pointer name it.

    Returns the rows that were copied, by table; none where the database had it already. `resend`: what it has is
    removed first, and the tenant's questions find nothing until the copy is there.

    Raises:
        ConfigError, RemoteError: the database cannot take it; what it has published is as it was.
        StoreError: the folder is damaged.
    """
    publisher = PostgresPublisher(config, tenant)
    files = read_files(store, tenant, generation_id, config.indexing.memory_bytes)
    with open_file(store.generation(tenant, generation_id) / MANIFEST) as file:
        manifest = file.read()
    if resend:
        publisher.withdraw(generation_id)
    return publisher.publish(files, manifest)


def _exists(connection: Any, tenant_id: UUID, generation_id: str) -> bool:
    row = connection.execute(
        "SELECT FROM citelock.generations WHERE tenant_id = %s AND generation = %s", (tenant_id, generation_id)
    ).fetchone()
    return row is not None


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
    """Write the tables without partitions."""
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
    """Write the seals of every reader class."""
    with connection.cursor() as cursor:
        _fill_blocks(cursor, rows.seal_blocks())


def _fill_blocks(cursor: Any, blocks: Iterable[Row]) -> None:
    for batch in batches(blocks, 8):
        cursor.executemany("INSERT INTO citelock.catalog_blocks VALUES (%s, %s, %s, %s, %s, %s)", batch)


def _fill_originals(connection: Any, rows: GenerationRows) -> None:
    """Write the bytes of originals that the database does not have yet.

    Raises:
        StoreError: one is missing or was altered.
    """
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
    """Refuse a copy that lacks rows.

    Raises:
        RemoteDataError: the database counts others than were sent, or two reader classes have one id.
    """
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
