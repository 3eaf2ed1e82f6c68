"""A Qdrant server with the generations of several tenants: the entry point `qdrant` of `citelock.stores`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, get_args

from citelock_stores.qdrant import filters
from citelock_stores.qdrant.connection import QdrantConnection, RepeatedRequests
from citelock_stores.qdrant.filters import TENANT
from citelock_stores.qdrant.points import (
    KEYWORD_FIELDS,
    AliasTarget,
    CollectionNames,
    GenerationLocation,
    ManifestPayload,
    ReadablePoints,
    StoredGeneration,
    bytes_of,
    manifest_of,
    point_id,
    search_settings,
    stored_generation,
)
from citelock_stores.qdrant.reader import PostingLists, QdrantReader
from citelock_stores.remote.generation import SearchedDatabase
from citelock_stores.remote.protocol import RemoteManifest
from rag_serving.access.principals import Principal, satisfied_classes
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.index import Collections, Index
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import Figures, RemoteDataError, RemoteError, StoredInfo

if TYPE_CHECKING:
    from qdrant_client.models import Filter

    from citelock_stores.publishing.qdrant import QdrantPublisher

WAIT_S = 60.0
"""Seconds that one answer to a publisher may take."""


class QdrantAlias:
    """One tenant's alias, used under the tenant's lock (`Store.lock`)."""

    def __init__(self, config: Config, tenant: str, key_setting: str = "writer_key_env") -> None:
        """`key_setting`: which key of `index` names the variable of the key; that of questions may look, not move."""
        self.tenant, self.layout = tenant, CollectionNames.of(config.index)
        self.requests = RepeatedRequests(QdrantConnection(config.index, WAIT_S, key_setting), config.index.tries)

    def collections(self) -> list[str]:
        """Return the names of the collections, those under the configured name among them."""
        answer = self.requests.ask(lambda client: client.get_collections())
        return [collection.name for collection in answer.collections]

    def in_collection(self, name: str, everybody: bool = False) -> list[StoredGeneration]:
        """Return the generations that a collection has of the tenant, or of everybody."""
        narrowed = filters.of_kind("manifest") if everybody else filters.of_tenant(self.tenant, "manifest")
        records, _ = self.requests.ask(
            lambda client: client.scroll(name, scroll_filter=narrowed, limit=10_000, with_payload=True)
        )
        return [stored_generation(record.payload or {}, name) for record in records]

    def count(self, name: str) -> int:
        """Return how many points a collection has of the tenant."""
        narrowed = filters.of_tenant(self.tenant)
        return self.requests.ask(lambda client: client.count(name, count_filter=narrowed, exact=True)).count

    def remove(self, stored: StoredGeneration) -> None:
        """Remove a generation: its collection, or its own part of a shared one. Raises RemoteError: the server refuses,
        or is gone."""
        if self.layout.shared:
            self._delete(stored.collection, filters.unread(stored.tenant, stored.id))
        else:
            self.requests.ask(lambda client: client.delete_collection(stored.collection))

    def clear(self, name: str) -> None:
        """Remove all that a collection has of the tenant; errors as those of `remove`."""
        if self.layout.shared:
            self._delete(name, filters.of_tenant(self.tenant))
        else:
            self.requests.ask(lambda client: client.delete_collection(name))

    def _delete(self, name: str, narrowed: Filter) -> None:
        selector = filters.selecting(narrowed)
        self.requests.ask(lambda client: client.delete(name, points_selector=selector, wait=True))

    def move(self, old: Sequence[AliasTarget], new: AliasTarget | None) -> None:
        """Replace aliases by another one, or by none, in one operation, which is done as a whole or not at all."""
        from qdrant_client.models import CreateAlias, CreateAliasOperation, DeleteAlias, DeleteAliasOperation

        operations: list[Any] = [
            DeleteAliasOperation(delete_alias=DeleteAlias(alias_name=target.alias)) for target in old
        ]
        if new:
            create = CreateAlias(collection_name=new.collection, alias_name=new.alias)
            operations.append(CreateAliasOperation(create_alias=create))
        self.requests.ask(lambda client: client.update_collection_aliases(operations))

    def note(self, generation_id: str, payload: dict[str, Any]) -> None:
        """Write something down beside the manifest of a generation."""
        collection = self.layout.collection(self.tenant, generation_id)
        points: list[Any] = [point_id(self.tenant, generation_id, "manifest", 0)]
        self.requests.ask(lambda client: client.set_payload(collection, payload=payload, points=points, wait=True))

    def close(self) -> None:
        """Close every connection."""
        self.requests.close()

    def point_to(self, generation_id: str) -> str | None:
        """Point the tenant's alias to a complete generation; return the one before. Raises RemoteDataError: it is not
        there as a whole; the alias is as it was."""
        if not any(each.is_whole for each in self.generations() if each.id == generation_id):
            raise RemoteDataError(
                f"generation {generation_id} of tenant {self.tenant!r} is not in the database as a whole; "
                "run `citelock generations repair`"
            )
        targets = self.targets()
        previous = targets[0].generation if targets else None
        if [target.generation for target in targets] != [generation_id]:
            self._name(targets, generation_id)
        now = datetime.now(UTC)
        for target in targets:
            if target.generation != generation_id:
                self.note_left(target.generation, now)
        self.note(generation_id, {"published_at": now.isoformat(), "left_at": None})
        return previous

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

    def previous(self) -> str | None:
        """Return the newest published generation that is older than the current one; None if there is none."""
        current, stored = self.current(), self.generations()
        before = next((each.created_at for each in stored if each.id == current), datetime.max.replace(tzinfo=UTC))
        older = [each for each in stored if each.is_whole and each.left_at and each.created_at < before]
        return max(older, key=lambda each: (each.created_at, each.id)).id if older else None

    def note_left(self, generation_id: str, moment: datetime) -> None:
        """Write down when the alias left a generation."""
        self.note(generation_id, {"left_at": moment.isoformat()})

    def unpublish(self) -> None:
        """Let no alias of the tenant name anything."""
        targets = self.targets()
        try:
            if targets:
                self.move(targets, None)
        except RemoteDataError:
            if self.targets():  # else an earlier try was done, and its answer lost
                raise

    def targets(self) -> list[AliasTarget]:
        """Return the targets of the tenant's aliases: one if something is published."""
        answer = self.requests.ask(lambda client: client.get_aliases())
        return self.layout.published(
            self.tenant, [(alias.alias_name, alias.collection_name) for alias in answer.aliases]
        )

    def own_collections(self) -> list[str]:
        """Return the collections in which something of the tenant may be: each generation's own, or the one of all."""
        if self.layout.shared:
            return [name for name in self.collections() if name == self.layout.base]
        return [name for name in self.collections() if self.layout.generation_in(self.tenant, name)]

    def _name(self, old: Sequence[AliasTarget], generation_id: str) -> None:
        collection = self.layout.collection(self.tenant, generation_id)
        new = AliasTarget(self.layout.alias(self.tenant, generation_id), collection, generation_id)
        try:
            self.move(old, new)
        except RemoteDataError:
            if self.current() != generation_id:  # else an earlier try was done, and its answer lost
                raise


