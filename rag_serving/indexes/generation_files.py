"""The files of a generation as it is searched: what each is called, reading them as they were signed.

Belongs here: names, from the manifest's digests to table, vectors, codes and lexical index.
Does not belong here: writing them (`rag_assets.publishing.workspace`), what the files of a part are called
(`generation_parts`), answering from them (`generation`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_serving.artifacts.contents import ChangedError, FileComparison, Stamp
from rag_serving.artifacts.keyword_tables import KEYWORD_PAGES, KEYWORD_ROWS, KEYWORD_WORDS
from rag_serving.artifacts.manifest import Manifest, mend, read_manifest
from rag_serving.artifacts.schema import GENERATION_CHUNKS, ORIGINALS
from rag_serving.artifacts.store import Store, StoreError, table_of
from rag_serving.indexes import keyword_index, lexical
from rag_serving.indexes.exact import FILE as VECTORS_FILE
from rag_serving.indexes.exact import JoinedCodes, JoinedVectors, Vectors, VectorsError, VectorTable, vectors_of
from rag_serving.indexes.generation_parts import MAPPED_FILE, GenerationPart, parts_of
from rag_serving.indexes.keyword_index import KeywordIndex
from rag_serving.indexes.lexical import LexicalError, LexicalIndex
from rag_serving.indexes.originals import FILE as ORIGINALS_FILE
from rag_serving.indexes.originals import Original, originals_of
from rag_serving.indexes.quantization import CODES_FILE, FACTS_FILE, Codes, CodesError
from rag_serving.indexes.sentence_vectors import SENTENCE_ROWS_FILE, SENTENCES_FILE, SentencesError, SentenceVectors
from rag_serving.indexes.set_tables import Facts, read_facts
from rag_serving.indexes.window_map import WindowsError, window_map

LEXICAL_FOLDER = "lexical"
CODED_ROWS = 2048  # fewer vectors are sooner compared than their codes

_KEYWORD_TABLES = dict(zip(keyword_index.FILES, (KEYWORD_WORDS, KEYWORD_ROWS, KEYWORD_PAGES), strict=True))
_LEXICAL_FILES = {name: f"{LEXICAL_FOLDER}/{name}" for name in lexical.FILES}


class GenerationFiles(NamedTuple):
    """The searchable contents of a generation. `mapped`: the files that are not in memory, as they were when
    compared."""

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
    """Read a complete generation: in memory up to so many bytes of its files, memory-mapped beyond.

    `is_searched`: whether its codes are made ready to be searched, which copies them.

    Raises:
        StoreError: it does not exist, or a file is missing, altered or of another version; the message says how
            to mend it.
    """
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
        vectors = _vectors(compared, parts, dimension)
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
    """Return the chunk table, in chunks where the generation is stored in parts."""
    tables = []
    for part in parts:
        path = folder / part.file(MAPPED_FILE)
        tables.append(table_of(compared[part.file(MAPPED_FILE)].data, path, GENERATION_CHUNKS))
        if len(tables[-1]) != part.chunks:
            raise WindowsError(f"{part.file(MAPPED_FILE)} has {len(tables[-1])} rows instead of {part.chunks}")
    return pa.concat_tables(tables)


def _vectors(compared: FileComparison, parts: Sequence[GenerationPart], dimension: int) -> Vectors | JoinedVectors:
    found = [vectors_of(compared[part.file(VECTORS_FILE)].data, part.vectors, dimension) for part in parts]
    return found[0] if len(found) == 1 else JoinedVectors(found)
