"""What a tenant's alias names in an OpenSearch server.

Belongs here: the requests. Does not belong here: what is decided by their answers (`remote.aliases`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from citelock_stores.opensearch import filters
from citelock_stores.opensearch.connection import Connection, MissingError, aliases_of, found
from citelock_stores.opensearch.layout import MOST
from citelock_stores.remote.aliases import WAIT_S, AliasPointer
from citelock_stores.remote.layout import Target
from citelock_stores.remote.point_ids import point_id
from citelock_stores.remote.repeated_requests import RepeatedRequests
from citelock_stores.remote.stored import StoredGeneration, stored_generation
from rag_serving.config.loading import Config

if TYPE_CHECKING:
    from opensearchpy import OpenSearch


class Pointer(AliasPointer):
    """One tenant's alias in OpenSearch, for a holder of the tenant's lock (`Store.lock`)."""

    product = "OpenSearch"
    requests: RepeatedRequests[OpenSearch]

    def _requests(self, config: Config, key_setting: str) -> RepeatedRequests[OpenSearch]:
        return RepeatedRequests(Connection(config.index, WAIT_S, key_setting), config.index.tries)

    def aliases(self) -> Iterable[tuple[str, str]]:
        alias = self.layout.alias(self.tenant, "")
        try:
            return self.requests.ask(lambda client: aliases_of(client, name=alias))
        except MissingError:
            return []

    def collections(self) -> list[str]:
        return self.requests.ask(lambda client: sorted(client.indices.get_alias(index=f"{self.layout.base}.*")))

    def in_collection(self, name: str, everybody: bool = False) -> list[StoredGeneration]:
        narrowed = filters.of_kind("manifest") if everybody else filters.of_tenant(self.tenant, "manifest")
        hits = self.requests.ask(lambda client: found(client, name, {"query": narrowed, "size": MOST}))
        return [stored_generation(hit["_source"], name) for hit in hits]

    def remove(self, stored: StoredGeneration) -> None:
        with suppress(MissingError):  # an earlier try was done, and its answer lost
            self.requests.ask(lambda client: client.indices.delete(index=stored.collection))

    def move(self, old: Sequence[Target], new: Target | None) -> None:
        actions = [{"remove": {"index": target.collection, "alias": target.alias}} for target in old]
        if new:
            actions.append({"add": {"index": new.collection, "alias": new.alias}})
        self.requests.ask(lambda client: client.indices.update_aliases(body={"actions": actions}))

    def note(self, generation_id: str, payload: dict[str, Any]) -> None:
        index = self.layout.collection(self.tenant, generation_id)
        name = point_id(self.tenant, generation_id, "manifest", 0)
        at_once = {"refresh": "true"}
        self.requests.ask(lambda client: client.update(index=index, id=name, body={"doc": payload}, params=at_once))
