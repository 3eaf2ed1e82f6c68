"""The part of a generation in a database visible to one set of reader classes, as the chunks of an index of its own.

Its rows have numbers of their own: an installation without the other pages gives the same rows.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
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
from citelock_stores.remote.protocol import RemoteReader
from citelock_stores.remote.tables import (
    REMOTE_CHUNKS,
    REMOTE_ORIGINALS,
    REMOTE_PLACES,
    Digests,
    GenerationSeals,
    checked_texts,
)
from rag_serving.artifacts.columns import indices, numbers_of
from rag_serving.artifacts.manifest import Manifest
from rag_serving.artifacts.store import StoreError
from rag_serving.deadline import result_within
from rag_serving.indexes.databases import RemoteDataError, RemoteError, RemoteTimeoutError
from rag_serving.indexes.indexed_chunks import IndexedChunks, Parts
from rag_serving.indexes.originals import Original
from rag_serving.indexes.page_contents import DuplicateLocations
from rag_serving.indexes.readable_rows import ReadableRows
from rag_serving.indexes.set_tables import SetTablesOfReaders

_BYTES_A_ROW = 400  # of what Python keeps beside the columns: ids by row, order, pages
_BYTES_A_TERM = 160
_FACTS = ("sha256", "media_type", "bytes", "page_count", "received_sha256")


@dataclass(frozen=True)
class Trust:
    """The trusted part of a database's answers. `altered`: chunks whose texts differ from the publication; `report`
    receives further ones."""

    seals: GenerationSeals
    altered: frozenset[int]
    report: Callable[[frozenset[int]], None]


class HandedOut(NamedTuple):
    """The tables of one reader, compared with their seals. `digests` [chunks, 32]: of their texts."""

    chunks: pa.Table
    places: pa.Table
    originals: pa.Table
    digests: Digests

    def without(self, altered: frozenset[int]) -> tuple[RowNumbers, pa.Table, Digests]:
        """Return the numbers, columns and digests of the chunks but those that were altered."""
        numbers = numbers_of(self.chunks["row"])
        refused = altered.intersection(numbers.tolist()) if altered else frozenset()
        used = np.isin(numbers, sorted(refused), invert=True)
        if refused:
            return RowNumbers(numbers[used], refused), self.chunks.filter(pa.array(used)), self.digests[used]
        return RowNumbers(numbers), self.chunks, self.digests


class Catalog(IndexedChunks):
    """The chunks of a generation that some reader classes open. Safe to use from several threads."""

    def __init__(
        self,
        manifest: Manifest,
        reader: RemoteReader,
        classes: frozenset[str],
        trust: Trust,
        sets: Callable[[], SetTablesOfReaders],
    ) -> None:
        """Fetch the contents open to `classes`, which are those of `reader`, and verify its seals. `sets`: those of the
        generation.

        Raises:
            RemoteError: the database cannot answer, or its answer is altered.
        """
        handed = _handed_out(manifest, reader, classes, trust.seals)
        numbers, chunks, digests = handed.without(trust.altered)
        places = handed.places
        self._postings = RecentPostings(reader, numbers, "lexical"), RecentPostings(reader, numbers, "keyword")
        self._shown = RemoteTexts(reader, numbers, digests, trust.report)
        lexical, keywords = self._postings
        sentences = None
        if "sentences" in manifest.formats:
            sentences = RemoteSentences(reader, numbers, manifest.embedder.dimension)
        parts = Parts(
            RemoteDense(reader, numbers),
            RemoteLexical(lexical, numbers_of(chunks["terms"]).astype(np.int32)),
            RemoteKeywords(chunks, keywords),
            _places(places, numbers),
            sentences,
            {row["page_id"]: _original(row, reader) for row in handed.originals.to_pylist()},
            self._shown.columns(),
            sets,
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
        """Return the bytes, compared with their digest.

        Raises:
            StoreError: the database cannot answer, or the file was altered there.
        """
        try:
            content = self.reader.original(self.sha256) if self.reader else b""
        except RemoteError as error:
            raise StoreError(f"the file {self.sha256} cannot be read: {error}") from error
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise StoreError(f"the file {self.sha256} was altered in the database; publish the pages again")
        return content


def _handed_out(manifest: Manifest, reader: RemoteReader, classes: frozenset[str], seals: GenerationSeals) -> HandedOut:
    """Fetch the tables of a reader.

    Raises:
        RemoteDataError: there are more chunks than were published, or something was altered.
    """
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
    """Return a table of these columns.

    Raises:
        RemoteDataError: it has others, or a row of another reader class.
    """
    if table.schema.names != columns.names:
        raise RemoteDataError(f"the database handed out {table.schema.names}, expected {columns.names}")
    if not classes.issuperset(table["readers"].unique().to_pylist()):
        raise RemoteDataError("the database handed out what its reader may not see; it is not used")
    return table.cast(columns).combine_chunks()


def _places(table: pa.Table, numbers: RowNumbers) -> DuplicateLocations:
    """Return other places of texts; those of chunks that are hidden count by their names alone."""
    rows, known = numbers.known(numbers_of(table["row"]))
    fields = table.drop_columns(["row", "place"])
    placed = fields.filter(pa.array(known)).append_column("row", indices(rows[known]))
    return DuplicateLocations(placed, len(numbers), fields.filter(pa.array(~known)))


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
        """Return a catalog, which `fetch` makes if it is not kept. One that is larger than the limit is not kept.

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
        """Return the result of `fetch`, and hand it to waiting callers."""
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
