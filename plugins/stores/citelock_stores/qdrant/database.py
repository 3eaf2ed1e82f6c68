"""Qdrant as a database of `index`: the entry point `qdrant` of `citelock.stores`.

Belongs here: which part does what. Does not belong here: the parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from citelock_stores.qdrant.pointer import Pointer
from citelock_stores.qdrant.removal import count_of_tenant, remove_tenant
from citelock_stores.qdrant.store import QdrantStore
from citelock_stores.remote.database import AliasedDatabase
from rag_serving.artifacts.store import Store

if TYPE_CHECKING:
    from citelock_stores.publishing.qdrant_writer import QdrantPublisher


class QdrantDatabase(AliasedDatabase):
    """Generations in Qdrant."""

    def store(self) -> QdrantStore:
        return QdrantStore(self.config)

    def pointer(self, tenant: str, key_setting: str = "writer_key_env") -> Pointer:
        return Pointer(self.config, tenant, key_setting)

    def publisher(self, store: Store, tenant: str) -> QdrantPublisher:
        from citelock_stores.publishing.qdrant_writer import QdrantPublisher

        return QdrantPublisher(store, tenant, self.config)

    def count(self, tenant: str) -> dict[str, int]:
        return count_of_tenant(self.config, tenant)

    def _remove(self, tenant: str) -> None:
        remove_tenant(self.config, tenant)
