"""A tenant's alias in a server, its possible targets, and the program's requirements on a database.

Belongs here: the tenant's generations there, the published one, for any server. Does not belong here: its requests
(`qdrant.store`), copying generations (`publishing.alias_publisher`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from citelock_stores.remote.connections import RepeatedRequests, ServerConnection
from citelock_stores.remote.generation import SearchedDatabase
from citelock_stores.remote.protocol import RemoteManifest, RemoteReader
from citelock_stores.remote.stored import (
    AliasTarget,
    CollectionNames,
    GenerationLocation,
    ManifestPayload,
    Payload,
    SearchSettings,
    StoredGeneration,
    bytes_of,
    manifest_of,
    search_settings,
)
from rag_serving.access.principals import Principal, satisfied_classes
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.index import Index
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import Figures, RemoteDataError, RemoteError, StoredInfo

if TYPE_CHECKING:
    from citelock_stores.publishing.alias_publisher import AliasPublisher


WAIT_S = 60.0
"""Seconds that one answer to a publisher may take."""


Read = Callable[[GenerationLocation, frozenset[str], SearchSettings], RemoteReader]
"""Gives what reads a generation in the name of some reader classes."""


class AliasPointer(ABC):
    """One tenant's alias, used under the tenant's lock (`Store.lock`)."""

    product: ClassVar[str]
    """What the server is, as messages call it."""
    places: ClassVar[str]
    units: ClassVar[str]
    """What generations are in, and made of, as counts call it."""

    def __init__(self, config: Config, tenant: str, key_setting: str = "writer_key_env") -> None:
        """`key_setting`: which key of `index` names the variable of the key; that of questions may look, not move."""
        self.tenant, self.layout = tenant, CollectionNames.of(config.index)
        self.requests = self._requests(config, key_setting)

    @abstractmethod
    def _requests(self, config: Config, key_setting: str) -> RepeatedRequests[Any]:
        """Return a connection; nothing is sent yet."""

    @abstractmethod
    def aliases(self) -> Iterable[tuple[str, str]]:
        """Return (alias, collection), those of the tenant among them."""

    @abstractmethod
    def collections(self) -> list[str]:
        """Return the names of the collections, those under the configured name among them."""

    @abstractmethod
    def in_collection(self, name: str, everybody: bool = False) -> list[StoredGeneration]:
        """Return the generations that a collection has of the tenant, or of everybody."""

    @abstractmethod
    def count(self, name: str) -> int:
        """Return how much a collection has of the tenant."""

    @abstractmethod
    def remove(self, stored: StoredGeneration) -> None:
        """Remove a generation: its collection, or its own part of a shared one.

        Raises:
            RemoteError: the server refuses, or is gone.
        """

    def clear(self, name: str) -> None:
        """Remove all that a collection has of the tenant; errors as those of `remove`."""
        self.remove(StoredGeneration("", self.tenant, name, None))

    @abstractmethod
    def move(self, old: Sequence[AliasTarget], new: AliasTarget | None) -> None:
        """Replace aliases by another one, or by none, in one operation, which is done as a whole or not at all."""

    @abstractmethod
    def note(self, generation_id: str, payload: dict[str, Any]) -> None:
        """Write something down beside the manifest of a generation."""

    def close(self) -> None:
        """Close every connection."""
        self.requests.close()

    def point_to(self, generation_id: str) -> str | None:
        """Point the tenant's alias to a complete generation; return the one before.

        Raises:
            RemoteDataError: it is not there as a whole; the alias is as it was.
        """
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
        return self.layout.published(self.tenant, self.aliases())

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


class AliasedGeneration:
    """One published generation of a tenant; a `RemoteGeneration`. Safe to use from several threads."""

    def __init__(self, held: GenerationLocation, payload: ManifestPayload, settings: Index, read: Read) -> None:
        """Read the server's description of it.

        Raises:
            RemoteDataError: its manifest is damaged.
        """
        self._held, self._read = held, read
        self.manifest = RemoteManifest(bytes_of(payload.content), payload.newest)
        self._classes = frozenset(payload.classes)
        self._search = search_settings(held.generation, payload, settings)

    def reader(self, principal: Principal) -> RemoteReader:
        return self._read(self._held, satisfied_classes(principal, self._held.tenant, self._classes), self._search)


class AliasedStore(ABC):
    """A server with the generations of several tenants; a `RemoteStore`. Safe to use from several threads."""

    product: ClassVar[str]
    place: ClassVar[str]
    """What a generation is in."""
    unit: ClassVar[str]
    """What it is made of there."""

    def __init__(self, config: Config) -> None:
        self._settings, self._layout = config.index, CollectionNames.of(config.index)
        self._connection = self._connect()

    @abstractmethod
    def _connect(self) -> ServerConnection[Any]:
        """Return a connection; nothing is sent yet."""

    @abstractmethod
    def _aliases(self, tenant: str) -> Iterable[tuple[str, str]]:
        """Return (alias, collection), those of the tenant among them."""

    @abstractmethod
    def _manifest(self, held: GenerationLocation) -> Payload | None:
        """Return a generation's own description; None if it is missing."""

    @abstractmethod
    def _count(self, held: GenerationLocation, kind: str) -> int:
        """Return how much of a kind a generation has."""

    @abstractmethod
    def _reading(self) -> Read:
        """Return the reader of one generation."""

    def _further_faults(self, _: GenerationLocation) -> Iterator[str]:
        """Yield further faults of a generation's location."""
        yield from ()

    def current(self, tenant: str) -> str | None:
        targets = self._layout.published(tenant, self._aliases(tenant))
        if len(targets) > 1:
            names = ", ".join(sorted(f"{target.alias} of {target.collection}" for target in targets))
            raise RemoteDataError(
                f"tenant {tenant!r} has several aliases in the {self.product} server ({names}); delete all but one"
            )
        return targets[0].generation if targets else None

    def open(self, tenant: str, generation_id: str) -> AliasedGeneration:
        held = self._held(tenant, generation_id)
        return AliasedGeneration(held, self._read_manifest(held), self._settings, self._reading())

    def faults(self, tenant: str) -> tuple[str, ...]:
        return tuple(self._faults(tenant))

    def close(self) -> None:
        self._connection.close()

    def _held(self, tenant: str, generation_id: str) -> GenerationLocation:
        return GenerationLocation(
            self._connection, self._layout.collection(tenant, generation_id), tenant, generation_id
        )

    def _read_manifest(self, held: GenerationLocation) -> ManifestPayload:
        return manifest_of(self._manifest(held), held.tenant, held.generation)

    def _faults(self, tenant: str) -> Iterator[str]:
        if self._connection.sends_key_in_clear:
            yield f"{self._connection.url} gets the key unencrypted; use https"
        try:
            generation_id = self.current(tenant)
            if generation_id is None:
                yield f"nothing of tenant {tenant!r} is published in the {self.product} server; run `citelock build`"
                return
            held = self._held(tenant, generation_id)
            for kind, expected in self._read_manifest(held).points.items():
                if (there := self._count(held, kind)) != expected:
                    has = f"{self.place} {held.place} has {there} of {expected} {self.unit} of kind {kind}"
                    yield f"{has}; run `citelock generations repair`"
            yield from self._further_faults(held)
        except RemoteError as error:
            yield str(error)


