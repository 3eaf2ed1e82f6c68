"""Who may read whole pages of the published generation, by its file of readers alone, though it cannot be opened.

Belongs here: looking it up, remembering the newest one. Does not belong here: making the file
(`rag_assets.publishing.page_readers`), opening generations (`indexes.current`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from functools import partial

from rag_serving.access.principals import Principal, satisfies
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.caching.kept_answers import MayRead
from rag_serving.indexes.page_readers import classes_of_pages

_log = logging.getLogger(__name__)


class PublishedReaders:
    """The readers of the pages of one tenant's published generation. Safe to use from several threads."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store, self._tenant = store, tenant
        self._lock = threading.Lock()
        self._last: tuple[str, Mapping[str, frozenset[str]]] | None = None

    def of(self, principal: Principal, generation_id: str) -> MayRead:
        """Return what says whether a principal may read all of some pages of a generation."""
        return partial(self._may_read, principal, generation_id)

    def _may_read(self, principal: Principal, generation_id: str, pages: frozenset[str]) -> bool:
        known = self._classes(generation_id)
        if known is None or not pages or principal.tenant != self._tenant:
            return False
        return all((classes := known.get(page)) and all(satisfies(principal, one) for one in classes) for page in pages)

    def _classes(self, generation_id: str) -> Mapping[str, frozenset[str]] | None:
        """Return the reader classes of every page; None where they are not known."""
        with self._lock:
            if self._last is None or self._last[0] != generation_id:
                try:
                    self._last = generation_id, classes_of_pages(self._store, self._tenant, generation_id)
                except StoreError as error:
                    _log.error("no earlier answer of another generation is shown: %s", error)
                    return None
            return self._last[1]
