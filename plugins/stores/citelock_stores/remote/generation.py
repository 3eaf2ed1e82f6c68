"""A generation in a database: what each reader may see of it is fetched under that reader's own rights."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, lru_cache, partial
from pathlib import Path

from citelock_stores.remote.catalog import Catalog, CatalogKey, Catalogs, Trust
from citelock_stores.remote.protocol import RemoteGeneration, RemoteStore
from citelock_stores.remote.tables import RESEND, GenerationSeals
from rag_serving.access.principals import READER, Principal, satisfied_classes
from rag_serving.artifacts.manifest import Manifest, manifest_of
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import (
    ENTRY_POINTS,
    RemoteConnectionError,
    RemoteDataError,
    RemoteError,
    RemoteTimeoutError,
    ServedGeneration,
)
from rag_serving.indexes.set_tables import SetTablesOfReaders, sets_in_home
from rag_serving.indexes.sources import FileStamps
from rag_serving.indexes.view import ReaderView
from rag_serving.plugins import one

_log = logging.getLogger(__name__)
_REMEMBERED = 1024  # readers whose classes are known


class DatabaseGeneration:
    """A published generation in a database. Safe to use from several threads."""

    is_altered = False

    def __init__(
        self, home: Path, tenant: str, generation_id: str, remote: RemoteGeneration, catalogs: Catalogs
    ) -> None:
        """Compare the manifest with its signature by the installation's secret.

        Raises:
            RemoteDataError: this installation did not sign it, or it is of another generation.
        """
        self.id, self.tenant, self._home = generation_id, tenant, home
        where = f"the manifest of generation {generation_id} in the database"
        try:
            self.manifest: Manifest = manifest_of(remote.manifest.content, where, home)
        except StoreError as error:
            raise RemoteDataError(str(error)) from error
        if (self.manifest.id, self.manifest.tenant) != (generation_id, tenant):
            raise RemoteDataError(f"{where} is of generation {self.manifest.id} of {self.manifest.tenant!r}")
        self._remote, self._catalogs = remote, catalogs
        self._seals = GenerationSeals(home, tenant, generation_id)
        self._altered: frozenset[int] = frozenset()
        self._reporting = threading.Lock()
        self._classes = lru_cache(maxsize=_REMEMBERED)(self._fetch_classes)

    def __len__(self) -> int:
        return self.manifest.chunks

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return a line on passages altered since it was opened."""
        count = len(self._altered)
        return (f"{count} altered passages of the database are not used; {RESEND}",) if count else ()

    @property
    def newest(self) -> Mapping[str, datetime]:
        """The time of each source's newest page."""
        return self._remote.manifest.newest

    def for_reader(self, principal: Principal) -> ReaderView:
        """Return a principal's view, according to the database.

        Raises:
            RemoteError: the database cannot answer.
        """
        classes = self.classes_for(principal)
        reader = self._remote.reader(replace(principal, roles=READER))
        trust = Trust(self._seals, self._altered, self._refuse)
        catalog = self._catalogs.of(
            CatalogKey(self, classes), lambda: Catalog(self.manifest, reader, classes, trust, lambda: self.sets)
        )
        self._catalogs.trim()
        return ReaderView(catalog, classes, partial(satisfied_classes, principal, self.tenant))

    @cached_property
    def sets(self) -> SetTablesOfReaders:
        """The tables for queries about sets: of the generation's folder, if this machine has it."""
        return sets_in_home(Store(self._home), self.manifest)

    def classes_for(self, principal: Principal) -> frozenset[str]:
        """Return the reader classes that a principal satisfies here; none of the others are known to this process.

        Raises:
            RemoteError: the database cannot answer.
        """
        if principal.tenant != self.tenant:
            return frozenset()
        return self._classes(principal.user, principal.groups)

    def hides(self, view: ReaderView, chunk_id: str) -> bool:
        """Return whether a chunk outside `view` may exist nevertheless: true unless its page is visible in another
        version, because hidden and missing chunks are indistinguishable."""
        if view.row_of(chunk_id) is not None:
            return False
        page_id, version, _ = chunk_id.rsplit(":", 2)
        rows = view.page_rows(page_id)[:1].tolist()
        return not rows or str(view.chunks(rows)[0].version) == version

    def close(self) -> None:
        """Forget its catalogs; a question that reads one ends with it."""
        self._catalogs.forget(self)

    def _fetch_classes(self, user: str | None, groups: frozenset[str]) -> frozenset[str]:
        """Return the classes that the database opens to a principal.

        Raises:
            RemoteDataError: one of them does not name the principal.
        """
        principal = Principal(self.tenant, user, groups)
        classes = self._remote.reader(principal).classes()
        if satisfied_classes(principal, self.tenant, classes) != classes:
            raise RemoteDataError(
                f"the rules of who may read what were altered in the database; nothing is read by them; {RESEND}"
            )
        return classes

    def _refuse(self, numbers: frozenset[int]) -> None:
        """Use some chunks no more, from the next question on."""
        with self._reporting:
            self._altered |= numbers
        _log.error("generation %s: %s", self.id, "; ".join(self.degraded))
        self._catalogs.forget(self)


