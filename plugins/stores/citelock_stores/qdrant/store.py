"""A Qdrant server with the generations of several tenants: the entry point `qdrant` of `citelock.stores`.

Belongs here: which generation a tenant's alias names, opening one, what is not as it should be, removing what is of a
tenant. Does not belong here: reading as somebody (`reader`), publishing (`publishing.qdrant`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args

from citelock_stores.qdrant import filters
from citelock_stores.qdrant.connection import QdrantConnection
from citelock_stores.qdrant.points import KEYWORD_FIELDS, ReadablePoints
from citelock_stores.qdrant.reader import PostingLists, QdrantReader
from citelock_stores.remote.aliases import WAIT_S, AliasedDatabase, AliasedStore, AliasPointer, Read
from citelock_stores.remote.connections import RepeatedRequests
from citelock_stores.remote.stored import (
    TENANT,
    AliasTarget,
    GenerationLocation,
    Payload,
    StoredGeneration,
    point_id,
    stored_generation,
)
from rag_serving.artifacts.store import Store
from rag_serving.config.index import Collections
from rag_serving.config.loading import Config

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.models import CollectionInfo, Filter

    from citelock_stores.publishing.qdrant import QdrantPublisher


class QdrantStore(AliasedStore):
    """A server with the generations of several tenants. Safe to use from several threads."""

    product, place, unit = "Qdrant", "collection", "points"

    def _connect(self) -> QdrantConnection:
        return QdrantConnection(self._settings, self._settings.statement_timeout_s)

    def _aliases(self, _: str) -> Iterable[tuple[str, str]]:
        answer = self._connection.ask(lambda client: client.get_aliases())
        return [(alias.alias_name, alias.collection_name) for alias in answer.aliases]

    def _manifest(self, held: GenerationLocation) -> Payload | None:
        narrowed = filters.unread(held.tenant, held.generation, "manifest")
        records, _ = held.connection.ask(
            lambda client: client.scroll(held.place, scroll_filter=narrowed, limit=1, with_payload=True)
        )
        return records[0].payload if records else None

    def _count(self, held: GenerationLocation, kind: str) -> int:
        narrowed = filters.unread(held.tenant, held.generation, kind)
        answer = held.connection.ask(lambda client: client.count(held.place, count_filter=narrowed, exact=True))
        return int(answer.count)

    def _further_faults(self, held: GenerationLocation) -> Iterator[str]:
        yield from _collection_faults(held.place, held.connection.ask(lambda client: client.get_collection(held.place)))

    def _reading(self) -> Read:
        postings = PostingLists(self._settings.cache_bytes // 4)
        return lambda held, classes, search: QdrantReader(ReadablePoints(held, classes), postings, search)


def _collection_faults(name: str, info: CollectionInfo) -> Iterator[str]:
    if missing := sorted({TENANT, *KEYWORD_FIELDS} - set(info.payload_schema)):
        yield f"collection {name} has no index of {', '.join(missing)}; `citelock generations repair` makes it"
    if info.status == "red":
        yield f"collection {name} is red; see the log of the Qdrant server"


class QdrantAlias(AliasPointer):
    """One tenant's alias in Qdrant, used under the tenant's lock (`Store.lock`)."""

    product, places, units = "Qdrant", "collections", "points"
    requests: RepeatedRequests[QdrantClient]

    def _requests(self, config: Config, key_setting: str) -> RepeatedRequests[QdrantClient]:
        return RepeatedRequests(QdrantConnection(config.index, WAIT_S, key_setting), config.index.tries)

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

    def count(self, name: str) -> int:
        narrowed = filters.of_tenant(self.tenant)
        return self.requests.ask(lambda client: client.count(name, count_filter=narrowed, exact=True)).count

    def remove(self, stored: StoredGeneration) -> None:
        if self.layout.shared:
            self._delete(stored.collection, filters.unread(stored.tenant, stored.id))
        else:
            self.requests.ask(lambda client: client.delete_collection(stored.collection))

    def clear(self, name: str) -> None:
        if self.layout.shared:
            self._delete(name, filters.of_tenant(self.tenant))
        else:
            super().clear(name)

    def _delete(self, name: str, narrowed: Filter) -> None:
        selector = filters.selecting(narrowed)
        self.requests.ask(lambda client: client.delete(name, points_selector=selector, wait=True))

    def move(self, old: Sequence[AliasTarget], new: AliasTarget | None) -> None:
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


class QdrantDatabase(AliasedDatabase):
    """Generations in Qdrant."""

    def store(self) -> QdrantStore:
        return QdrantStore(self.config)

    def pointer(self, tenant: str, key_setting: str = "writer_key_env") -> QdrantAlias:
        return QdrantAlias(self.config, tenant, key_setting)

    def publisher(self, store: Store, tenant: str) -> QdrantPublisher:
        from citelock_stores.publishing.qdrant import QdrantPublisher

        return QdrantPublisher(store, tenant, self.config)

    def _pointers(self, tenant: str) -> Iterator[QdrantAlias]:
        for collections in get_args(Collections):
            index = self.config.index.model_copy(update={"collections": collections})
            yield QdrantAlias(self.config.model_copy(update={"index": index}), tenant)
