"""An OpenSearch server with the generations of one tenant or of several.

Belongs here: which generation a tenant's alias names, opening one, what is not as it should be.
Does not belong here: reading as somebody (`reader`), publishing (`citelock_stores.publishing.opensearch_writer`).
"""

from __future__ import annotations

from collections.abc import Iterator

from citelock_stores.opensearch import filters
from citelock_stores.opensearch.connection import Connection, MissingError, aliases_of, counted, found
from citelock_stores.opensearch.readable_documents import Held, ReadableDocuments
from citelock_stores.opensearch.reader import OpenSearchReader
from citelock_stores.remote.layout import Layout
from citelock_stores.remote.packing import bytes_of
from citelock_stores.remote.protocol import RemoteManifest
from citelock_stores.remote.search_settings import search_settings
from citelock_stores.remote.stored import ManifestPayload, manifest_of
from rag_serving.access.principals import Principal, satisfied_classes
from rag_serving.config.index import Index
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import RemoteDataError, RemoteError


class OpenSearchStore:
    """A server with the generations of several tenants; a `RemoteStore`. Safe to use from several threads."""

    def __init__(self, config: Config) -> None:
        self._settings, self._layout = config.index, Layout.of(config.index)
        self._connection = Connection(config.index, config.index.statement_timeout_s)

    def current(self, tenant: str) -> str | None:
        alias = self._layout.alias(tenant, "")
        try:
            aliases = self._connection.ask(lambda client: aliases_of(client, name=alias))
        except MissingError:
            return None
        targets = self._layout.published(tenant, aliases)
        if len(targets) > 1:
            names = ", ".join(sorted(target.collection for target in targets))
            raise RemoteDataError(f"alias {alias} names several indexes ({names}); leave it to one of them")
        return targets[0].generation if targets else None

    def open(self, tenant: str, generation_id: str) -> OpenSearchGeneration:
        held = self._held(tenant, generation_id)
        return OpenSearchGeneration(held, read_manifest(held), self._settings)

    def faults(self, tenant: str) -> tuple[str, ...]:
        return tuple(self._faults(tenant))

    def close(self) -> None:
        self._connection.close()

    def _held(self, tenant: str, generation_id: str) -> Held:
        return Held(self._connection, self._layout.collection(tenant, generation_id), tenant, generation_id)

    def _faults(self, tenant: str) -> Iterator[str]:
        if self._connection.sends_key_in_clear:
            yield f"{self._connection.url} gets the key unencrypted; use https"
        try:
            generation_id = self.current(tenant)
            if generation_id is None:
                yield f"nothing of tenant {tenant!r} is published in the OpenSearch server; run `citelock build`"
                return
            held = self._held(tenant, generation_id)
            for kind, expected in read_manifest(held).points.items():
                if (there := _count(held, kind)) != expected:
                    told = f"{there} of {expected} documents of kind {kind}"
                    yield f"index {held.place} has {told}; run `citelock generations repair`"
        except RemoteError as error:
            yield str(error)


class OpenSearchGeneration:
    """One published generation of a tenant; a `RemoteGeneration`. Safe to use from several threads."""

    def __init__(self, held: Held, payload: ManifestPayload, settings: Index) -> None:
        """Take what the server says of it.

        Raises:
            RemoteDataError: its manifest is damaged.
        """
        self._held = held
        self.manifest = RemoteManifest(bytes_of(payload.content), payload.newest)
        self._classes = frozenset(payload.classes)
        self._search = search_settings(held.generation, payload, settings)

    def reader(self, principal: Principal) -> OpenSearchReader:
        classes = satisfied_classes(principal, self._held.tenant, self._classes)
        return OpenSearchReader(ReadableDocuments(self._held, classes), self._search)


def read_manifest(held: Held) -> ManifestPayload:
    """Return what a generation says of itself.

    Raises:
        RemoteError: it is not there as a whole, or the server cannot answer.
    """
    body = {"query": filters.unread(held.tenant, held.generation, "manifest"), "size": 1}
    try:
        hits = held.connection.ask(lambda client: found(client, held.place, body))
    except MissingError:
        hits = []
    return manifest_of(hits[0]["_source"] if hits else None, held.tenant, held.generation)


def _count(held: Held, kind: str) -> int:
    query = filters.unread(held.tenant, held.generation, kind)
    return held.connection.ask(lambda client: counted(client, held.place, query))