class QdrantGeneration:
    """One published generation of a tenant; a `RemoteGeneration`. Safe to use from several threads."""

    def __init__(
        self, held: GenerationLocation, payload: ManifestPayload, settings: Index, postings: PostingLists
    ) -> None:
        """Read the server's description of it. Raises RemoteDataError: its manifest is damaged."""
        self._held, self._postings = held, postings
        self.manifest = RemoteManifest(bytes_of(payload.content), payload.newest)
        self._classes = frozenset(payload.classes)
        self._search = search_settings(held.generation, payload, settings)

    def reader(self, principal: Principal) -> QdrantReader:
        classes = satisfied_classes(principal, self._held.tenant, self._classes)
        return QdrantReader(ReadablePoints(self._held, classes), self._postings, self._search)


class QdrantStore:
    """A server with the generations of several tenants; a `RemoteStore`. Safe to use from several threads."""

    def __init__(self, config: Config) -> None:
        self._settings, self._layout = config.index, CollectionNames.of(config.index)
        self._connection = QdrantConnection(config.index, config.index.statement_timeout_s)

    def current(self, tenant: str) -> str | None:
        answer = self._connection.ask(lambda client: client.get_aliases())
        aliases = [(alias.alias_name, alias.collection_name) for alias in answer.aliases]
        targets = self._layout.published(tenant, aliases)
        if len(targets) > 1:
            names = ", ".join(sorted(f"{target.alias} of {target.collection}" for target in targets))
            raise RemoteDataError(
                f"tenant {tenant!r} has several aliases in the Qdrant server ({names}); delete all but one"
            )
        return targets[0].generation if targets else None

    def open(self, tenant: str, generation_id: str) -> QdrantGeneration:
        held = self._held(tenant, generation_id)
        postings = PostingLists(self._settings.cache_bytes // 4)
        return QdrantGeneration(held, self._manifest(held), self._settings, postings)

    def faults(self, tenant: str) -> tuple[str, ...]:
        return tuple(self._faults(tenant))

    def close(self) -> None:
        self._connection.close()

    def _held(self, tenant: str, generation_id: str) -> GenerationLocation:
        collection = self._layout.collection(tenant, generation_id)
        return GenerationLocation(self._connection, collection, tenant, generation_id)

    def _manifest(self, held: GenerationLocation) -> ManifestPayload:
        narrowed = filters.unread(held.tenant, held.generation, "manifest")
        records, _ = self._connection.ask(
            lambda client: client.scroll(held.place, scroll_filter=narrowed, limit=1, with_payload=True)
        )
        return manifest_of(records[0].payload if records else None, held.tenant, held.generation)

    def _faults(self, tenant: str) -> Iterator[str]:
        if self._connection.sends_key_in_clear:
            yield f"{self._connection.url} gets the key unencrypted; use https"
        try:
            generation_id = self.current(tenant)
            if generation_id is None:
                yield f"nothing of tenant {tenant!r} is published in the Qdrant server; run `citelock build`"
                return
            held = self._held(tenant, generation_id)
            for kind, expected in self._manifest(held).points.items():
                narrowed = filters.unread(tenant, generation_id, kind)
                answer = self._connection.ask(
                    lambda client, which=narrowed: client.count(held.place, count_filter=which, exact=True)  # type: ignore[misc]
                )
                if answer.count != expected:
                    has = f"collection {held.place} has {answer.count} of {expected} points of kind {kind}"
                    yield f"{has}; run `citelock generations repair`"
            info = self._connection.ask(lambda client: client.get_collection(held.place))
            if missing := sorted({TENANT, *KEYWORD_FIELDS} - set(info.payload_schema)):
                names = ", ".join(missing)
                yield f"collection {held.place} has no index of {names}; `citelock generations repair` makes it"
            if info.status == "red":
                yield f"collection {held.place} is red; see the log of the Qdrant server"
        except RemoteError as error:
            yield str(error)


class QdrantDatabase(SearchedDatabase):
    """Generations in Qdrant, where an alias of the tenant names what is published."""

    def store(self) -> QdrantStore:
        return QdrantStore(self.config)

    def publisher(self, store: Store, tenant: str) -> QdrantPublisher:
        """Return a tenant's publisher."""
        from citelock_stores.publishing.qdrant import QdrantPublisher

        return QdrantPublisher(store, tenant, self.config)

    def _pointers(self, tenant: str) -> Iterator[QdrantAlias]:
        """Yield the tenant's alias in each layout: there may be something of it in both."""
        for collections in get_args(Collections):
            index = self.config.index.model_copy(update={"collections": collections})
            with closing(QdrantAlias(self.config.model_copy(update={"index": index}), tenant)) as pointer:
                yield pointer

    def published(self, tenant: str) -> str | None:
        with closing(QdrantAlias(self.config, tenant)) as pointer:
            return pointer.current()

    def listed(self, tenant: str) -> list[StoredInfo]:
        with closing(QdrantAlias(self.config, tenant, "api_key_env")) as pointer:
            current = pointer.current()
            return [
                StoredInfo(each.id, each.chunks, each.created_at, each.published_at or each.created_at,
                           each.id == current)
                for each in pointer.listed()
            ]  # fmt: skip

    def roll_back(self, store: Store, tenant: str, generation_id: str | None) -> str:
        with closing(QdrantAlias(self.config, tenant)) as pointer, store.lock(tenant):
            target = generation_id or pointer.previous()
            if target is None:
                raise StoreError(f"the Qdrant server has no generation of tenant {tenant!r} to go back to")
            pointer.point_to(target)
            return target

    def publish(self, store: Store, tenant: str, generation_id: str, resend: bool) -> Figures:
        with closing(self.publisher(store, tenant)) as publisher, store.lock(tenant):
            return publisher.publish(generation_id, resend=resend).figures()

    def prune(self, store: Store, tenant: str) -> tuple[str, ...]:
        with closing(self.publisher(store, tenant)) as publisher, store.lock(tenant):
            return publisher.prune()

    def count(self, tenant: str) -> dict[str, int]:
        counts = Counter[str]()
        for pointer in self._pointers(tenant):
            names = pointer.own_collections()
            counts["aliases"] += len(pointer.targets())
            counts["collections"] += 0 if pointer.layout.shared else len(names)
            counts["points"] += sum(map(pointer.count, names))
        return {kind: count for kind, count in counts.items() if count}

    def erase(self, store: Store, tenant: str) -> None:
        """Remove all of a tenant from the server, in every layout; parts removed before a failure stay removed. Raises
        RemoteError: the server refuses, or is gone."""
        with store.lock(tenant):
            for pointer in self._pointers(tenant):
                pointer.unpublish()
                for name in pointer.own_collections():
                    pointer.clear(name)
