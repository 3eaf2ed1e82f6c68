"""The database of `index`, opened once in a process for all tenants.

Belongs here: which backend it is, who still uses it. Does not belong here: a backend.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from citelock_stores.remote.catalogs import Catalogs
from citelock_stores.remote.protocol import RemoteStore
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import ENTRY_POINTS
from rag_serving.plugins import one


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
