"""What was fetched of late, up to so many bytes.

Belongs here: keeping and dropping it, counting its bytes. Does not belong here: fetching.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Values by key, those that were used longest ago dropped first. Safe to use from several threads."""

    def __init__(
        self, fetch: Callable[[list[Key]], Mapping[Key, Value]], size_of: Callable[[Value], int], limit: int
    ) -> None:
        """`fetch` gives the values of some keys, all of them; `limit`: in bytes, as `size_of` counts them."""
        self._fetch, self._size_of, self._limit = fetch, size_of, limit
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self.bytes = 0

    def of(self, keys: Collection[Key]) -> dict[Key, Value]:
        """Return the values of some keys, each once; those that are not kept are fetched together."""
        found: dict[Key, Value] = {}
        with self._lock:
            for key in keys:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    found[key] = self._kept[key][0]
        if missing := [key for key in dict.fromkeys(keys) if key not in found]:
            fetched = self._fetch(missing)
            found |= {key: fetched[key] for key in missing}
            with self._lock:
                for key in missing:
                    self._keep(key, fetched[key])
        return found

    def _keep(self, key: Key, value: Value) -> None:
        size = self._size_of(value)
        if key in self._kept or size > self._limit:
            return
        self._kept[key] = value, size
        self.bytes += size
        while self.bytes > self._limit:
            _, (_, dropped) = self._kept.popitem(last=False)
            self.bytes -= dropped
