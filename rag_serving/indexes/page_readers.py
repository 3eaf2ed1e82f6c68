"""The readers of each page of a generation, in a small file of its own.

Belongs here: comparing by that file whether one generation narrows the readers of another, without opening either.
Does not belong here: making it (`rag_assets.publishing.workspace`), its use (`current`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pyarrow as pa

from rag_serving.access.principals import may_all_read
from rag_serving.artifacts.manifest import read_manifest, read_named_table
from rag_serving.artifacts.schema import PAGE_READERS
from rag_serving.artifacts.store import Store, StoreError

FILE = "page_readers.parquet"

_log = logging.getLogger(__name__)


class ReaderComparison:
    """The comparison of two generations of a tenant: whether one may answer in place of the other. Safe to use from
    several threads."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store, self._tenant = store, tenant
        self._lock = threading.Lock()
        self._last: tuple[str, str, bool] | None = None

    def narrows(self, old: str, new: str) -> bool:
        """Return whether somebody may read less of a page in the generation `new` than in `old`; true if unknown."""
        with self._lock:
            if self._last is None or self._last[:2] != (old, new):
                self._last = old, new, self._compare(old, new)
            return self._last[2]

    def _compare(self, old: str, new: str) -> bool:
        what = f"generation {old} does not answer in place of {new}"
        try:
            before, after = (read_page_readers(self._store, self._tenant, name) for name in (old, new))
        except StoreError as error:
            _log.error("%s: who may read what is not known (%s)", what, error)
            return True
        if pages := narrowed_pages(before, after):
            _log.error("%s: of %d pages somebody may read less", what, len(pages))
            return True
        _log.warning("generation %s answers in place of %s, which is not open", old, new)
        return False


def narrowed_pages(old: pa.Table, new: pa.Table) -> list[str]:
    """Return the pages of `old` of which somebody may read less in `new`, both PAGE_READERS.

    A page that `new` lacks counts: a page that is hidden from the account that reads the wiki looks deleted. So does a
    page with another content if any reader class of its old text is not contained in every class of its new one.
    """
    now = {page_id: (classes, content) for page_id, classes, content in _rows(new)}
    return [
        page_id
        for page_id, classes, content in _rows(old)
        if page_id not in now or (now[page_id][1] != content and not _all_contained(classes, now[page_id][0]))
    ]


def classes_of_pages(store: Store, tenant: str, generation_id: str) -> dict[str, frozenset[str]]:
    """Return the reader classes of the passages of every page of a generation.

    Raises:
        StoreError: as `read_page_readers` does.
    """
    found: dict[str, frozenset[str]] = {}
    for page_id, classes, _ in _rows(read_page_readers(store, tenant, generation_id)):
        found[page_id] = found.get(page_id, frozenset()) | frozenset(classes)
    return found


def read_page_readers(store: Store, tenant: str, generation_id: str) -> pa.Table:
    """PAGE_READERS of a generation, as its manifest says it is.

    Raises:
        StoreError: the file or the manifest is missing or damaged, or the generation was built before there was one.
    """
    return read_named_table(store, read_manifest(store, tenant, generation_id), FILE, PAGE_READERS)


def _all_contained(old: list[str], new: list[str]) -> bool:
    """Return whether everyone of every old reader class is in every new one."""
    return all(may_all_read(before, after) for before in old for after in new)


def _rows(table: pa.Table) -> Iterator[tuple[str, list[str], str]]:
    return zip(*(table[name].to_pylist() for name in ("page_id", "classes", "content")), strict=True)