class AliasedDatabase(SearchedDatabase):
    """A server in which an alias of the tenant names what is published."""

    @abstractmethod
    def pointer(self, tenant: str, key_setting: str = "writer_key_env") -> AliasPointer:
        """Return a tenant's alias; `key_setting`: which key of `index` names the variable of the key."""

    @abstractmethod
    def publisher(self, store: Store, tenant: str) -> AliasPublisher:
        """Return a tenant's publisher."""

    def _pointers(self, tenant: str) -> Iterator[AliasPointer]:
        """Yield the tenant's alias in each layout in which there may be something of it."""
        yield self.pointer(tenant)

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

    def count(self, tenant: str) -> dict[str, int]:
        counts = Counter[str]()
        for pointer in self._pointers(tenant):
            with closing(pointer):
                names = pointer.own_collections()
                counts["aliases"] += len(pointer.targets())
                counts[pointer.places] += 0 if pointer.layout.shared else len(names)
                counts[pointer.units] += sum(map(pointer.count, names))
        return {kind: count for kind, count in counts.items() if count}

    def erase(self, store: Store, tenant: str) -> None:
        """Remove all of a tenant from the server, in every layout; parts removed before a failure stay removed.

        Raises:
            RemoteError: the server refuses, or is gone.
        """
        with store.lock(tenant):
            for pointer in self._pointers(tenant):
                with closing(pointer):
                    pointer.unpublish()
                    for name in pointer.own_collections():
                        pointer.clear(name)
