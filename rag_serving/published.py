"""The published generation, open for questions, exchanged for a newer one without losing any.

Belongs here: following the `current` pointer, counting who still reads an old generation, closing it after the last.
Does not belong here: building or publishing, what a question does with a generation.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rag_serving.config import Config
from rag_serving.generation import Generation
from rag_serving.store import Store, StoreError, read_pointer

RETRY_S = 5.0

_log = logging.getLogger(__name__)


class UnpublishedError(Exception):
    """The tenant has no generation that can be opened; the message says how to mend it."""


@dataclass
class _Held:
    """An open generation and how many questions read it."""

    generation: Generation
    readers: int = 0
    retired: bool = False


class Published:
    """The generation that one tenant's questions are answered from. Safe to use from several threads.

    The pointer is read at every lease. The first generation is opened by the question that needs it;
    a newer one beside the questions, which go on with the old one until it is open. If it cannot be opened, the old one
    stays, `problem` says why, and it is tried again after `retry_s` seconds. `pinned` is the id of a generation to stay
    with, published or not.
    """

    def __init__(
        self, store: Store, tenant: str, config: Config, retry_s: float = RETRY_S, pinned: str | None = None
    ) -> None:
        self._store, self._tenant, self._config = store, tenant, config
        self._pointer = store.pointer(tenant)
        self._pinned = pinned
        self._retry_s = retry_s
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._held: _Held | None = None
        self._failed: tuple[str, float] | None = None
        self.problem: str | None = None

    @contextmanager
    def lease(self) -> Iterator[Generation]:
        """The published generation, which stays open until the block ends.

        Raises:
            UnpublishedError: there is none that can be opened.
        """
        self._follow()
        with self._lock:
            held = self._held
            if held is None:
                raise UnpublishedError(self._absence())
            held.readers += 1
        try:
            yield held.generation
        finally:
            with self._lock:
                held.readers -= 1
                last = held.retired and held.readers == 0
            if last:
                held.generation.close()

    def close(self) -> None:
        """Let go of the generation; it is closed after its last reader."""
        self._exchange(None)

    def refresh(self) -> None:
        """Open what the pointer names, if it is not open yet, before returning."""
        wanted = self._wanted()
        if wanted is not None:
            self._open(wanted)

    def _absence(self) -> str:
        """Why there is nothing to lease, without anything of the server's inside."""
        if self._failed:
            return f"generation {self._failed[0]} cannot be opened; `citelock doctor` says why"
        return f"nothing is published for tenant {self._tenant!r} yet; run `citelock build`"

    def _follow(self) -> None:
        """Start opening a newer generation; wait for it only where there is none to go on with."""
        if self._held is None:
            self.refresh()
        elif (wanted := self._wanted()) is not None and not self._opening.locked():
            threading.Thread(target=self._open, args=(wanted,), name=f"open-{wanted}", daemon=True).start()

    def _wanted(self) -> str | None:
        """The id that the pointer names, where it is not the open generation's and did not just fail."""
        try:
            wanted = self._pinned or read_pointer(self._pointer)
        except OSError as error:
            self.problem = f"the pointer of tenant {self._tenant!r} cannot be read ({error.strerror})"
            return None
        if wanted is None:
            self.problem = f"nothing is published for tenant {self._tenant!r} yet; run `citelock build`"
            return None
        with self._lock:
            if self._held and self._held.generation.id == wanted:
                self.problem = None
                return None
            if self._failed and self._failed[0] == wanted and time.monotonic() - self._failed[1] < self._retry_s:
                return None
        return wanted

    def _open(self, wanted: str) -> None:
        with self._opening:
            if self._held and self._held.generation.id == wanted:
                return
            try:
                generation = Generation.open(self._store, self._tenant, wanted, self._config)
            except (StoreError, OSError) as error:
                self._failed = wanted, time.monotonic()
                self.problem = f"generation {wanted} cannot be opened: {error}"
                _log.error("%s", self.problem)
                return
            self._failed, self.problem = None, None
            self._exchange(generation)

    def _exchange(self, generation: Generation | None) -> None:
        """Serve this generation from now on; the old one is closed after its last reader."""
        with self._lock:
            old, self._held = self._held, _Held(generation) if generation else None
            if old:
                old.retired = True
            idle = old is not None and old.readers == 0
        if old and idle:
            old.generation.close()
