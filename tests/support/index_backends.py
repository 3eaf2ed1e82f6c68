"""Every place where a generation can be searched, opened the same way: what one contract suite runs against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from citelock_stores.postgres.migrations.upgrade import migrate
from citelock_stores.postgres.publisher import Publisher
from citelock_stores.publishing.postgres import publish_generation
from citelock_stores.qdrant.store import QdrantDatabase
from rag_assets.publishing.repair import repair
from rag_serving.artifacts.store import Store
from rag_serving.config.index import Index, Indexing
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import ServedGeneration, open_database
from rag_serving.indexes.sources import open_source
from support.chroma_server import started_chroma
from support.constants import section_of
from support.postgres import Postgres, started_pgvector
from support.qdrant_server import QdrantServer
from support.stand_in_http import StandIn

BACKENDS = ("disk", "chroma", "chroma_server", "postgres", "qdrant")
REMOTE = ("postgres", "qdrant")
PARTS: dict[str, Any] = {"indexing": {"max_part_chunks": 16}}
"""What stores a generation in parts; the backend `parts` has these settings, and is otherwise `disk`."""

Settings = dict[str, Any]
"""Keys of the configuration."""


@dataclass(frozen=True)
class Backend:
    """Where generations are searched.

    Attributes:
        settings: keys for the installation in a home of its own; prepares the database.
        publish: lets a tenant's pointer name a generation that has a folder, copied where it must be.
    """

    name: str
    settings: Callable[[Path], Settings]
    publish: Callable[[Config, str, str], object]

    @contextmanager
    def opened(self, config: Config, tenant: str, generation_id: str) -> Iterator[ServedGeneration]:
        """The generation of that id, as a server opens it."""
        source = open_source(Store(config.home), tenant, config)
        try:
            generation = source.open(generation_id)
            yield generation
            generation.close()
        finally:
            source.close()


class Backends:
    """Servers, each started when it is first asked for. Used in a `with` block."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._stack, self._found = folder, ExitStack(), dict[str, Backend]()
        self._homes = count()
        self.servers = dict[str, Postgres | StandIn]()
        """What can be stopped and started again, by the name of its backend."""

    def __enter__(self) -> Backends:
        return self

    def __exit__(self, *fault: object) -> None:
        self._stack.__exit__(None, None, None)

    def get(self, name: str) -> Backend:
        """The backend of a name."""
        if name not in self._found:
            self._found[name] = getattr(self, f"_{name}")()
        return self._found[name]

    def moved(self, name: str, config: Config, tenant: str) -> Config:
        """Publish what a folder's pointer names in a database, or fill Chroma with it; gives the configuration of a
        server that reads there. Of `disk` that is the same one."""
        backend, store = self.get(name), Store(config.home)
        settings, current = backend.settings(config.home), store.current(tenant)
        assert current
        if indexing := settings.get("indexing"):
            changed = section_of(Indexing, **{**config.indexing.model_dump(), **indexing})
            filled = config.model_copy(update={"indexing": changed})
            assert repair(store, tenant, current, filled).left == ()
            return filled
        if index := settings.get("index"):
            remote = config.model_copy(update={"index": Index.model_validate(index)})
            backend.publish(remote, tenant, current)
            return remote
        return config

    def _disk(self) -> Backend:
        return Backend("disk", lambda _: {}, point)

    def _parts(self) -> Backend:
        return Backend("parts", lambda _: PARTS, point)

    def _chroma(self) -> Backend:
        return Backend("chroma", lambda _: {"indexing": {"dense_search": "chroma"}}, point)

    def _chroma_server(self) -> Backend:
        url = self._stack.enter_context(started_chroma(self._folder))
        settings = {"indexing": {"dense_search": "chroma", "chroma_url": url}}
        return Backend("chroma_server", lambda _: settings, point)

    def _postgres(self) -> Backend:
        server = self._stack.enter_context(started_pgvector())
        self.servers["postgres"] = server

        def settings(home: Path) -> Settings:
            database = f"contract{next(self._homes)}"
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {database}".encode())
            at = f"127.0.0.1:{server.port}/{database}"
            urls = {
                "url": f"postgresql://citelock_app@{at}",
                "writer_url": f"postgresql://citelock_writer@{at}",
                "owner_url": f"postgresql://postgres@{at}",
            }
            index = {"kind": "postgres", **urls}
            migrate(Config(home=home, index=index))
            return {"index": index}

        return Backend("postgres", settings, publish_in_postgres)

    def _qdrant(self) -> Backend:
        return self._aliased("qdrant", QdrantServer())

    def _aliased(self, kind: str, server: StandIn) -> Backend:
        self.servers[kind] = server
        self._stack.callback(server.close)

        def settings(_: Path) -> Settings:
            return {"index": {"kind": kind, "url": server.url, "collection": f"contract{next(self._homes)}"}}

        return Backend(kind, settings, publish_under_alias)


def point(config: Config, tenant: str, generation_id: str) -> None:
    """Publish a generation in its folder."""
    Store(config.home).point_current(tenant, generation_id)


def publish_in_postgres(config: Config, tenant: str, generation_id: str) -> None:
    """Copy a generation to the database, if it is not there, and publish it."""
    if not publish_generation(Store(config.home), tenant, generation_id, config):
        Publisher(config, tenant).point_to(generation_id)


def publish_under_alias(config: Config, tenant: str, generation_id: str) -> None:
    """The same in Qdrant."""
    database = open_database(config)
    assert isinstance(database, QdrantDatabase)
    publisher = database.publisher(Store(config.home), tenant)
    try:
        if generation_id in {one.id for one in publisher.generations()}:
            publisher.point_to(generation_id)
        else:
            publisher.publish(generation_id)
    finally:
        publisher.close()