@dataclass
class SharedStore:
    """A database with what was fetched of it."""

    key: object
    store: RemoteStore
    catalogs: Catalogs
    users: int = 0

    def release(self) -> None:
        """Count one user less; the last one closes the connections."""
        with _OPEN.lock:
            self.users -= 1
            if self.users:
                return
            _OPEN.stores.pop(self.key, None)
        self.store.close()


@dataclass
class _Open:
    stores: dict[object, SharedStore] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


_OPEN = _Open()


def shared_store(config: Config) -> SharedStore:
    """Return the database that `index` names with one user more, which must `release` it. Nothing is sent yet.

    Raises:
        ConfigError: its address is missing.
    """
    key = config.home, config.index.model_dump_json()
    with _OPEN.lock:
        shared = _OPEN.stores.get(key)
        if shared is None:
            shared = _OPEN.stores[key] = SharedStore(key, open_store(config), Catalogs(config.index.cache_bytes))
        shared.users += 1
        return shared


def open_store(config: Config) -> RemoteStore:
    """Return the database that `index` names, for this caller alone; errors as those of `shared_store`."""
    store: RemoteStore = one(ENTRY_POINTS, config.index.kind)(config).store()
    return store


TRUSTED_S = 300.0
"""Seconds for which what the pointer last named counts while the database is away, for earlier answers alone."""


class DatabaseSource:
    """The generations of one tenant in the database of `index`. Safe to use from several threads."""

    def __init__(self, store: Store, tenant: str, config: Config) -> None:
        self._home, self._tenant, self._config = store.home, tenant, config
        self._lock = threading.Lock()
        self._shared: SharedStore | None = None
        self._closed = False
        self._last: tuple[float, str | None] | None = None

    def current(self) -> str | None:
        try:
            named = self._opened().store.current(self._tenant)
        except RemoteError as error:
            raise StoreError(f"the database of `index` cannot say what is published: {error}") from error
        self._last = time.monotonic(), named
        return named

    def last_named(self) -> str | None:
        try:
            return self.current()
        except StoreError as error:
            if not isinstance(error.__cause__, RemoteConnectionError | RemoteTimeoutError):
                return None
        last = self._last
        return last[1] if last and time.monotonic() - last[0] <= TRUSTED_S else None

    def open(self, generation_id: str) -> ServedGeneration:
        shared = self._opened()
        remote = shared.store.open(self._tenant, generation_id)
        return DatabaseGeneration(self._home, self._tenant, generation_id, remote, shared.catalogs)

    def narrows(self, old: str, new: str) -> bool:
        """Return whether they differ: the servers do not know the readers of each."""
        return old != new

    def before(self, _: str) -> list[str]:
        """Return none: older generations do not answer unless they are published again."""
        return []

    def stamps(self, _: ServedGeneration) -> FileStamps:
        """Return none: a published generation is never written to."""
        return None

    def close(self) -> None:
        with self._lock:
            shared, self._shared, self._closed = self._shared, None, True
        if shared:
            shared.release()

    def _opened(self) -> SharedStore:
        with self._lock:
            if self._closed:
                raise RemoteConnectionError("the connection is closed: the server ends")
            self._shared = self._shared or shared_store(self._config)
            return self._shared


class SearchedDatabase(ABC):
    """A database that questions read."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @abstractmethod
    def store(self) -> RemoteStore:
        """Return its generations, as questions read them; nothing is sent yet.

        Raises:
            ConfigError: its address is missing.
        """

    def source(self, store: Store, tenant: str) -> DatabaseSource:
        return DatabaseSource(store, tenant, self.config)
