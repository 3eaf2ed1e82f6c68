"""What the program needs of a database of `index` (`rag_serving.indexes.databases.Database`), as far as all share it.

Belongs here: readers' connections, publishing under an alias. Does not belong here: one database (`postgres.database`,
`qdrant.database`, `opensearch.database`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING

from citelock_stores.remote.aliases import AliasPointer
from citelock_stores.remote.protocol import RemoteStore
from citelock_stores.remote.source import DatabaseSource
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import Figures, StoredInfo

if TYPE_CHECKING:
    from citelock_stores.publishing.alias_publisher import AliasPublisher


class SearchedDatabase(ABC):
    """A database that questions read."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @abstractmethod
    def store(self) -> RemoteStore:
        """Return its generations, as questions read them; nothing is sent yet.

        Raises:
            ConfigError: its address is missing.
        """

    def source(self, store: Store, tenant: str) -> DatabaseSource:
        return DatabaseSource(store, tenant, self.config)


class AliasedDatabase(SearchedDatabase):
    """A server in which an alias of the tenant names what is published."""

    @abstractmethod
    def pointer(self, tenant: str, key_setting: str = "writer_key_env") -> AliasPointer:
        """Return a tenant's alias; `key_setting`: which key of `index` names the variable of the key."""

    @abstractmethod
    def publisher(self, store: Store, tenant: str) -> AliasPublisher:
        """Return what publishes for a tenant."""

    @abstractmethod
    def _remove(self, tenant: str) -> None:
        """Remove all that the server has of a tenant, for a holder of the tenant's lock."""

    def published(self, tenant: str) -> str | None:
        with closing(self.pointer(tenant)) as pointer:
            return pointer.current()

    def listed(self, tenant: str) -> list[StoredInfo]:
        with closing(self.pointer(tenant, "api_key_env")) as pointer:
            current = pointer.current()
            return [
                StoredInfo(each.id, each.chunks, each.created_at, each.published_at or each.created_at,
                           each.id == current)
                for each in pointer.listed()
            ]  # fmt: skip

    def roll_back(self, store: Store, tenant: str, generation_id: str | None) -> str:
        with closing(self.pointer(tenant)) as pointer, store.lock(tenant):
            target = generation_id or pointer.previous()
            if target is None:
                raise StoreError(f"the {pointer.product} server has no generation of tenant {tenant!r} to go back to")
            pointer.point_to(target)
            return target

    def publish(self, store: Store, tenant: str, generation_id: str, resend: bool) -> Figures:
        with closing(self.publisher(store, tenant)) as publisher, store.lock(tenant):
            return publisher.publish(generation_id, resend=resend).figures()

    def prune(self, store: Store, tenant: str) -> tuple[str, ...]:
        with closing(self.publisher(store, tenant)) as publisher, store.lock(tenant):
            return publisher.prune()

    def erase(self, store: Store, tenant: str) -> None:
        with store.lock(tenant):
            self._remove(tenant)
