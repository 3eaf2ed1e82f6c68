"""Where a generation stands in Qdrant: collections, aliases, kinds of points, their ids and payload fields.

Belongs here: names. Does not belong here: requests (`connection`, `readable_points`), values of payloads (`payloads`).

Every point belongs to one generation of one tenant and says so in its payload, also where its collection is of that
generation alone. Its id is a UUID whose upper half is a digest of (tenant, generation, kind of point) and whose lower
half counts: the same generation always has the same ids, and points of a kind come in their order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple
from uuid import UUID

from rag_serving.config.index import Index

FORMAT = 1

PointKind = Literal["chunk", "place", "original", "piece", "terms", "manifest"]
"""chunk: a chunk with its text and vectors. place: another place of a chunk's text. original: the file of a page.
piece: a part of its bytes. terms: a part of the vocabulary of a reader class. manifest: what the generation says of
itself."""

TENANT, GENERATION, POINT, READERS, ROW = "tenant", "generation", "point", "readers", "row"
DENSE, WINDOWS = "dense", "windows"
"""Vectors of chunks: one for each, or a multivector of its windows, of which the nearest counts."""
SPARSE = {"lexical": "lexical-counts", "keyword": "keyword-counts"}
"""Sparse vectors by kind of posting: how often the chunk has the term of each number."""
HNSW_M, HNSW_EF_CONSTRUCT = 16, 100

KEYWORD_FIELDS = (GENERATION, POINT, READERS, "posting", "sha256")
"""Payload fields with a keyword index beside `tenant`."""
BOOK_FIELDS = {
    "chapter": "keyword",
    "section": "keyword",
    "page": "integer",
    "passage_id": "keyword",
    "source_file": "keyword",
    "text": "text",
}
"""Payload fields of the passages of a book, each with an index of its own."""

_PREFIX = len("01234567-89ab-cdef-")


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


def point_id(tenant: str, generation: str, kind: PointKind, number: int) -> str:
    """Return the id of the point of a kind that has this number, such as a chunk's row."""
    return str(UUID(int=_upper(tenant, generation, kind) << 64 | number))


def id_prefix(tenant: str, generation: str, kind: PointKind) -> str:
    """Return what the ids of a generation's points of a kind begin with, and no others."""
    return point_id(tenant, generation, kind, 0)[:_PREFIX]


def number_of(point: object) -> int:
    """Return the number that a point's id ends in; of thousands of points, so not by `UUID`.

    Raises:
        ValueError: it is no id of ours.
    """
    lower = str(point)[_PREFIX:]
    return int(lower[:4] + lower[5:], 16)


def _upper(tenant: str, generation: str, kind: PointKind) -> int:
    name = json.dumps([FORMAT, tenant, generation, kind]).encode()
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big")
