"""What a tenant's alias names in a Qdrant server.

Belongs here: the requests. Does not belong here: what is decided by their answers (`remote.aliases`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from citelock_stores.qdrant import filters
from citelock_stores.qdrant.connection import Connection
from citelock_stores.remote.aliases import WAIT_S, AliasPointer
from citelock_stores.remote.layout import Target
from citelock_stores.remote.point_ids import point_id
from citelock_stores.remote.repeated_requests import RepeatedRequests
from citelock_stores.remote.stored import StoredGeneration, stored_generation
from rag_serving.config.loading import Config

if TYPE_CHECKING:
    from qdrant_client import QdrantClient


class Pointer(AliasPointer):
    """One tenant's alias in Qdrant, for a holder of the tenant's lock (`Store.lock`)."""

    product = "Qdrant"

    requests: RepeatedRequests[QdrantClient]

    def _requests(self, config: Config, key_setting: str) -> RepeatedRequests[QdrantClient]:
        return RepeatedRequests(Connection(config.index, WAIT_S, key_setting), config.index.tries)

    def aliases(self) -> Iterable[tuple[str, str]]:
        answer = self.requests.ask(lambda client: client.get_aliases())
        return [(alias.alias_name, alias.collection_name) for alias in answer.aliases]

    def collections(self) -> list[str]:
        answer = self.requests.ask(lambda client: client.get_collections())
        return [collection.name for collection in answer.collections]

    def in_collection(self, name: str, everybody: bool = False) -> list[StoredGeneration]:
        narrowed = filters.of_kind("manifest") if everybody else filters.of_tenant(self.tenant, "manifest")
        records, _ = self.requests.ask(
            lambda client: client.scroll(name, scroll_filter=narrowed, limit=10_000, with_payload=True)
        )
        return [stored_generation(record.payload or {}, name) for record in records]

    def remove(self, stored: StoredGeneration) -> None:
        if not self.layout.shared:
            self.requests.ask(lambda client: client.delete_collection(stored.collection))
            return
        selector = filters.selecting(filters.unread(stored.tenant, stored.id))
        self.requests.ask(lambda client: client.delete(stored.collection, points_selector=selector, wait=True))

    def move(self, old: Sequence[Target], new: Target | None) -> None:
        from qdrant_client.models import CreateAlias, CreateAliasOperation, DeleteAlias, DeleteAliasOperation

        operations: list[Any] = [
            DeleteAliasOperation(delete_alias=DeleteAlias(alias_name=target.alias)) for target in old
        ]
        if new:
            create = CreateAlias(collection_name=new.collection, alias_name=new.alias)
            operations.append(CreateAliasOperation(create_alias=create))
        self.requests.ask(lambda client: client.update_collection_aliases(operations))

    def note(self, generation_id: str, payload: dict[str, Any]) -> None:
        collection = self.layout.collection(self.tenant, generation_id)
        points: list[Any] = [point_id(self.tenant, generation_id, "manifest", 0)]
        self.requests.ask(lambda client: client.set_payload(collection, payload=payload, points=points, wait=True))
