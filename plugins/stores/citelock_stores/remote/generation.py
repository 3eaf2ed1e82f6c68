"""A generation in a database: what each reader may see of it is fetched under that reader's own rights. The rows of a
catalog, which is what one set of reader classes opens, have numbers of their own: an installation without the other
pages gives the same rows."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from citelock_stores.remote.parts import (
    RecentPostings,
    RemoteDense,
    RemoteKeywords,
    RemoteLexical,
    RemoteSentences,
    RemoteTexts,
    RowNumbers,
)
from citelock_stores.remote.protocol import (
    REMOTE_CHUNKS,
    REMOTE_ORIGINALS,
    REMOTE_PLACES,
    RESEND,
    Digests,
    GenerationSeals,
    RemoteGeneration,
    RemoteReader,
    RemoteStore,
    checked_texts,
)
from rag_serving.access.principals import READER, Principal, satisfied_classes
from rag_serving.artifacts.columns import indices, numbers_of
from rag_serving.artifacts.manifest import Manifest, manifest_of
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.deadline import result_within
from rag_serving.indexes.databases import (
    ENTRY_POINTS,
    RemoteConnectionError,
    RemoteDataError,
    RemoteError,
    RemoteTimeoutError,
    ServedGeneration,
)
from rag_serving.indexes.indexed_chunks import IndexedChunks, Parts
from rag_serving.indexes.originals import Original
from rag_serving.indexes.page_contents import DuplicateLocations
from rag_serving.indexes.readable_rows import ReadableRows
from rag_serving.indexes.set_tables import SetTablesOfReaders, sets_in_home
from rag_serving.indexes.sources import FileStamps
from rag_serving.indexes.view import ReaderView
from rag_serving.plugins import one

_BYTES_A_ROW = 400  # of what Python keeps beside the columns: ids by row, order, pages
_BYTES_A_TERM = 160
_FACTS = ("sha256", "media_type", "bytes", "page_count", "received_sha256")


class HandedOut(NamedTuple):
    """The tables of one reader, compared with their seals. `digests` [chunks, 32]: of their texts."""

    chunks: pa.Table
    places: pa.Table
    originals: pa.Table
    digests: Digests


class Catalog(IndexedChunks):
    """The chunks of a generation that some reader classes open. Safe to use from several threads."""

    def __init__(self, generation: DatabaseGeneration, reader: RemoteReader, classes: frozenset[str]) -> None:
        """Fetch the contents open to `classes`, which are those of `reader`, and verify its seals. Raises RemoteError:
        the database cannot answer, or its answer is altered."""
        manifest, altered = generation.manifest, generation.altered
        chunks, places, originals, digests = _handed_out(manifest, reader, classes, generation.seals)
        published = numbers_of(chunks["row"])
        refused = altered.intersection(published.tolist()) if altered else altered
        numbers = RowNumbers(published)
        if refused:
            used = np.isin(published, sorted(refused), invert=True)
            numbers = RowNumbers(published[used], refused)
            chunks, digests = chunks.filter(pa.array(used)), digests[used]
        self._postings = RecentPostings(reader, numbers, "lexical"), RecentPostings(reader, numbers, "keyword")
        self._shown = RemoteTexts(reader, numbers, digests, generation.refuse)
        lexical, keywords = self._postings
        sentences = None
        if "sentences" in manifest.formats:
            sentences = RemoteSentences(reader, numbers, manifest.embedder.dimension)
        # Other places of texts: those of chunks that are hidden count by their names alone.
        rows, known = numbers.known(numbers_of(places["row"]))
        fields = places.drop_columns(["row", "place"])
        placed = fields.filter(pa.array(known)).append_column("row", indices(rows[known]))
        parts = Parts(
            RemoteDense(reader, numbers),
            RemoteLexical(lexical, numbers_of(chunks["terms"]).astype(np.int32)),
            RemoteKeywords(chunks, keywords),
            DuplicateLocations(placed, len(numbers), fields.filter(pa.array(~known))),
            sentences,
            {row["page_id"]: _original(row, reader) for row in originals.to_pylist()},
            self._shown.columns(),
            lambda: generation.sets,
        )
        super().__init__(manifest, chunks, ReadableRows(chunks["readers"]), parts)
        self._columns_bytes = int(chunks.nbytes + digests.nbytes)

    @property
    def bytes(self) -> int:
        """About how much memory it takes by now."""
        kept = sum(part.recent.bytes for part in (*self._postings, self._shown))
        terms = sum(len(part.counts_if_known() or ()) for part in self._postings)
        return self._columns_bytes + _BYTES_A_ROW * (len(self) + 1) + kept + _BYTES_A_TERM * terms


@dataclass(frozen=True)
class RemoteOriginal(Original):
    """A file that a page was read from, in the database."""

    reader: RemoteReader | None = None

    def read(self) -> bytes:
        """Return the bytes, compared with their digest. Raises StoreError: the database cannot answer, or the file was
        altered there."""
        try:
            content = self.reader.original(self.sha256) if self.reader else b""
        except RemoteError as error:
            raise StoreError(f"the file {self.sha256} cannot be read: {error}") from error
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise StoreError(f"the file {self.sha256} was altered in the database; publish the pages again")
        return content


def _handed_out(manifest: Manifest, reader: RemoteReader, classes: frozenset[str], seals: GenerationSeals) -> HandedOut:
    """Fetch the tables of a reader. Raises RemoteDataError: there are more chunks than were published, or something was
    altered."""
    chunks = _checked(reader.chunks(), REMOTE_CHUNKS.columns, classes)
    if len(chunks) > manifest.chunks:
        raise RemoteDataError("the database has more passages than were published; publish the pages again")
    places = _checked(reader.places(), REMOTE_PLACES.columns, classes)
    originals = reader.originals() if "originals" in manifest.formats else REMOTE_ORIGINALS.empty()
    if originals.schema.names != REMOTE_ORIGINALS.columns.names:
        raise RemoteDataError(f"the database handed out {originals.schema.names} of files")
    digests = checked_texts(seals, reader.seals(), classes, (chunks, places, originals))
    return HandedOut(chunks, places, originals, digests)


def _checked(table: pa.Table, columns: pa.Schema, classes: frozenset[str]) -> pa.Table:
    """Return a table of these columns. Raises RemoteDataError: it has others, or a row of another reader class."""
    if table.schema.names != columns.names:
        raise RemoteDataError(f"the database handed out {table.schema.names}, expected {columns.names}")
    if not classes.issuperset(table["readers"].unique().to_pylist()):
        raise RemoteDataError("the database handed out what its reader may not see; it is not used")
    return table.cast(columns).combine_chunks()


def _original(row: Mapping[str, Any], reader: RemoteReader) -> Original:
    digest, kind, size, pages, received = (row[name] for name in _FACTS)
    return RemoteOriginal(digest, kind, size, pages, Path(digest), received, reader)


class _AbandonedError(Exception):
    """Nobody waits any more for the question that fetched a catalog."""


WAIT_S = 60.0
"""Seconds that a question waits for a catalog that another one fetches."""


@dataclass(frozen=True)
class CatalogKey:
    """The identity of a catalog. `generation`: of one opening, so that none is used after its generation was closed."""

    generation: object
    classes: frozenset[str]


@dataclass
class Catalogs:
    """Catalogs up to so many bytes. Safe to use from several threads; one is fetched at a time for each key."""

    limit: int
    _kept: OrderedDict[CatalogKey, Catalog] = field(default_factory=OrderedDict)
    _under_way: dict[CatalogKey, Future[Catalog]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, key: CatalogKey, fetch: Callable[[], Catalog]) -> Catalog:
        """Return a catalog, which `fetch` makes if it is not kept. One that is larger than the limit is not kept.
        Raises RemoteError: the database cannot answer, now or to the one that fetches it already."""
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
        try:
            catalog = fetch()
        except BaseException as error:
            self._end(key)
            mine.set_exception(error if isinstance(error, Exception) else _AbandonedError())
            raise
        self._end(key, catalog)
        mine.set_result(catalog)
        return catalog

    def trim(self) -> None:
        """Drop catalogs above the limit: they grow while they are used."""
        with self._lock:
            self._trim()

    def forget(self, generation: object) -> None:
        """Drop the catalogs of a generation; current readers keep theirs until they end."""
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


_log = logging.getLogger(__name__)
_REMEMBERED = 1024  # readers whose classes are known


class DatabaseGeneration:
    """A published generation in a database. Safe to use from several threads."""

    is_altered = False

    def __init__(
        self, home: Path, tenant: str, generation_id: str, remote: RemoteGeneration, catalogs: Catalogs
    ) -> None:
        """Compare the manifest with its signature by the installation's secret. Raises RemoteDataError: this
        installation did not sign it, or it is of another generation."""
        self.id, self.tenant, self._home = generation_id, tenant, home
        where = f"the manifest of generation {generation_id} in the database"
        try:
            self.manifest: Manifest = manifest_of(remote.manifest.content, where, home)
        except StoreError as error:
            raise RemoteDataError(str(error)) from error
        if (self.manifest.id, self.manifest.tenant) != (generation_id, tenant):
            raise RemoteDataError(f"{where} is of generation {self.manifest.id} of {self.manifest.tenant!r}")
        self._remote, self._catalogs = remote, catalogs
        self.seals = GenerationSeals(home, tenant, generation_id)
        self.altered: frozenset[int] = frozenset()  # chunks whose texts differ from the publication
        self._reporting = threading.Lock()
        self._classes = lru_cache(maxsize=_REMEMBERED)(self._fetch_classes)

    def __len__(self) -> int:
        return self.manifest.chunks

    @property
    def degraded(self) -> tuple[str, ...]:
        count = len(self.altered)
        return (f"{count} altered passages of the database are not used; {RESEND}",) if count else ()

    @property
    def newest(self) -> Mapping[str, datetime]:
        return self._remote.manifest.newest

    def for_reader(self, principal: Principal) -> ReaderView:
        classes = self.classes_for(principal)
        reader = self._remote.reader(replace(principal, roles=READER))
        catalog = self._catalogs.of(CatalogKey(self, classes), lambda: Catalog(self, reader, classes))
        self._catalogs.trim()
        return ReaderView(catalog, classes, partial(satisfied_classes, principal, self.tenant))

    @cached_property
    def sets(self) -> SetTablesOfReaders:
        """The tables for queries about sets: of the generation's folder, if this machine has it."""
        return sets_in_home(Store(self._home), self.manifest)

    def classes_for(self, principal: Principal) -> frozenset[str]:
        """Return the reader classes that a principal satisfies here; none of the others are known to this process.
        Raises RemoteError: the database cannot answer."""
        if principal.tenant != self.tenant:
            return frozenset()
        return self._classes(principal.user, principal.groups)

    def hides(self, view: ReaderView, chunk_id: str) -> bool:
        """Return whether a chunk outside `view` may exist nevertheless: true unless its page is visible in another
        version, because hidden and missing chunks are indistinguishable."""
        if view.row_of(chunk_id) is not None:
            return False
        page_id, version, _ = chunk_id.rsplit(":", 2)
        rows = view.page_rows(page_id)[:1].tolist()
        return not rows or str(view.chunks(rows)[0].version) == version

    def close(self) -> None:
        """Forget its catalogs; a question that reads one ends with it."""
        self._catalogs.forget(self)

    def _fetch_classes(self, user: str | None, groups: frozenset[str]) -> frozenset[str]:
        """Return the classes that the database opens to a principal. Raises RemoteDataError: one of them does not name
        the principal."""
        principal = Principal(self.tenant, user, groups)
        classes = self._remote.reader(principal).classes()
        if satisfied_classes(principal, self.tenant, classes) != classes:
            raise RemoteDataError(
                f"the rules of who may read what were altered in the database; nothing is read by them; {RESEND}"
            )
        return classes

    def refuse(self, numbers: frozenset[int]) -> None:
        """Use some chunks no more, from the next question on."""
        with self._reporting:
            self.altered |= numbers
        _log.error("generation %s: %s", self.id, "; ".join(self.degraded))
        self._catalogs.forget(self)


