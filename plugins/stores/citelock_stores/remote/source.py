"""The generations of one tenant in a database, as questions are answered from them.

Belongs here: following the pointer, opening what it names, what is known while the database is away.
Does not belong here: which backend it is (`opening`), reading a generation (`generation`).
"""

from __future__ import annotations

import threading
import time

from citelock_stores.remote.generation import DatabaseGeneration
from citelock_stores.remote.opening import SharedStore, shared_store
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import RemoteConnectionError, RemoteError, RemoteTimeoutError
from rag_serving.indexes.served import ServedGeneration
from rag_serving.indexes.sources import FileStamps

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
        """Return whether they differ: who may read what in each is not told to whoever serves them."""
        return old != new

    def before(self, _: str) -> list[str]:
        """Return none: what is older is not answered from unless it is published again."""
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
