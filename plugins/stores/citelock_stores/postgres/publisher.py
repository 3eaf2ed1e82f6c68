"""A tenant's generations in the database: listing them, moving the pointer, and deleting rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from citelock_stores.postgres.sessions import (
    CONNECT_S,
    KEY_PURPOSE,
    UNSIGNED,
    ClaimSigner,
    configure,
    remote_error,
    set_locally,
    settings_of,
)
from rag_serving.artifacts.secret import derived_key
from rag_serving.config.index import Index
from rag_serving.config.loading import Config, ConfigError
from rag_serving.indexes.databases import RemoteDataError, RemoteTimeoutError

Ann = Literal["none", "vector", "halfvec"]


@dataclass(frozen=True)
class GenerationPlace:
    """The location and layout of a generation."""

    tenant: str
    tenant_id: UUID
    id: str
    placement: UUID
    dimension: int
    ann: Ann
    chunks: int
    windows: int  # vectors of chunks that have several

    @property
    def key(self) -> tuple[UUID, UUID, str]:
        """The tenant, placement and generation that narrow every statement."""
        return self.tenant_id, self.placement, self.id


@dataclass(frozen=True)
class PublishedGeneration:
    """One line of a tenant's list."""

    id: str
    chunks: int
    created_at: datetime
    published_at: datetime
    left_at: datetime | None
    current: bool


def move_pointer(connection: Any, tenant_id: UUID, generation_id: str, settings: Index) -> bool:
    """Point to an existing generation; return False if there is none. `connection`: in a publisher's name; `settings`:
    how `search_chunks_hybrid` searches it. The generation that the pointer left is kept for the questions that began on
    it."""
    moved = connection.execute(
        "INSERT INTO citelock.pointers (tenant_id, generation, placement, dimension, ann, weights, ann_chunks, "
        "ef_search) SELECT tenant_id, generation, placement, dimension, ann, %s::float8[], %s, %s "
        "FROM citelock.generations WHERE tenant_id = %s AND generation = %s "
        "ON CONFLICT (tenant_id) DO UPDATE SET generation = excluded.generation, placement = excluded.placement, "
        "dimension = excluded.dimension, ann = excluded.ann, weights = excluded.weights, "
        "ann_chunks = excluded.ann_chunks, ef_search = excluded.ef_search, moved_at = clock_timestamp()",
        (list(settings.hybrid_weights), settings.ann_chunks, settings.ef_search, tenant_id, generation_id),
    )
    connection.execute(
        "UPDATE citelock.generations SET left_at = CASE WHEN generation = %s THEN NULL "
        "ELSE coalesce(left_at, clock_timestamp()) END WHERE tenant_id = %s",
        (generation_id, tenant_id),
    )
    return bool(moved.rowcount)


_SETTINGS = {
    "client_connection_check_interval": "2s",  # the server notices when a publisher dies, whatever it is doing
    "maintenance_work_mem": "512MB",
}


