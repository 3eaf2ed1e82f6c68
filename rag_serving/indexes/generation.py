"""An opened generation on disk: the immutable chunk table with both of its indexes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_serving.access.principals import Principal, satisfied_classes
from rag_serving.artifacts.columns import dictionary_encode
from rag_serving.artifacts.contents import ChangedError, FileComparison, Stamp, stamp_of
from rag_serving.artifacts.keyword_tables import KEYWORD_PAGES, KEYWORD_ROWS, KEYWORD_WORDS
from rag_serving.artifacts.manifest import Manifest, mend, read_manifest
from rag_serving.artifacts.schema import GENERATION_CHUNKS, ORIGINALS
from rag_serving.artifacts.store import Store, StoreError, table_of
from rag_serving.config.index import DenseSearch
from rag_serving.config.loading import Config
from rag_serving.indexes import exact, keyword_index, lexical
from rag_serving.indexes.chroma import ChromaLocation, DenseIndex, ShardRows
from rag_serving.indexes.databases import newest_pages
from rag_serving.indexes.exact import (
    CODES_FILE,
    FACTS_FILE,
    Codes,
    CodesError,
    JoinedCodes,
    JoinedVectors,
    VectorsError,
    VectorTable,
    WindowsError,
    vector_ids,
    vectors_of,
    window_map,
)
from rag_serving.indexes.exact import FILE as VECTORS_FILE
from rag_serving.indexes.generation_parts import MAPPED_FILE, GenerationPart, parts_of
from rag_serving.indexes.indexed_chunks import IndexedChunks, Parts
from rag_serving.indexes.keyword_index import KeywordIndex
from rag_serving.indexes.lexical import LexicalError, LexicalIndex
from rag_serving.indexes.originals import FILE as ORIGINALS_FILE
from rag_serving.indexes.originals import Original, originals_of
from rag_serving.indexes.page_contents import DuplicateLocations
from rag_serving.indexes.readable_rows import Hit, ReadableRows
from rag_serving.indexes.sentence_vectors import SENTENCE_ROWS_FILE, SENTENCES_FILE, SentencesError, SentenceVectors
from rag_serving.indexes.set_tables import Facts, SetTablesOfReaders, read_facts
from rag_serving.indexes.view import ReaderView

LEXICAL_FOLDER = "lexical"
CODED_ROWS = 2048  # fewer vectors are sooner compared than their codes

_KEYWORD_TABLES = dict(zip(keyword_index.FILES, (KEYWORD_WORDS, KEYWORD_ROWS, KEYWORD_PAGES), strict=True))
_LEXICAL_FILES = {name: f"{LEXICAL_FOLDER}/{name}" for name in lexical.FILES}


class GenerationFiles(NamedTuple):
    """The searchable contents of a generation. `mapped`: the files not in memory, as they were when compared."""

    manifest: Manifest
    table: pa.Table
    vectors: VectorTable
    lexical: LexicalIndex
    keywords: KeywordIndex
    mapped: Mapping[Path, Stamp] = {}
    sentences: SentenceVectors | None = None
    originals: Mapping[str, Original] = {}
    facts: Callable[[], Facts | None] = lambda: None


def read_files(
    store: Store, tenant: str, generation_id: str, memory_bytes: int, is_searched: bool = True
) -> GenerationFiles:
    """Read a complete generation: in memory up to so many bytes of its files, memory-mapped beyond. `is_searched`:
    whether its codes are made ready to be searched, which copies them. Raises StoreError: it does not exist, or a file
    is missing, altered or of another version; the message says how to mend it."""
    try:
        return _read(store, tenant, generation_id, memory_bytes, is_searched)
    except ChangedError:  # a build that removes its links changes their times; altered files are detected now
        return _read(store, tenant, generation_id, memory_bytes, is_searched)


def _read(store: Store, tenant: str, generation_id: str, memory_bytes: int, is_searched: bool) -> GenerationFiles:
    folder = store.generation(tenant, generation_id)
    if not folder.is_dir():
        raise StoreError(
            f"generation {generation_id!r} of tenant {tenant!r} does not exist; "
            f"`citelock generations list --tenant {tenant}` shows what there is"
        )
    manifest = read_manifest(store, tenant, generation_id)
    if (manifest.tenant, manifest.id) != (tenant, generation_id):
        raise StoreError(f"{folder} is a copy of generation {manifest.id} of {manifest.tenant!r}; {mend(tenant)}")
    try:
        files = _opened(store, folder, manifest, memory_bytes, is_searched)
    except (VectorsError, CodesError, SentencesError, LexicalError, WindowsError) as error:
        raise StoreError(f"{folder}: {error}; {mend(tenant)}") from error
    counts = {len(files.table), len(files.lexical), len(files.keywords), files.vectors.rows}
    if counts != {manifest.chunks}:
        raise StoreError(f"{folder} is not consistent: its parts are of different generations; {mend(tenant)}")
    return files


def _opened(store: Store, folder: Path, manifest: Manifest, memory_bytes: int, is_searched: bool) -> GenerationFiles:
    """Read the files in the order of the work that is left to do with them, while others are still compared."""
    parts = parts_of(manifest)
    codes = [part.file(name) for part in parts for name in (CODES_FILE, FACTS_FILE)]
    codes = codes if manifest.vector_count >= CODED_ROWS and codes[0] in manifest.files else []
    sentences = [SENTENCES_FILE, SENTENCE_ROWS_FILE] if "sentences" in manifest.formats else []
    originals = [ORIGINALS_FILE] if "originals" in manifest.formats else []
    keywords = [*_KEYWORD_TABLES]
    rows = [part.file(name) for name in (MAPPED_FILE, VECTORS_FILE) for part in parts]
    wanted = [*codes, *_LEXICAL_FILES.values(), *rows, *keywords, *sentences, *originals]
    if absent := sorted(set(wanted) - manifest.files.keys()):
        raise StoreError(f"{folder / absent[0]} is not in the manifest; {mend(manifest.tenant)}")
    dimension = manifest.embedder.dimension
    with FileComparison(store, manifest.tenant, folder, manifest.files, wanted, memory_bytes) as compared:
        coded = None
        if codes:
            coded = _codes(compared, parts, dimension, is_searched)
        words = LexicalIndex.of({name: compared[file].data for name, file in _LEXICAL_FILES.items()})
        table = _chunks(compared, parts, folder)
        found = [vectors_of(compared[part.file(VECTORS_FILE)].data, part.vectors, dimension) for part in parts]
        vectors = found[0] if len(found) == 1 else JoinedVectors(found)
        tables = {
            name: table_of(compared[name].data, folder / name, schema) for name, schema in _KEYWORD_TABLES.items()
        }
        named = KeywordIndex(*tables.values())
        spoken, of_chunks = None, (manifest.chunks, dimension)
        if sentences:
            spoken = SentenceVectors.open(compared[SENTENCES_FILE].data, compared[SENTENCE_ROWS_FILE].data, *of_chunks)
        rendered = None
        if originals:
            rendered = table_of(compared[ORIGINALS_FILE].data, folder / ORIGINALS_FILE, ORIGINALS)
        kept = originals_of(rendered, store.originals(manifest.tenant))
        mapped = {folder / name: stamp for name in wanted if name not in codes and (stamp := compared[name].stamp)}
    vector_table = VectorTable(vectors, coded, window_map(table["vector_keys"]))
    return GenerationFiles(
        manifest, table, vector_table, words, named, mapped, spoken, kept, partial(read_facts, store, manifest)
    )


def _codes(
    compared: FileComparison, parts: Sequence[GenerationPart], dimension: int, is_searched: bool
) -> Codes | JoinedCodes:
    """Return the codes of all vectors; those of one part are copied while the others are still compared."""
    found = []
    for part in parts:
        codes, facts = (compared[part.file(name)].data for name in (CODES_FILE, FACTS_FILE))
        found.append(Codes.open(codes, facts, part.vectors, dimension))
        if is_searched:
            found[-1].prepare()
    return found[0] if len(found) == 1 else JoinedCodes(found)


def _chunks(compared: FileComparison, parts: Sequence[GenerationPart], folder: Path) -> pa.Table:
    tables = []
    for part in parts:
        path = folder / part.file(MAPPED_FILE)
        tables.append(table_of(compared[part.file(MAPPED_FILE)].data, path, GENERATION_CHUNKS))
        if len(tables[-1]) != part.chunks:
            raise WindowsError(f"{part.file(MAPPED_FILE)} has {len(tables[-1])} rows instead of {part.chunks}")
    return pa.concat_tables(tables)


class Generation(IndexedChunks):
    """A generation, published or candidate. Safe to use from several threads."""

    shows_all = True

    def __init__(self, files: GenerationFiles, place: ChromaLocation, dense_search: DenseSearch = "auto") -> None:
        """`place`: where its collections are."""
        readable = ReadableRows(files.table["readers"])
        self.vector_table, self._mapped, self._words = files.vectors, files.mapped, files.lexical
        names, codes = dictionary_encode(files.table["shard"])
        numbers = {name: number for number, name in enumerate(names)}
        shards = []
        for shard in files.manifest.shards:
            rows = np.flatnonzero(codes == numbers.get(shard.name, -1))
            shards.append(ShardRows(shard.collection, rows, readable.classes_of(rows)))
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
        Raises StoreError: it does not exist, or a file is missing, altered or of another version; the message says how
        to repair it."""
        memory = config.indexing.memory_bytes if memory_bytes is None else memory_bytes
        files = read_files(store, tenant, generation_id, memory)
        return cls(files, place_of(store, tenant, config), config.indexing.dense_search)

    def for_reader(self, principal: Principal) -> ReaderView:
        """Return a principal's view, decided here before anything is read."""
        satisfied = partial(satisfied_classes, principal, self.tenant)
        return ReaderView(self, satisfied(self.known_classes), satisfied)

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
        """Whether a mapped file was written to since it was opened; a replaced or deleted one still reads as before."""
        now = ((stamp_of(path), then) for path, then in self._mapped.items())
        return any(stamp and stamp != then and stamp.inode == then.inode for stamp, then in now)

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
