"""What is published, as a running process follows it: read anew when a file changed, never back to an older record.

Belongs here: the signed record and the pointer beside it. Does not belong here: opening generations (`current`).
"""

from __future__ import annotations

import logging
import threading

from rag_serving.artifacts.digests import Stamp, stamp_of
from rag_serving.artifacts.publication import Publication
from rag_serving.artifacts.store import Store, StoreError, read_pointer

_log = logging.getLogger(__name__)


class FollowedPublication:
    """Which generation is published for a tenant. Safe to use from several threads; costs two looks at a file's facts.

    The record that the installation signed is what counts. Without a pointer nothing is published; one that names
    another generation than the record is reported and has no effect.
    """

    def __init__(self, store: Store, tenant: str) -> None:
        self._store, self._tenant = store, tenant
        self._files = store.publication_record(tenant), store.pointer(tenant)
        self._lock = threading.Lock()
        self._stamps: tuple[Stamp | None, ...] | None = None
        self._current: str | None = None
        self._newest: Publication | None = None

    def current(self) -> str | None:
        """Return the id of the published generation, None where nothing is published.

        Raises:
            StoreError: what is published cannot be read, or is not authentic.
        """
        stamps = tuple(map(stamp_of, self._files))
        with self._lock:
            if stamps != self._stamps:
                self._stamps = None
                self._current = self._read()
                self._stamps = stamps
            return self._current

    def _read(self) -> str | None:
        try:
            pointed = read_pointer(self._files[1])
        except OSError as error:
            raise StoreError(f"the pointer of tenant {self._tenant!r} cannot be read ({error})") from error
        if pointed is None:
            return None
        publication = self._authentic()
        if publication.current != pointed:
            _log.error("%s names %s, but %s is published", self._files[1], pointed, publication.current)
        return publication.current

    def _authentic(self) -> Publication:
        """Return the signed record, or the newest one that was seen, where an older one was put in its place."""
        publication = self._store.publication(self._tenant)
        if self._newest and publication.number < self._newest.number:
            _log.error("%s is older than it was and has no effect; restart to go back to it", self._files[0])
            return self._newest
        self._newest = publication
        return publication
