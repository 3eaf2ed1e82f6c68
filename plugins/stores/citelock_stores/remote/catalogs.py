"""The catalogs that a process keeps, those that were used longest ago dropped first.

Belongs here: one catalog for each generation and set of reader classes, fetched once however many ask for it.
Does not belong here: what is in one (`catalog`), which classes a reader satisfies (the database says).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field

from citelock_stores.remote.catalog import Catalog
from rag_serving.deadline import result_within
from rag_serving.indexes.databases import RemoteTimeoutError


class _AbandonedError(Exception):
    """Nobody waits any more for the question that fetched a catalog."""


WAIT_S = 60.0
"""Seconds that a question waits for a catalog that another one fetches."""


@dataclass(frozen=True)
class CatalogKey:
    """What a catalog is of. `generation`: of one opening, so that none is used after its generation was closed."""

    generation: object
    classes: frozenset[str]

    def __hash__(self) -> int:
        return hash((id(self.generation), self.classes))


@dataclass
class Catalogs:
    """Catalogs up to so many bytes. Safe to use from several threads; one is fetched at a time for each key."""

    limit: int
    _kept: OrderedDict[CatalogKey, Catalog] = field(default_factory=OrderedDict)
    _under_way: dict[CatalogKey, Future[Catalog]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, key: CatalogKey, fetch: Callable[[], Catalog]) -> Catalog:
        """Return a catalog, which `fetch` makes where it is not kept. One that is larger than the limit is not kept.

        Raises:
            RemoteError: the database cannot answer, now or to the one that fetches it already.
        """
        while True:
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
                outcome = self._under_way.get(key)
                if outcome is None:
                    mine = self._under_way[key] = Future[Catalog]()
                    break
            with suppress(_AbandonedError):  # then it is this one's turn
                try:
                    return result_within(outcome, WAIT_S)
                except TimeoutError:
                    raise RemoteTimeoutError("the list of what may be read was not fetched in time") from None
        return self._fetched(key, fetch, mine)

    def _fetched(self, key: CatalogKey, fetch: Callable[[], Catalog], outcome: Future[Catalog]) -> Catalog:
        """Return what `fetch` gives, and tell it to those who wait for it."""
        try:
            catalog = fetch()
        except BaseException as error:
            self._end(key)
            outcome.set_exception(error if isinstance(error, Exception) else _AbandonedError())
            raise
        self._end(key, catalog)
        outcome.set_result(catalog)
        return catalog

    def trim(self) -> None:
        """Drop what is above the limit: catalogs grow while they are used."""
        with self._lock:
            self._trim()

    def forget(self, generation: object) -> None:
        """Drop the catalogs of a generation; whoever still reads one keeps it until then."""
        with self._lock:
            for key in [key for key in self._kept if key.generation is generation]:
                del self._kept[key]

    @property
    def bytes(self) -> int:
        """About how much memory all of them take."""
        with self._lock:
            return sum(catalog.bytes for catalog in self._kept.values())

    def _end(self, key: CatalogKey, catalog: Catalog | None = None) -> None:
        with self._lock:
            self._under_way.pop(key)
            if catalog is not None:
                self._kept[key] = catalog
                self._trim()

    def _trim(self) -> None:
        held = sum(catalog.bytes for catalog in self._kept.values())
        while self._kept and held > self.limit:
            _, dropped = self._kept.popitem(last=False)
            held -= dropped.bytes
