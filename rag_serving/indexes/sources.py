"""The sources of the generations that answer a tenant's questions: folders, or a database."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa

from rag_serving.access.principals import may_all_read
from rag_serving.artifacts.contents import Stamp, stamp_of
from rag_serving.artifacts.manifest import FILE as MANIFEST
from rag_serving.artifacts.manifest import read_manifest, read_named_table
from rag_serving.artifacts.schema import PAGE_READERS
from rag_serving.artifacts.store import Publication, Store, StoreError, read_pointer
from rag_serving.config.loading import Config
from rag_serving.indexes.catalog import list_generations
from rag_serving.indexes.databases import ServedGeneration, open_database
from rag_serving.indexes.generation import Generation

FILE = "page_readers.parquet"


class ReaderComparison:
    """Compares two generations: whether one may answer in place of the other. Safe to use from several threads."""

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
    """Return the pages of `old` of which somebody may read less in `new`, both PAGE_READERS. A page that `new` lacks
    counts: a page that is hidden from the account that reads the wiki looks deleted. So does a page with another
    content if any reader class of its old text is not contained in every class of its new one."""
    now = {page_id: (classes, content) for page_id, classes, content in _rows(new)}
    return [
        page_id
        for page_id, classes, content in _rows(old)
        if page_id not in now or (now[page_id][1] != content and not _all_contained(classes, now[page_id][0]))
    ]


def classes_of_pages(store: Store, tenant: str, generation_id: str) -> dict[str, frozenset[str]]:
    """Return the reader classes of each page of a generation. Raises StoreError: as `read_page_readers` does."""
    found: dict[str, frozenset[str]] = {}
    for page_id, classes, _ in _rows(read_page_readers(store, tenant, generation_id)):
        found[page_id] = found.get(page_id, frozenset()) | frozenset(classes)
    return found


def read_page_readers(store: Store, tenant: str, generation_id: str) -> pa.Table:
    """PAGE_READERS of a generation, as its manifest says it is. Raises StoreError: the file or the manifest is missing
    or damaged, or the generation was built before there was one."""
    return read_named_table(store, read_manifest(store, tenant, generation_id), FILE, PAGE_READERS)


def _all_contained(old: list[str], new: list[str]) -> bool:
    """Return whether everyone of every old reader class is in every new one."""
    return all(may_all_read(before, after) for before in old for after in new)


def _rows(table: pa.Table) -> Iterator[tuple[str, list[str], str]]:
    return zip(*(table[name].to_pylist() for name in ("page_id", "classes", "content")), strict=True)


_log = logging.getLogger(__name__)


class FollowedPublication:
    """The generation published for a tenant. Safe to use from several threads; costs two `stat` calls. The record
    signed by the installation decides. Without a pointer nothing is published; one that names another generation than
    the record is reported and has no effect."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store, self._tenant = store, tenant
        self._files = store.publication_record(tenant), store.pointer(tenant)
        self._lock = threading.Lock()
        self._stamps: tuple[Stamp | None, ...] | None = None
        self._current: str | None = None
        self._newest: Publication | None = None

    def current(self) -> str | None:
        """Return the published generation's id, or None. Raises StoreError: it cannot be read, or is not authentic."""
        stamps = tuple(map(stamp_of, self._files))
        with self._lock:
            if stamps != self._stamps:
                self._stamps = None
                self._current = self._read()
                self._stamps = stamps
            return self._current

    def _read(self) -> str | None:
        """Return the id in the signed record, or in the newest one that was seen, if an older one took its place."""
        try:
            pointed = read_pointer(self._files[1])
        except OSError as error:
            raise StoreError(f"the pointer of tenant {self._tenant!r} cannot be read ({error})") from error
        if pointed is None:
            return None
        publication = self._store.publication(self._tenant)
        if self._newest and publication.number < self._newest.number:
            _log.error("%s is older than it was and has no effect; restart to go back to it", self._files[0])
            publication = self._newest
        self._newest = publication
        if publication.current != pointed:
            _log.error("%s names %s, but %s is published", self._files[1], pointed, publication.current)
        return publication.current


FileStamps = tuple[tuple[int, int], ...] | None
"""Inode and time of every file of a generation; None: one of them is missing, or it is not in files."""


class GenerationSource(Protocol):
    """The generations of one tenant. Safe to use from several threads."""

    def current(self) -> str | None:
        """Return the id of the published generation, None if nothing is published. Raises StoreError: what is published
        cannot be read, or is not authentic."""
        ...

    def last_named(self) -> str | None:
        """Return the id of the generation that is published, or that was a moment ago; None if that is not known."""
        ...

    def open(self, generation_id: str) -> ServedGeneration:
        """Return a generation, opened. Raises any error of opening it."""
        ...

    def narrows(self, old: str, new: str) -> bool:
        """Return whether somebody may read less of a page in the generation `new` than in `old`; true if unknown."""
        ...

    def before(self, generation_id: str) -> list[str]:
        """Return the generations that were published and are older than another, newest first."""
        ...

    def stamps(self, generation: ServedGeneration) -> FileStamps:
        """Return the stamps of a generation's files as they are now."""
        ...

    def close(self) -> None:
        """Release its resources."""
        ...


class FolderSource:
    """The folders of a tenant's generations."""

    def __init__(self, store: Store, tenant: str, config: Config) -> None:
        self._store, self._tenant, self._config = store, tenant, config
        self._followed = FollowedPublication(store, tenant)
        self._comparison = ReaderComparison(store, tenant)
        self.lead: Callable[[str], str] = str

    def current(self) -> str | None:
        return self._followed.current()

    def last_named(self) -> str | None:
        try:
            return self.current()
        except StoreError:
            return None

    def open(self, generation_id: str) -> Generation:
        generation = Generation.open(self._store, self._tenant, generation_id, self._config)
        generation.lead = generation.sets.lead = self.lead
        return generation

    def narrows(self, old: str, new: str) -> bool:
        return self._comparison.narrows(old, new)

    def before(self, generation_id: str) -> list[str]:
        try:
            generations = list_generations(self._store, self._tenant)
        except (StoreError, OSError):
            return []
        ids = [info.id for info in generations]
        older = generations[ids.index(generation_id) + 1 :] if generation_id in ids else []
        return [info.id for info in older if info.published and not info.problem]

    def stamps(self, generation: ServedGeneration) -> FileStamps:
        folder = self._store.generation(self._tenant, generation.id)
        try:
            statuses = [(folder / name).stat() for name in (MANIFEST, *sorted(generation.manifest.files))]
        except OSError:
            return None
        return tuple((file.st_ino, file.st_mtime_ns) for file in statuses)

    def close(self) -> None:
        """Do nothing: no resource is open."""


def open_source(store: Store, tenant: str, config: Config) -> GenerationSource:
    """Return the source of a tenant's generations according to `index.kind`; it is not contacted yet. Raises
    ConfigError: the plug-in of its database is missing."""
    if config.index.kind == "disk":
        return FolderSource(store, tenant, config)
    return open_database(config).source(store, tenant)
