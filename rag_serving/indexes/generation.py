"""An opened generation on disk: the immutable chunk table with both of its indexes.

Belongs here: opening a generation, calls of a build, a check or the doctor alone.
Does not belong here: reading a generation's folder (`generation_files`), searching (`indexed_chunks`), building
(`rag_assets.publishing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rag_serving.access.principals import Principal, satisfied_classes
from rag_serving.artifacts.columns import dictionary_encode
from rag_serving.artifacts.contents import stamp_of
from rag_serving.artifacts.store import Store
from rag_serving.config.index import DenseSearch
from rag_serving.config.loading import Config
from rag_serving.indexes import exact
from rag_serving.indexes.chroma import ChromaLocation, DenseIndex, ShardRows
from rag_serving.indexes.generation_files import GenerationFiles, read_files
from rag_serving.indexes.hits import Hit
from rag_serving.indexes.indexed_chunks import IndexedChunks
from rag_serving.indexes.originals import Original
from rag_serving.indexes.page_contents import DuplicateLocations
from rag_serving.indexes.parts import Parts
from rag_serving.indexes.protocols import ReaderView
from rag_serving.indexes.readable_rows import ReadableRows
from rag_serving.indexes.served import newest_pages
from rag_serving.indexes.set_tables import SetTablesOfReaders
from rag_serving.indexes.view import GenerationView
from rag_serving.indexes.window_map import vector_ids


class Generation(IndexedChunks):
    """A generation, published or candidate. Safe to use from several threads."""

    shows_all = True

    def __init__(self, files: GenerationFiles, place: ChromaLocation, dense_search: DenseSearch = "auto") -> None:
        """`place`: where its collections are."""
        readable = ReadableRows(files.table["readers"])
        self.vector_table, self._mapped, self._words = files.vectors, files.mapped, files.lexical
        shards = _shard_rows(files, readable)
        self._collections = DenseIndex(place, shards, self.vector_table, self.row_of, dense_search)
        places = DuplicateLocations.of_column(files.table["places"])
        indexes = self._collections, files.lexical, files.keywords
        sets = partial(SetTablesOfReaders, files.table, files.facts)
        parts = Parts(*indexes, places, files.sentences, files.originals, sets=sets)
        super().__init__(files.manifest, files.table, readable, parts)

    @classmethod
    def open(
        cls, store: Store, tenant: str, generation_id: str, config: Config, memory_bytes: int | None = None
    ) -> Generation:
        """Open a complete generation; up to `memory_bytes` of its files are read into memory, by default as configured.

        Raises:
            StoreError: it does not exist, or a file is missing, altered or of another version; the message says how to
                repair it.
        """
        files = read_files(
            store,
            tenant,
            generation_id,
            config.indexing.memory_bytes if memory_bytes is None else memory_bytes,
        )
        return cls(files, place_of(store, tenant, config), config.indexing.dense_search)

    def for_reader(self, principal: Principal) -> GenerationView:
        """Return a principal's view, decided here before anything is read."""
        satisfied = partial(satisfied_classes, principal, self.tenant)
        return GenerationView(self, satisfied(self.known_classes), satisfied)

    def original(self, page_id: str) -> Original | None:
        """Return the file that a page was read from."""
        return self.originals.get(page_id)

    def classes_for(self, _: Principal) -> frozenset[str]:
        """Return the reader classes of chunks and of other occurrences, for any caller."""
        return self.known_classes

    def hides(self, view: ReaderView, chunk_id: str) -> bool:
        """Return whether there is a chunk that `view` does not show."""
        return self.row_of(chunk_id) is not None and view.row_of(chunk_id) is None

    @property
    def newest(self) -> Mapping[str, datetime]:
        """The time of each source's newest page."""
        return newest_pages(self.table)

    @property
    def is_altered(self) -> bool:
        """Whether a mapped file was written to since it was opened.

        A replaced or deleted file still reads as before, and so does memory.
        """
        for path, then in self._mapped.items():
            now = stamp_of(path)
            if now and now != then and now.inode == then.inode:
                return True
        return False

    def dense_faults(self) -> tuple[str, ...]:
        """Return why Chroma cannot answer for a shard, one line each; this opens every collection."""
        return self._collections.connect()

    def exact(self, vector: NDArray[np.float32], k: int, classes: frozenset[str]) -> list[Hit]:
        """Return the same by comparing with every vector."""
        return exact.search(self.vector_table._replace(codes=None), vector, k, self._readable.of(classes).rows)

    def approximate(self, vector: NDArray[np.float32], k: int) -> list[Hit]:
        """Return the results of the dense index alone among all chunks; raises DenseError if Chroma cannot be used."""
        return self._collections.approximate(vector, k)

    def vector_ids(self) -> list[str]:
        """Return the id of every vector in the dense index."""
        windows = self.vector_table.windows
        return self.chunk_ids() if windows is None else vector_ids(self.chunk_ids(), windows.counts.tolist())

    def row_of_vector(self, vector: int) -> int:
        """Return the row that a vector, by its number in `vector_table`, belongs to."""
        windows = self.vector_table.windows
        return vector if windows is None else windows.row_of(vector)

    def chunk_ids(self) -> list[str]:
        """Return the chunk id of every row."""
        return list(self._rows)

    def lexical_ids(self) -> list[str]:
        """Return the chunk id of every row of the lexical index."""
        return self._words.chunk_ids()


def place_of(store: Store, tenant: str, config: Config) -> ChromaLocation:
    """Return the place of the tenant's collections."""
    return ChromaLocation(store.chroma(tenant).absolute(), tenant, config.indexing.chroma_url)


def _shard_rows(files: GenerationFiles, readable: ReadableRows) -> list[ShardRows]:
    """Return rows and reader classes of every shard of the manifest."""
    names, codes = dictionary_encode(files.table["shard"])
    numbers = {name: number for number, name in enumerate(names)}
    found = []
    for shard in files.manifest.shards:
        rows = np.flatnonzero(codes == numbers.get(shard.name, -1))
        found.append(ShardRows(shard.collection, rows, readable.classes_of(rows)))
    return found
