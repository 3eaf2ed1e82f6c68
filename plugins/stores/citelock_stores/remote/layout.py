"""Where a generation stands in a server that has collections (or indexes) and aliases of them: their names.

Belongs here: names. Does not belong here: requests (`aliases`, the backends), what is in a collection.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rag_serving.config.index import Index


class Target(NamedTuple):
    """What an alias of a tenant names."""

    alias: str
    collection: str
    generation: str


@dataclass(frozen=True)
class Layout:
    """Names of collections and aliases. `base`: what they begin with; `shared`: one collection for all tenants."""

    base: str
    shared: bool

    @classmethod
    def of(cls, settings: Index) -> Layout:
        """Return the layout that the configuration asks for."""
        return cls(settings.collection, settings.collections == "shared")

    def collection(self, tenant: str, generation: str) -> str:
        """Return the collection that holds a generation. Names of tenants and generations have no dot."""
        return self.base if self.shared else f"{self.base}.{tenant}.{generation}"

    def alias(self, tenant: str, generation: str) -> str:
        """Return the alias that publishes a generation."""
        return f"{self.base}.{tenant}.{generation}" if self.shared else f"{self.base}.{tenant}"

    def published(self, tenant: str, aliases: Iterable[tuple[str, str]]) -> list[Target]:
        """Return what a tenant's aliases name, of all (alias, collection): one where something is published."""
        targets = [
            Target(alias, collection, (alias if self.shared else collection).rpartition(".")[2])
            for alias, collection in aliases
        ]
        return [
            target
            for target in targets
            if target.alias == self.alias(tenant, target.generation)
            and target.collection == self.collection(tenant, target.generation)
        ]

    def generation_in(self, tenant: str, collection: str) -> str | None:
        """Return the generation that a collection of the tenant is of; None: it is none of the tenant's."""
        generation = collection.rpartition(".")[2]
        own = not self.shared and collection == self.collection(tenant, generation)
        return generation if own else None
