"""What a tenant's alias names in a Qdrant server, and what else it could name.

Belongs here: the tenant's generations there, moving the alias. Does not belong here: copying generations
(`rag_assets.publishing.qdrant_writer`), removing them (`removal`), reading them in a caller's name (`reader`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rag_serving.config.loading import Config
from rag_serving.indexes.qdrant import filters
from rag_serving.indexes.qdrant.connection import Connection
from rag_serving.indexes.qdrant.layout import Layout, Target, point_id
from rag_serving.indexes.qdrant.payloads import ManifestPayload, manifest_of
from rag_serving.indexes.qdrant.repeated_requests import RepeatedRequests
from rag_serving.indexes.remote.errors import RemoteDataError

WAIT_S = 60.0
"""Seconds that one answer to a publisher may take."""


@dataclass(frozen=True)
class StoredGeneration:
    """A generation that a server holds. `manifest`: None where it cannot be read."""

    id: str
    tenant: str
    collection: str
    manifest: ManifestPayload | None

    @property
    def is_whole(self) -> bool:
        """Whether all of it is there."""
        return self.manifest is not None and self.manifest.complete

    @property
    def chunks(self) -> int:
        """How many chunks it has."""
        return self.manifest.points.get("chunk", 0) if self.manifest else 0

    @property
    def left_at(self) -> datetime | None:
        """When the alias left it; None where it did not, or never came."""
        return self.manifest.left_at if self.manifest else None

    @property
    def published_at(self) -> datetime | None:
        """When the alias came to it last; None where it never did."""
        return self.manifest.published_at if self.manifest else None

    @property
    def created_at(self) -> datetime:
        """When it was built."""
        return self.manifest.created_at if self.manifest else datetime.min.replace(tzinfo=UTC)


class Pointer:
    """One tenant's alias, for a holder of the tenant's lock (`Store.lock`)."""

    def __init__(self, config: Config, tenant: str, key_setting: str = "writer_key_env") -> None:
        """`key_setting`: which key of `index` names the variable of the key; that of questions may look, not move."""
        self.tenant, self.layout = tenant, Layout.of(config.index)
        self.requests = RepeatedRequests(Connection(config.index, WAIT_S, key_setting))

    def point_to(self, generation_id: str) -> str | None:
        """Let the tenant's alias name a generation that is there as a whole; return the one that it named before.

        Raises:
            RemoteDataError: it is not there as a whole; the alias is as it was.
        """
        if not any(each.is_whole for each in self.generations() if each.id == generation_id):
            raise RemoteDataError(
                f"generation {generation_id} of tenant {self.tenant!r} is not in the Qdrant server as a whole; "
                "run `citelock generations repair`"
            )
        targets = self.targets()
        previous = targets[0].generation if targets else None
        if [target.generation for target in targets] != [generation_id]:
            self._move([target.alias for target in targets], generation_id)
        now = datetime.now(UTC)
        for target in targets:
            if target.generation != generation_id:
                self.note_left(target.generation, now)
        self._note(generation_id, {"published_at": now.isoformat(), "left_at": None})
        return previous

    def unpublish(self) -> None:
        """Let no alias of the tenant name anything."""
        from qdrant_client.models import DeleteAlias, DeleteAliasOperation

        names = [target.alias for target in self.targets()]
        deleted: list[Any] = [DeleteAliasOperation(delete_alias=DeleteAlias(alias_name=name)) for name in names]
        try:
            if deleted:
                self.requests.ask(lambda client: client.update_collection_aliases(deleted))
        except RemoteDataError:
            if self.targets():  # else an earlier try was done, and its answer lost
                raise

    def current(self) -> str | None:
        """Return the generation that the tenant's alias names."""
        targets = self.targets()
        return targets[0].generation if targets else None

    def generations(self) -> list[StoredGeneration]:
        """Return the tenant's generations in the server, whole or not."""
        if self.layout.shared:
            return self.in_collection(self.layout.base) if self.layout.base in self.collections() else []
        found = []
        for name in self.collections():
            if generation := self.layout.generation_in(self.tenant, name):
                stored = [each for each in self.in_collection(name) if each.id == generation]
                found += stored or [StoredGeneration(generation, self.tenant, name, None)]
        return found

    def listed(self) -> list[StoredGeneration]:
        """Return the tenant's generations that are there as a whole and were published, newest publication first."""
        published = [each for each in self.generations() if each.is_whole and each.published_at]
        return sorted(published, key=lambda each: (each.published_at or each.created_at, each.id), reverse=True)

    def close(self) -> None:
        """Close every connection."""
        self.requests.close()

    def previous(self) -> str | None:
        """Return the newest published generation that is older than the current one; None where there is none."""
        current, stored = self.current(), self.generations()
        before = next((each.created_at for each in stored if each.id == current), datetime.max.replace(tzinfo=UTC))
        older = [each for each in stored if each.is_whole and each.left_at and each.created_at < before]
        return max(older, key=lambda each: (each.created_at, each.id)).id if older else None

    def _move(self, old: Sequence[str], generation_id: str) -> None:
        """Replace the tenant's aliases in one operation, which is done as a whole or not at all."""
        from qdrant_client.models import CreateAlias, CreateAliasOperation, DeleteAlias, DeleteAliasOperation

        create = CreateAlias(
            collection_name=self.layout.collection(self.tenant, generation_id),
            alias_name=self.layout.alias(self.tenant, generation_id),
        )
        deleted = [DeleteAliasOperation(delete_alias=DeleteAlias(alias_name=name)) for name in old]
        operations: list[Any] = [*deleted, CreateAliasOperation(create_alias=create)]
        try:
            self.requests.ask(lambda client: client.update_collection_aliases(operations))
        except RemoteDataError:
            if self.current() != generation_id:  # else an earlier try was done, and its answer lost
                raise

    def note_left(self, generation_id: str, moment: datetime) -> None:
        """Write down when the alias left a generation."""
        self._note(generation_id, {"left_at": moment.isoformat()})

    def _note(self, generation_id: str, payload: dict[str, Any]) -> None:
        collection = self.layout.collection(self.tenant, generation_id)
        points: list[Any] = [point_id(self.tenant, generation_id, "manifest", 0)]
        self.requests.ask(lambda client: client.set_payload(collection, payload=payload, points=points, wait=True))

    def targets(self) -> list[Target]:
        """Return what the tenant's aliases name: one where something is published."""
        answer = self.requests.ask(lambda client: client.get_aliases())
        return self.layout.published(
            self.tenant, [(alias.alias_name, alias.collection_name) for alias in answer.aliases]
        )

    def collections(self) -> list[str]:
        """Return the names of all collections of the server."""
        answer = self.requests.ask(lambda client: client.get_collections())
        return [collection.name for collection in answer.collections]

    def in_collection(self, name: str, everybody: bool = False) -> list[StoredGeneration]:
        """Return the generations that a collection has of the tenant, or of everybody."""
        narrowed = filters.of_kind("manifest") if everybody else filters.of_tenant(self.tenant, "manifest")
        records, _ = self.requests.ask(
            lambda client: client.scroll(name, scroll_filter=narrowed, limit=10_000, with_payload=True)
        )
        return [_stored(record.payload or {}, name) for record in records]


def _stored(payload: dict[str, Any], collection: str) -> StoredGeneration:
    tenant, generation = str(payload.get("tenant")), str(payload.get("generation"))
    try:
        manifest = manifest_of({**payload, "complete": True}, tenant, generation)
    except RemoteDataError:
        return StoredGeneration(generation, tenant, collection, None)
    manifest = manifest.model_copy(update={"complete": payload.get("complete") is True})
    return StoredGeneration(generation, tenant, collection, manifest)
