"""Looking keys up for requests, with a short-lived cache.

Used by the event loop alone, and so without locks.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from citelock_governance.api_keys.store import ApiKey, KeyStore, KeyStoreError, parts_of
from rag_serving.config.loading import Config
from rag_serving.deadline import run_in_thread
from rag_serving.hooks import MachineKey

FRESH_S = 2.0
"""Seconds after which a key is looked up again: a revoked one is refused no later, in each process."""
KEPT_S = 60.0
"""Seconds for which a key that was found serves while the database does not answer."""
MAX_KEYS = 10_000
MAX_AT_ONCE = 32
"""Keys that are looked up at once."""


@dataclass(frozen=True)
class _Found:
    at: float
    key: ApiKey


def opened(config: Config) -> KeyLookup:
    """Return the lookup of an installation's keys. Nothing is connected before the first lookup."""
    return KeyLookup(KeyStore(config))


class KeyLookup:
    """Finds keys by what is written and by their ids."""

    def __init__(self, store: KeyStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._found: OrderedDict[str, _Found] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[ApiKey | None]] = {}

    def is_key(self, token: str) -> bool:
        return parts_of(token) is not None

    async def of_token(self, token: str) -> MachineKey | None:
        identifier, secret = parts_of(token) or ("", "")
        key = await self.find(identifier)
        return _in_force(key) if key is not None and key.holds(secret) else None

    async def of_id(self, identifier: str) -> MachineKey | None:
        return _in_force(await self.find(identifier))

    async def find(self, identifier: str) -> ApiKey | None:
        """Return a key, possibly an expired one; None if there is none.

        Raises:
            KeyStoreError: the database does not answer.
        """
        kept = self._found.get(identifier)
        if kept is not None and self._clock() - kept.at < FRESH_S:
            return kept.key
        try:
            key = await self._looked_up(identifier)
        except KeyStoreError:
            if kept is not None and self._clock() - kept.at < KEPT_S:
                return kept.key
            raise
        self._keep(identifier, key)
        return key

    def close(self) -> None:
        self._store.close()

    async def _looked_up(self, identifier: str) -> ApiKey | None:
        """Look a key up in a thread; of requests at once one does for all."""
        task = self._under_way.get(identifier)
        if task is None or task.done():
            if len(self._under_way) >= MAX_AT_ONCE:
                raise KeyStoreError("too many keys are looked up at once")
            task = asyncio.create_task(self._read(identifier))
            self._under_way[identifier] = task
        return await asyncio.shield(task)

    async def _read(self, identifier: str) -> ApiKey | None:
        try:
            return await asyncio.wrap_future(run_in_thread(lambda: self._store.find(identifier), "api-key"))
        finally:
            self._under_way.pop(identifier, None)

    def _keep(self, identifier: str, key: ApiKey | None) -> None:
        """Cache a result; made-up ids take no room from keys."""
        if key is None:
            self._found.pop(identifier, None)
            return
        self._found[identifier] = _Found(self._clock(), key)
        self._found.move_to_end(identifier)
        while len(self._found) > MAX_KEYS:
            self._found.popitem(last=False)


def _in_force(key: ApiKey | None) -> MachineKey | None:
    if key is None or not key.is_in_force(time.time()):
        return None
    return MachineKey(key.id, key.principal, key.expires, key.resource)
