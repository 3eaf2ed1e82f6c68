"""What the database says of a tenant's generations, and moving its pointer.

Belongs here: rows of `generations` and `pointers`. Does not belong here: their chunks (`reader`), making them
(`citelock_stores.publishing.postgres_writer`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from citelock_stores.postgres.claims import Signer
from citelock_stores.postgres.sessions import SignFor
from rag_serving.config.index import Index

Ann = Literal["none", "vector", "halfvec"]


@dataclass(frozen=True)
class StoredGeneration:
    """Where and how a generation is stored."""

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
        """What every statement narrows its rows by: tenant, placement, generation."""
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


def server_of(signer: Signer, tenant: str) -> SignFor:
    """Return the claims of a serving process, which open what is said of a generation as a whole."""
    return lambda seconds: signer.for_role(tenant, "server", seconds)


def publisher_of(signer: Signer, tenant: str) -> SignFor:
    """Return the claims of whoever publishes for a tenant."""
    return lambda seconds: signer.for_role(tenant, "publisher", seconds)


def list_published(connection: Any, tenant_id: UUID) -> list[PublishedGeneration]:
    """Return the generations of a tenant, newest publication first. `connection`: in a publisher's name."""
    rows = connection.execute(
        "SELECT g.generation, g.chunks, g.created_at, g.published_at, g.left_at, p.generation IS NOT NULL "
        "FROM citelock.generations g LEFT JOIN citelock.pointers p USING (tenant_id, generation) "
        "WHERE g.tenant_id = %s ORDER BY g.published_at DESC, g.generation",
        (tenant_id,),
    ).fetchall()
    return [PublishedGeneration(*row) for row in rows]


def move_pointer(connection: Any, tenant_id: UUID, generation_id: str, settings: Index) -> bool:
    """Let the pointer name a generation that is there; returns False where it is not.

    `connection`: in a publisher's name; `settings`: how `search_chunks_hybrid` searches it. The generation that the
    pointer left is kept for the questions that began on it.
    """
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
