"""What a tenant's alias names in a server, and what else it could name.

Belongs here: the tenant's generations there, which one is published, whatever the server. Does not belong here: its
requests (`qdrant.pointer`, `opensearch.pointer`), copying generations (`citelock_stores.publishing.alias_publisher`),
reading them in a caller's name (the backends).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from citelock_stores.remote.layout import Layout, Target
from citelock_stores.remote.repeated_requests import RepeatedRequests
from citelock_stores.remote.stored import StoredGeneration
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import RemoteDataError

WAIT_S = 60.0
"""Seconds that one answer to a publisher may take."""


class AliasPointer(ABC):
    """One tenant's alias, for a holder of the tenant's lock (`Store.lock`)."""

    product: ClassVar[str]
    """What the server is, as messages call it."""

    def __init__(self, config: Config, tenant: str, key_setting: str = "writer_key_env") -> None:
        """`key_setting`: which key of `index` names the variable of the key; that of questions may look, not move."""
        self.tenant, self.layout = tenant, Layout.of(config.index)
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
    def remove(self, stored: StoredGeneration) -> None:
        """Remove a generation: its collection, or what is its own among that of others.

        Raises:
            RemoteError: the server refuses, or is gone.
        """

    @abstractmethod
    def move(self, old: Sequence[Target], new: Target | None) -> None:
        """Replace aliases by another one, or by none, in one operation, which is done as a whole or not at all."""

    @abstractmethod
    def note(self, generation_id: str, payload: dict[str, Any]) -> None:
        """Write something down beside the manifest of a generation."""

    def close(self) -> None:
        """Close every connection."""
        self.requests.close()

    def point_to(self, generation_id: str) -> str | None:
        """Let the tenant's alias name a generation that is there as a whole; return the one that it named before.

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
        """Return the newest published generation that is older than the current one; None where there is none."""
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

    def targets(self) -> list[Target]:
        """Return what the tenant's aliases name: one where something is published."""
        return self.layout.published(self.tenant, self.aliases())

    def own_collections(self) -> list[str]:
        """Return the collections in which something of the tenant may be: each generation's own, or the one of all."""
        if self.layout.shared:
            return [name for name in self.collections() if name == self.layout.base]
        return [name for name in self.collections() if self.layout.generation_in(self.tenant, name)]

    def _name(self, old: Sequence[Target], generation_id: str) -> None:
        collection = self.layout.collection(self.tenant, generation_id)
        new = Target(self.layout.alias(self.tenant, generation_id), collection, generation_id)
        try:
            self.move(old, new)
        except RemoteDataError:
            if self.current() != generation_id:  # else an earlier try was done, and its answer lost
                raise
