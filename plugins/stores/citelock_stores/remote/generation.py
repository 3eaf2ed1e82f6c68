"""A generation in a database, opened: what each reader may see of it is fetched under that reader's own rights.

Belongs here: its manifest, which catalog belongs to a reader. Does not belong here: what a catalog is (`catalog`),
which generation is published (`source`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from citelock_stores.remote.catalog import Catalog, Trust
from citelock_stores.remote.catalogs import CatalogKey, Catalogs
from citelock_stores.remote.protocol import RemoteGeneration
from citelock_stores.remote.seals import RESEND, GenerationSeals
from rag_serving.access.principals import READER, Principal, satisfied_classes
from rag_serving.artifacts.manifest import Manifest, manifest_of
from rag_serving.artifacts.store import StoreError
from rag_serving.indexes.databases import RemoteDataError
from rag_serving.indexes.protocols import ReaderView
from rag_serving.indexes.view import GenerationView

_log = logging.getLogger(__name__)
_REMEMBERED = 1024  # readers whose classes are known


class DatabaseGeneration:
    """A published generation in a database. Safe to use from several threads."""

    is_altered = False

    def __init__(
        self, home: Path, tenant: str, generation_id: str, remote: RemoteGeneration, catalogs: Catalogs
    ) -> None:
        """Compare the manifest with its signature by the installation's secret.

        Raises:
            RemoteDataError: this installation did not sign it, or it is of another generation.
        """
        self.id, self.tenant = generation_id, tenant
        where = f"the manifest of generation {generation_id} in the database"
        try:
            self.manifest: Manifest = manifest_of(remote.manifest.content, where, home)
        except StoreError as error:
            raise RemoteDataError(str(error)) from error
        if (self.manifest.id, self.manifest.tenant) != (generation_id, tenant):
            raise RemoteDataError(f"{where} is of generation {self.manifest.id} of {self.manifest.tenant!r}")
        self._remote, self._catalogs = remote, catalogs
        self._seals = GenerationSeals(home, tenant, generation_id)
        self._altered: frozenset[int] = frozenset()
        self._reporting = threading.Lock()
        self._classes = lru_cache(maxsize=_REMEMBERED)(self._fetch_classes)

    def __len__(self) -> int:
        return self.manifest.chunks

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return what was found to be altered since it was opened, in a line."""
        count = len(self._altered)
        return (f"{count} altered passages of the database are not used; {RESEND}",) if count else ()

    @property
    def newest(self) -> Mapping[str, datetime]:
        """When the newest page of each source was made."""
        return self._remote.manifest.newest

    def for_reader(self, principal: Principal) -> ReaderView:
        """Return what a principal may see, as the database says.

        Raises:
            RemoteError: the database cannot answer.
        """
        classes = self.classes_for(principal)
        reader = self._remote.reader(replace(principal, roles=READER))
        trust = Trust(self._seals, self._altered, self._refuse)
        catalog = self._catalogs.of(CatalogKey(self, classes), lambda: Catalog(self.manifest, reader, classes, trust))
        self._catalogs.trim()
        return GenerationView(catalog, classes)

    def classes_for(self, principal: Principal) -> frozenset[str]:
        """Return the reader classes that a principal satisfies here; none of the others are known to this process.

        Raises:
            RemoteError: the database cannot answer.
        """
        if principal.tenant != self.tenant:
            return frozenset()
        return self._classes(principal.user, principal.groups)

    def hides(self, view: ReaderView, chunk_id: str) -> bool:
        """Return whether a chunk that `view` does not show may be here nevertheless: true unless its page is there in
        another version, because what is hidden cannot be told from what is not there."""
        if view.row_of(chunk_id) is not None:
            return False
        page_id, version, _ = chunk_id.rsplit(":", 2)
        rows = view.page_rows(page_id)[:1].tolist()
        return not rows or str(view.chunks(rows)[0].version) == version

    def close(self) -> None:
        """Forget its catalogs; a question that reads one ends with it."""
        self._catalogs.forget(self)

    def _fetch_classes(self, user: str | None, groups: frozenset[str]) -> frozenset[str]:
        """Return the classes that the database opens to a principal.

        Raises:
            RemoteDataError: one of them does not name the principal.
        """
        principal = Principal(self.tenant, user, groups)
        classes = self._remote.reader(principal).classes()
        if satisfied_classes(principal, self.tenant, classes) != classes:
            raise RemoteDataError(
                f"the rules of who may read what were altered in the database; nothing is read by them; {RESEND}"
            )
        return classes

    def _refuse(self, numbers: frozenset[int]) -> None:
        """Use some chunks no more, from the next question on."""
        with self._reporting:
            self._altered |= numbers
        _log.error("generation %s: %s", self.id, "; ".join(self.degraded))
        self._catalogs.forget(self)