class Publisher:
    """Moves one tenant's pointer. Every call is a transaction of its own, and alone among the tenant's publishers."""

    def __init__(self, config: Config, tenant: str) -> None:
        """Raises ConfigError: index.writer_url is not set. Raises SecretError: the installation's secret cannot be
        used."""
        if not config.index.writer_url:
            raise ConfigError(
                "index.writer_url is not set: postgresql://citelock_writer@host/name (CITELOCK_INDEX__WRITER_URL)"
            )
        self.settings, self.tenant, self.home = config.index, tenant, config.home
        self.signer = ClaimSigner(derived_key(config.home, KEY_PURPOSE))

    @property
    def tenant_id(self) -> UUID:
        return self.signer.tenant_id(self.tenant)

    def point_to(self, generation_id: str) -> None:
        """Let the pointer name a generation that is in the database. Raises RemoteDataError: it is not."""
        with self.transaction() as connection:
            if not move_pointer(connection, self.tenant_id, generation_id, self.settings):
                raise RemoteDataError(
                    f"generation {generation_id} is not in the database of `index`; "
                    f"`citelock index status --tenant {self.tenant}` lists what is"
                )

    def listed(self) -> list[PublishedGeneration]:
        """Return the database's generations, newest publication first."""
        with self.transaction() as connection:
            rows = connection.execute(
                "SELECT g.generation, g.chunks, g.created_at, g.published_at, g.left_at, p.generation IS NOT NULL "
                "FROM citelock.generations g LEFT JOIN citelock.pointers p USING (tenant_id, generation) "
                "WHERE g.tenant_id = %s ORDER BY g.published_at DESC, g.generation",
                (self.tenant_id,),
            ).fetchall()
        return [PublishedGeneration(*row) for row in rows]

    def renew(self, connection: Any) -> None:
        """Let the next statement take as long as it may: claims end with the time of one statement."""
        seconds = float(self.settings.publish_timeout_s)
        set_locally(connection, settings_of(self.signer.for_role(self.tenant, "publisher", seconds), seconds))

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a connection in one transaction, which is undone where anything fails. Raises RemoteError: the database
        refuses, is gone, or takes too long."""
        import psycopg

        try:
            with psycopg.connect(
                self.settings.writer_url or "", connect_timeout=int(CONNECT_S), prepare_threshold=None, autocommit=True
            ) as connection:
                configure(connection)
                with connection.transaction():
                    self.renew(connection)
                    set_locally(connection, _SETTINGS)
                    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 7))", (str(self.tenant_id),))
                    known = connection.execute("SELECT citelock.tenant_as('publisher')").fetchone()
                    if known is None or known[0] is None:
                        raise RemoteDataError(UNSIGNED)
                    yield connection
        except psycopg.Error as error:
            raise remote_error(error) from error


LOCK_S = 2
"""Seconds that dropping partitions waits for those who read them: questions of all tenants wait behind it."""
_TRIES = 5
_PARTITIONED = ("document_chunks", "chunk_windows", "sentence_vectors", "postings")
_OF_GENERATIONS = (*_PARTITIONED, "documents", "generation_classes", "catalog_blocks", "original_rights", "generations")
_OF_TENANTS = ("pointers", *_OF_GENERATIONS, "reader_classes", "original_files")
_UNNAMED = (
    "DELETE FROM citelock.reader_classes r WHERE r.tenant_id = %s AND NOT EXISTS (SELECT FROM "
    "citelock.generation_classes g WHERE g.tenant_id = r.tenant_id AND g.reader_class = r.id)",
    "DELETE FROM citelock.original_files f WHERE f.tenant_id = %s AND NOT EXISTS (SELECT FROM "
    "citelock.original_rights r WHERE r.tenant_id = f.tenant_id AND r.sha256 = f.sha256)",
)
_PARTITIONS = (
    "SELECT count(*) FROM unnest(%s::text[]) AS parent "
    "WHERE to_regclass(format('citelock.%%I', citelock.partition_name(parent, %s))) IS NOT NULL"
)


def remove_generation(connection: Any, tenant_id: UUID, generation_id: str) -> None:
    """Remove a generation that the pointer does not name. `connection`: in a publisher's name. Raises
    psycopg.errors.LockNotAvailable: somebody reads it."""
    set_locally(connection, {"lock_timeout": f"{LOCK_S}s"})
    connection.execute("SELECT citelock.drop_partitions(%s)", (generation_id,))
    for table in _OF_GENERATIONS:
        connection.execute(
            f"DELETE FROM citelock.{table} WHERE tenant_id = %s AND generation = %s", (tenant_id, generation_id)
        )
    for statement in _UNNAMED:
        connection.execute(statement, (tenant_id,))


def count_of_tenant(publisher: Publisher) -> dict[str, int]:
    """Return how many rows each table has of the publisher's tenant, and `partitions`, of those that have any. Raises
    RemoteError: the database refuses, is gone, or takes too long."""
    counts = {}
    with publisher.transaction() as connection:
        for table in _OF_TENANTS:
            publisher.renew(connection)
            row = connection.execute(
                f"SELECT count(*) FROM citelock.{table} WHERE tenant_id = %s", (publisher.tenant_id,)
            ).fetchone()
            counts[table] = int(row[0])
        (counts["partitions"],) = connection.execute(_PARTITIONS, (list(_PARTITIONED), publisher.tenant_id)).fetchone()
    return {table: count for table, count in counts.items() if count}


def remove_tenant(publisher: Publisher) -> None:
    """Remove all of the publisher's tenant from the database, in one transaction: all of it, or nothing. Raises
    RemoteError: the database refuses, is gone, or somebody keeps reading."""
    for left in reversed(range(_TRIES)):
        try:
            _remove_tenant(publisher)
        except RemoteTimeoutError:
            if not left:
                raise
        else:
            return


def _remove_tenant(publisher: Publisher) -> None:
    with publisher.transaction() as connection:
        set_locally(connection, {"lock_timeout": f"{LOCK_S}s"})
        connection.execute("DELETE FROM citelock.pointers WHERE tenant_id = %s", (publisher.tenant_id,))
        connection.execute("SELECT citelock.erase_partitions()")
        for table in _OF_TENANTS:
            publisher.renew(connection)
            connection.execute(f"DELETE FROM citelock.{table} WHERE tenant_id = %s", (publisher.tenant_id,))
