"""OpenSearch as a database of `index`: the entry point `opensearch` of `citelock.stores`.

Belongs here: which part does what. Does not belong here: the parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from citelock_stores.opensearch.pointer import Pointer
from citelock_stores.opensearch.removal import count_of_tenant, remove_tenant
from citelock_stores.opensearch.store import OpenSearchStore
from citelock_stores.remote.database import AliasedDatabase
from rag_serving.artifacts.store import Store

if TYPE_CHECKING:
    from citelock_stores.publishing.opensearch_writer import OpenSearchPublisher


class OpenSearchDatabase(AliasedDatabase):
    """Generations in OpenSearch."""

    def store(self) -> OpenSearchStore:
        return OpenSearchStore(self.config)

    def pointer(self, tenant: str, key_setting: str = "writer_key_env") -> Pointer:
        return Pointer(self.config, tenant, key_setting)

    def publisher(self, store: Store, tenant: str) -> OpenSearchPublisher:
        from citelock_stores.publishing.opensearch_writer import OpenSearchPublisher

        return OpenSearchPublisher(store, tenant, self.config)

    def count(self, tenant: str) -> dict[str, int]:
        return count_of_tenant(self.config, tenant)

    def _remove(self, tenant: str) -> None:
        remove_tenant(self.config, tenant)
