"""Taking rows out of the database: one generation, or all that it holds of a tenant.

Belongs here: which tables there are, in what order they are emptied. Does not belong here: which generations nobody
needs any more (`citelock_stores.publishing.postgres_writer`), the other things that are kept of a tenant
(`rag_serving.erasure`).
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from citelock_stores.postgres.publisher import Publisher
from citelock_stores.postgres.sessions import set_locally
from rag_serving.indexes.databases import RemoteTimeoutError

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
    """Remove a generation that the pointer does not name. `connection`: in a publisher's name.

    Raises:
        psycopg.errors.LockNotAvailable: somebody reads it.
    """
    set_locally(connection, {"lock_timeout": f"{LOCK_S}s"})
    connection.execute("SELECT citelock.drop_partitions(%s)", (generation_id,))
    for table in _OF_GENERATIONS:
        connection.execute(
            f"DELETE FROM citelock.{table} WHERE tenant_id = %s AND generation = %s", (tenant_id, generation_id)
        )
    for statement in _UNNAMED:
        connection.execute(statement, (tenant_id,))


def count_of_tenant(publisher: Publisher) -> dict[str, int]:
    """Return how many rows each table has of the publisher's tenant, and `partitions`, of those that have any.

    Raises:
        RemoteError: the database refuses, is gone, or takes too long.
    """
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
    """Remove all that the database holds of the publisher's tenant, in one transaction: all of it, or nothing.

    Raises:
        RemoteError: the database refuses, is gone, or somebody keeps reading.
    """
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
