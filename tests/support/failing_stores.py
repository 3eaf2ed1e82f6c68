"""Faults of a store below the real pipeline: every search of it fails, is slow by a test's clock, or hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rag_serving.indexes.view import ReaderView
from support.ticking import Clock

READS = ("frequency", "term_weights", "lexical_scores", "dense", "names", "languages", "keywords")
"""What a search of any phase reads of a view; which of them it reads first is its own affair."""


class StoreDownError(Exception):
    """What a driver might raise."""


class Store:
    """What becomes of the reads of a store."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.reads = 0
        self._let_go = threading.Event()
        self._fault: Callable[[], object] = lambda: None

    def mend(self) -> None:
        self._fault = lambda: None

    def fail(self) -> None:
        self._fault = self._down

    def slow_down(self, seconds: float) -> None:
        """Let the first read of every search, which has a thread of its own, take so long."""
        searches = threading.local()

        def fault() -> None:
            if not hasattr(searches, "is_late"):
                searches.is_late = True
                self.clock.pass_by(seconds)

        self._fault = fault

    def hang(self, seconds: float) -> None:
        """Let every read take so long by the clock, and then never end."""

        def fault() -> None:
            self.clock.pass_by(seconds)
            self._let_go.wait(30)

        self._let_go.clear()
        self._fault = fault

    def let_go(self) -> None:
        """Let what hangs go on."""
        self._let_go.set()

    def read(self) -> None:
        self.reads += 1
        self._fault()

    def _down(self) -> None:
        raise StoreDownError("connection refused")


@contextmanager
def faulty_store(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[Store]:
    """Yield the faults of all views that are made within the block."""
    store = Store(clock)

    def faulted(read: Callable[..., Any]) -> Callable[..., Any]:
        def reading(*arguments: Any, **options: Any) -> Any:
            store.read()
            return read(*arguments, **options)

        return reading

    for name in READS:
        plain = getattr(ReaderView, name)
        is_property = isinstance(plain, property)
        wrapped = property(faulted(plain.fget)) if is_property and plain.fget else faulted(plain)  # type: ignore[arg-type]
        monkeypatch.setattr(ReaderView, name, wrapped)
    try:
        yield store
    finally:
        store.let_go()
