"""Entries in memory, bounded in number and in bytes: those that were not used for longest go first.

Belongs here: counting, what goes. Does not belong here: what is kept, and for whom (`kept_answers`, `answer_cache`).
Not safe to use from several threads without a lock around it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Generic, TypeVar

from rag_serving.records.answers import Answer

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

BYTES_PER_CHARACTER = 4


class BoundedEntries(Generic[Key, Value]):
    """Values by key, each with the bytes that it counts for."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self.size = 0  # bytes, as they are counted

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> Iterator[tuple[Key, Value]]:
        """Yield every key with its value."""
        return ((key, value) for key, (value, _) in self._entries.items())

    def get(self, key: Key) -> Value | None:
        """Return a value, which counts as used now; None where there is none."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: Key, value: Value, size: int) -> bool:
        """Keep a value in place of the one of the same key; return False where it is larger than all may be."""
        if size > self._most_bytes or not self._most:
            return False
        self.drop(key)
        self._entries[key] = value, size
        self.size += size
        while len(self._entries) > self._most or self.size > self._most_bytes:
            self.drop(next(iter(self._entries)))
        return True

    def drop(self, key: Key) -> None:
        """Forget a value, if there is one."""
        if entry := self._entries.pop(key, None):
            self.size -= entry[1]

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()
        self.size = 0


def bare(answer: Answer) -> Answer:
    """Return an answer without what is of one asking alone: times, explanations, what was said beside it."""
    return replace(answer, passages=None, notes=None, why=None, rejected=(), clarification=None, timings_ms={})


def size_of(answer: Answer) -> int:
    """Return the bytes that an answer is counted with: four for each character of its JSON."""
    return BYTES_PER_CHARACTER * len(json.dumps(answer.payload(), default=str))