@dataclass
class SharedStore:
    """A database with what was fetched of it."""

    key: object
    store: RemoteStore
    catalogs: Catalogs
    users: int = 0

    def release(self) -> None:
        """Count one user less; the last one closes the connections."""
        with _OPENING:
            self.users -= 1
            if self.users:
                return
            _OPEN.pop(self.key, None)
        self.store.close()


_OPEN: dict[object, SharedStore] = {}
_OPENING = threading.Lock()


def shared_store(config: Config) -> SharedStore:
    """Return the database that `index` names with one user more, which must `release` it. Nothing is sent yet. Raises
    ConfigError: its address is missing."""
    key = config.home, config.index.model_dump_json()
    with _OPENING:
        shared = _OPEN.get(key)
        if shared is None:
            shared = _OPEN[key] = SharedStore(key, open_store(config), Catalogs(config.index.cache_bytes))
        shared.users += 1
        return shared


def open_store(config: Config) -> RemoteStore:
    """Return the database that `index` names, for this caller alone; errors as those of `shared_store`."""
    store: RemoteStore = one(ENTRY_POINTS, config.index.kind)(config).store()
    return store


TRUSTED_S = 300.0
"""Seconds for which what the pointer last named counts while the database is away, for earlier answers alone."""


class DatabaseSource:
    """The generations of one tenant in the database of `index`. Safe to use from several threads."""

    def __init__(self, store: Store, tenant: str, config: Config) -> None:
        self._home, self._tenant, self._config = store.home, tenant, config
        self._lock = threading.Lock()
        self._shared: SharedStore | None = None
        self._closed = False
        self._last: tuple[float, str | None] | None = None

    def current(self) -> str | None:
        try:
            named = self._opened().store.current(self._tenant)
        except RemoteError as error:
            raise StoreError(f"the database of `index` cannot say what is published: {error}") from error
        self._last = time.monotonic(), named
        return named

    def last_named(self) -> str | None:
        try:
            return self.current()
        except StoreError as error:
            if not isinstance(error.__cause__, RemoteConnectionError | RemoteTimeoutError):
                return None
        last = self._last
        return last[1] if last and time.monotonic() - last[0] <= TRUSTED_S else None

    def open(self, generation_id: str) -> ServedGeneration:
        shared = self._opened()
        remote = shared.store.open(self._tenant, generation_id)
        return DatabaseGeneration(self._home, self._tenant, generation_id, remote, shared.catalogs)

    def narrows(self, old: str, new: str) -> bool:
        """Return whether they differ: the servers do not know the readers of each."""
        return old != new

    def before(self, _: str) -> list[str]:
        """Return none: older generations do not answer unless they are published again."""
        return []

    def stamps(self, _: ServedGeneration) -> FileStamps:
        """Return none: a published generation is never written to."""
        return None

    def close(self) -> None:
        with self._lock:
            shared, self._shared, self._closed = self._shared, None, True
        if shared:
            shared.release()

    def _opened(self) -> SharedStore:
        with self._lock:
            if self._closed:
                raise RemoteConnectionError("the connection is closed: the server ends")
            self._shared = self._shared or shared_store(self._config)
            return self._shared


class SearchedDatabase(ABC):
    """A database that questions read."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @abstractmethod
    def store(self) -> RemoteStore:
        """Return its generations, as questions read them; nothing is sent yet. Raises ConfigError: its address is
        missing."""

    def source(self, store: Store, tenant: str) -> DatabaseSource:
        return DatabaseSource(store, tenant, self.config)
