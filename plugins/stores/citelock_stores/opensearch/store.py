"""An OpenSearch server with the generations of one tenant or of several: the entry point `opensearch`.

Belongs here: which generation a tenant's alias names, opening one, what is not as it should be, removing what is of a
tenant. Does not belong here: reading as somebody (`reader`), publishing (`publishing.opensearch`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from citelock_stores.opensearch import filters
from citelock_stores.opensearch.connection import MissingIndexError, OpenSearchConnection, aliases_of, counted, found
from citelock_stores.opensearch.filters import MOST
from citelock_stores.opensearch.reader import OpenSearchReader, ReadableDocuments
from citelock_stores.remote.aliases import WAIT_S, AliasedDatabase, AliasedStore, AliasPointer, Read
from citelock_stores.remote.connections import RepeatedRequests
from citelock_stores.remote.stored import (
    AliasTarget,
    GenerationLocation,
    Payload,
    StoredGeneration,
    point_id,
    stored_generation,
)
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config

if TYPE_CHECKING:
    from opensearchpy import OpenSearch

    from citelock_stores.publishing.opensearch import OpenSearchPublisher


class OpenSearchStore(AliasedStore):
    """A server with the generations of several tenants. Safe to use from several threads."""

    product, place, unit = "OpenSearch", "index", "documents"

    def _connect(self) -> OpenSearchConnection:
        return OpenSearchConnection(self._settings, self._settings.statement_timeout_s)

    def _aliases(self, tenant: str) -> Iterable[tuple[str, str]]:
        alias = self._layout.alias(tenant, "")
        try:
            return self._connection.ask(lambda client: aliases_of(client, name=alias))
        except MissingIndexError:
            return []

    def _manifest(self, held: GenerationLocation) -> Payload | None:
        body = {"query": filters.unread(held.tenant, held.generation, "manifest"), "size": 1}
        try:
            hits = held.connection.ask(lambda client: found(client, held.place, body))
        except MissingIndexError:
            return None
        return hits[0]["_source"] if hits else None

    def _count(self, held: GenerationLocation, kind: str) -> int:
        query = filters.unread(held.tenant, held.generation, kind)
        return int(held.connection.ask(lambda client: counted(client, held.place, query)))

    def _reading(self) -> Read:
        return lambda held, classes, search: OpenSearchReader(ReadableDocuments(held, classes), search)


class OpenSearchAlias(AliasPointer):
    """One tenant's alias in OpenSearch, used under the tenant's lock (`Store.lock`)."""

    product, places, units = "OpenSearch", "indexes", "documents"
    requests: RepeatedRequests[OpenSearch]

    def _requests(self, config: Config, key_setting: str) -> RepeatedRequests[OpenSearch]:
        return RepeatedRequests(OpenSearchConnection(config.index, WAIT_S, key_setting), config.index.tries)

    def aliases(self) -> Iterable[tuple[str, str]]:
        alias = self.layout.alias(self.tenant, "")
        try:
            return self.requests.ask(lambda client: aliases_of(client, name=alias))
        except MissingIndexError:
            return []

    def collections(self) -> list[str]:
        return self.requests.ask(lambda client: sorted(client.indices.get_alias(index=f"{self.layout.base}.*")))

    def in_collection(self, name: str, everybody: bool = False) -> list[StoredGeneration]:
        narrowed = filters.of_kind("manifest") if everybody else filters.of_tenant(self.tenant, "manifest")
        hits = self.requests.ask(lambda client: found(client, name, {"query": narrowed, "size": MOST}))
        return [stored_generation(hit["_source"], name) for hit in hits]

    def count(self, name: str) -> int:
        narrowed = filters.of_tenant(self.tenant)
        return self.requests.ask(lambda client: counted(client, name, narrowed))

    def remove(self, stored: StoredGeneration) -> None:
        with suppress(MissingIndexError):  # an earlier try was done, and its answer lost
            self.requests.ask(lambda client: client.indices.delete(index=stored.collection))

    def move(self, old: Sequence[AliasTarget], new: AliasTarget | None) -> None:
        actions = [{"remove": {"index": target.collection, "alias": target.alias}} for target in old]
        if new:
            actions.append({"add": {"index": new.collection, "alias": new.alias}})
        self.requests.ask(lambda client: client.indices.update_aliases(body={"actions": actions}))

    def note(self, generation_id: str, payload: dict[str, Any]) -> None:
        index = self.layout.collection(self.tenant, generation_id)
        name = point_id(self.tenant, generation_id, "manifest", 0)
        at_once = {"refresh": "true"}
        self.requests.ask(lambda client: client.update(index=index, id=name, body={"doc": payload}, params=at_once))


class OpenSearchDatabase(AliasedDatabase):
    """Generations in OpenSearch."""

    def store(self) -> OpenSearchStore:
        return OpenSearchStore(self.config)

    def pointer(self, tenant: str, key_setting: str = "writer_key_env") -> OpenSearchAlias:
        return OpenSearchAlias(self.config, tenant, key_setting)

    def publisher(self, store: Store, tenant: str) -> OpenSearchPublisher:
        from citelock_stores.publishing.opensearch import OpenSearchPublisher

        return OpenSearchPublisher(store, tenant, self.config)
