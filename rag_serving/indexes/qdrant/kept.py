"""Values that are kept while there is room for them, the most recently used ones longest.

Belongs here: forgetting by bytes. Does not belong here: what is kept (`postings`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class KeptValues(Generic[Value]):
    """At most so many bytes of values. Safe to use from several threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()

    def get(self, key: Hashable) -> Value | None:
        """Return a value; None where it is not kept."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def keep(self, key: Hashable, value: Value, size: int) -> None:
        """Keep a value of so many bytes; one that has no room at all is not kept."""
        with self._lock:
            if key in self._values or size > self._most:
                return
            self._values[key] = value, size
            self._bytes += size
            while self._bytes > self._most:
                self._bytes -= self._values.popitem(last=False)[1][1]
