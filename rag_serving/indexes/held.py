"""The generation that questions are answered from, and how many of them still read it.

Belongs here: counting readers, exchanging one generation for another, closing the old one after its last reader.
Does not belong here: which generation is wanted, opening it (`current`).
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from rag_serving.indexes.served import ServedGeneration
from rag_serving.indexes.sources import FileStamps

_log = logging.getLogger(__name__)


@dataclass
class Held:
    """An open generation and how many questions read it."""

    generation: ServedGeneration
    readers: int = 0
    retired: bool = False
    stamps: FileStamps = None


class Slot:
    """Holds at most one open generation. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.held: Held | None = None

    def holds(self, wanted: str) -> bool:
        """Return whether the generation of that id is the open one."""
        with self._lock:
            return self.held is not None and self.held.generation.id == wanted

    def take(self, wanted: str | None = None) -> Held | None:
        """Return the open generation with one reader more, if it is the wanted one, or whichever it is."""
        with self._lock:
            held = self.held
            if held is None or (wanted is not None and held.generation.id != wanted):
                return None
            held.readers += 1
        if held.generation.is_altered:
            self._withdraw(held)
            return None
        return held

    def release(self, held: Held) -> None:
        """Count one reader less; the last one of a generation that was exchanged closes it."""
        with self._lock:
            held.readers -= 1
            last = held.retired and held.readers == 0
        if last:
            held.generation.close()

    def exchange(self, generation: ServedGeneration | None, stamps: FileStamps = None) -> None:
        """Hold this generation from now on; the old one is closed after its last reader."""
        with self._lock:
            old, self.held = self.held, Held(generation, stamps=stamps) if generation is not None else None
            if old:
                old.retired = True
            idle = old is not None and old.readers == 0
        if old and idle:
            old.generation.close()

    def _withdraw(self, held: Held) -> None:
        """Answer no more from a generation whose files were written to; it is opened anew if they are whole."""
        self.release(held)
        with self._lock:
            if self.held is not held:
                return
            self.held, held.retired = None, True
            idle = held.readers == 0
        _log.error("generation %s was written to and is withdrawn", held.generation.id)
        if idle:
            held.generation.close()
