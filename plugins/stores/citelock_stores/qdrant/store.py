"""A Qdrant server with the generations of several tenants.

Belongs here: which generation a tenant's alias names, opening one, what is not as it should be.
Does not belong here: reading as somebody (`reader`), publishing (`citelock_stores.publishing.qdrant_writer`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from citelock_stores.qdrant import filters
from citelock_stores.qdrant.connection import Connection
from citelock_stores.qdrant.layout import KEYWORD_FIELDS
from citelock_stores.qdrant.postings import PostingLists
from citelock_stores.qdrant.readable_points import Held, ReadablePoints
from citelock_stores.qdrant.reader import QdrantReader
from citelock_stores.remote.layout import Layout
from citelock_stores.remote.packing import bytes_of
from citelock_stores.remote.protocol import RemoteManifest
from citelock_stores.remote.search_settings import search_settings
from citelock_stores.remote.stored import TENANT, ManifestPayload, manifest_of
from rag_serving.access.principals import Principal, satisfied_classes
from rag_serving.config.index import Index
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import RemoteDataError, RemoteError

if TYPE_CHECKING:
    from qdrant_client.models import CollectionInfo


class QdrantStore:
    """A server with the generations of several tenants; a `RemoteStore`. Safe to use from several threads."""

    def __init__(self, config: Config) -> None:
        self._settings, self._layout = config.index, Layout.of(config.index)
        self._connection = Connection(config.index, config.index.statement_timeout_s)

    def current(self, tenant: str) -> str | None:
        answer = self._connection.ask(lambda client: client.get_aliases())
        aliases = [(alias.alias_name, alias.collection_name) for alias in answer.aliases]
        targets = self._layout.published(tenant, aliases)
        if len(targets) > 1:
            names = ", ".join(sorted(target.alias for target in targets))
            raise RemoteDataError(
                f"tenant {tenant!r} has several aliases in the Qdrant server ({names}); delete all but one"
            )
        return targets[0].generation if targets else None

    def open(self, tenant: str, generation_id: str) -> QdrantGeneration:
        held = Held(self._connection, self._layout.collection(tenant, generation_id), tenant, generation_id)
        return QdrantGeneration(held, read_manifest(held), self._settings)

    def faults(self, tenant: str) -> tuple[str, ...]:
        return tuple(self._faults(tenant))

    def close(self) -> None:
        self._connection.close()

    def _faults(self, tenant: str) -> Iterator[str]:
        if self._connection.sends_key_in_clear:
            yield f"{self._connection.url} gets the key unencrypted; use https"
        try:
            generation_id = self.current(tenant)
            if generation_id is None:
                yield f"nothing of tenant {tenant!r} is published in the Qdrant server; run `citelock build`"
                return
            held = Held(self._connection, self._layout.collection(tenant, generation_id), tenant, generation_id)
            manifest = read_manifest(held)
            yield from _missing(held, manifest)
            yield from _collection_faults(held.collection, self._connection.ask(partial(_info, name=held.collection)))
        except RemoteError as error:
            yield str(error)


class QdrantGeneration:
    """One published generation of a tenant; a `RemoteGeneration`. Safe to use from several threads."""

    def __init__(self, held: Held, payload: ManifestPayload, settings: Index) -> None:
        """Take what the server says of it.

        Raises:
            RemoteDataError: its manifest is damaged.
        """
        self._held = held
        self.manifest = RemoteManifest(bytes_of(payload.content), payload.newest)
        self._classes = frozenset(payload.classes)
        self._postings = PostingLists(settings.cache_bytes // 4)
        self._search = search_settings(held.generation, payload, settings)

    def reader(self, principal: Principal) -> QdrantReader:
        classes = satisfied_classes(principal, self._held.tenant, self._classes)
        return QdrantReader(ReadablePoints(self._held, classes), self._postings, self._search)


def read_manifest(held: Held) -> ManifestPayload:
    """Return what a generation says of itself.

    Raises:
        RemoteError: it is not there as a whole, or the server cannot answer.
    """
    narrowed = filters.unread(held.tenant, held.generation, "manifest")
    records, _ = held.connection.ask(
        lambda client: client.scroll(held.collection, scroll_filter=narrowed, limit=1, with_payload=True)
    )
    return manifest_of(records[0].payload if records else None, held.tenant, held.generation)


def _missing(held: Held, manifest: ManifestPayload) -> Iterator[str]:
    for kind, expected in manifest.points.items():
        narrowed = filters.unread(held.tenant, held.generation, kind)
        counted = held.connection.ask(
            lambda client, by=narrowed: client.count(held.collection, count_filter=by, exact=True)  # type: ignore[misc]
        )
        if counted.count != expected:
            found = f"{counted.count} of {expected} points of kind {kind}"
            yield f"collection {held.collection} has {found}; run `citelock generations repair`"


def _collection_faults(name: str, info: CollectionInfo) -> Iterator[str]:
    if missing := sorted({TENANT, *KEYWORD_FIELDS} - set(info.payload_schema)):
        yield f"collection {name} has no index of {', '.join(missing)}; `citelock generations repair` makes it"
    if info.status == "red":
        yield f"collection {name} is red; see the log of the Qdrant server"


def _info(client: object, name: str) -> CollectionInfo:
    from qdrant_client import QdrantClient

    assert isinstance(client, QdrantClient)
    return client.get_collection(name)
