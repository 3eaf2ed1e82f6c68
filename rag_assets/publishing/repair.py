"""Restoring what is damaged of a generation, to the last bit as its manifest says, from what else there is.

A generation never changes: a file comes back with the digest that the manifest has, or it does not come back. Then a
mark is left beside the manifest, and the next build makes the generation again.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from rag_assets.publishing.build import shard_content
from rag_assets.publishing.documents import restore_originals
from rag_assets.publishing.lexical_writer import build_lexical, write_keyword_index
from rag_assets.publishing.passage_vectors import SentencesPart, vectors_at, write_sentences
from rag_assets.publishing.shard_writer import ShardWriter, discard_unreadable
from rag_assets.publishing.workspace import load_vectors, save_codes, save_vectors, write_page_readers
from rag_assets.state.content_cache import SEAL_PURPOSE, EmbeddedTexts, VectorCache, vector_key
from rag_serving.artifacts.columns import take_rows
from rag_serving.artifacts.manifest import Manifest, read_manifest
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.secret import Seal, SecretError
from rag_serving.artifacts.store import (
    Store,
    StoreError,
    map_table,
    move_file,
    read_table,
    remove_folder,
    write_json,
    write_mapped,
    write_table,
)
from rag_serving.config.loading import Config
from rag_serving.indexes import keyword_index
from rag_serving.indexes.chroma import DenseError
from rag_serving.indexes.exact import CODES_FILE, FACTS_FILE, JoinedVectors, VectorsError
from rag_serving.indexes.exact import FILE as VECTORS_FILE
from rag_serving.indexes.generation import LEXICAL_FOLDER, place_of
from rag_serving.indexes.generation_parts import CHUNKS_FILE, MAPPED_FILE, GenerationPart, map_chunks, parts_of
from rag_serving.indexes.generation_parts import FOLDER as PARTS_FOLDER
from rag_serving.indexes.integrity import MARK, Damage, find_damage, find_dense_damage
from rag_serving.indexes.originals import FILE as ORIGINALS_FILE
from rag_serving.indexes.sentence_vectors import SENTENCE_ROWS_FILE, SENTENCES_FILE
from rag_serving.indexes.set_tables import DUPLICATES_FILE
from rag_serving.indexes.set_tables import FACTS_FILE as PAGE_FACTS_FILE
from rag_serving.indexes.shard_files import fault_of
from rag_serving.indexes.sources import FILE as READERS_FILE
from rag_serving.models.protocols import ModelError

_log = logging.getLogger(__name__)

_PARTS = {
    **dict.fromkeys((SENTENCES_FILE, SENTENCE_ROWS_FILE), "sentences"),
    **dict.fromkeys((PAGE_FACTS_FILE, DUPLICATES_FILE), "facts"),
    ORIGINALS_FILE: "originals",
}
"""Parts of the last build beside the one of the dense index, by the files that they hold."""


@dataclass(frozen=True)
class Repair:
    """The damage that was repaired to the original bytes, and the rest."""

    restored: tuple[str, ...]
    left: tuple[Damage, ...]


def repair(store: Store, tenant: str, generation_id: str, config: Config) -> Repair:
    """Restore every damaged part of a generation that can be restored. A generation with a damaged manifest cannot be:
    its contents are unknown."""
    folder = store.generation(tenant, generation_id)
    with store.lock(tenant):
        restored: list[str] = []
        try:
            manifest = read_manifest(store, tenant, generation_id)
        except StoreError:
            pass
        else:
            restored += _restore_files(store, tenant, manifest)
            restored += restore_originals(store, tenant, generation_id)
            restored += _restore_shards(store, tenant, manifest, config)
        left = find_damage(store, tenant, generation_id, config, "digests")
        # a mark of damage that a quick check would miss, for the next build
        if left and folder.is_dir():
            write_json(folder / MARK, {"damage": [vars(damage) for damage in left]})
        elif folder.is_dir():
            (folder / MARK).unlink(missing_ok=True)
    return Repair(tuple(restored), tuple(left))


def _restore_files(store: Store, tenant: str, manifest: Manifest) -> list[str]:
    parts = _Parts(store, tenant, manifest)
    if not parts.wanted:
        return []
    try:
        for restore in parts.ways():
            restore()
            parts.accept()
        return parts.move()
    finally:
        remove_folder(parts.working)


class _Parts:
    """The files of a generation while some of them are made again in a folder of their own."""

    def __init__(self, store: Store, tenant: str, manifest: Manifest) -> None:
        self._store, self._tenant, self._manifest = store, tenant, manifest
        self._parts = parts_of(manifest)
        self._folder = store.generation(tenant, manifest.id)
        self.working = store.candidate(tenant) / "repair"
        remove_folder(self.working)
        (self.working / LEXICAL_FOLDER).mkdir(parents=True)
        self._sound: dict[str, Path] = {}
        self._take(self._folder)

    @property
    def wanted(self) -> set[str]:
        """The names of the files that are damaged and not made again yet."""
        return self._manifest.files.keys() - self._sound.keys()

    def ways(self) -> list[Callable[[], None]]:
        """Return the ways to restore parts, in order: those made of chunks and vectors come last."""
        first = [self.copy, self.convert_chunks, self.recall_vectors, self.code_vectors, self.recall_sentences]
        return [*first, self.list_readers, self.index_words, self.index_keywords]

    def accept(self) -> None:
        """Accept the restored files that are, to the last bit, those of the manifest."""
        self._take(self.working)

    def move(self) -> list[str]:
        """Move the restored files into place, one after the other."""
        made = sorted(name for name, path in self._sound.items() if path.is_relative_to(self.working))
        for name in made:
            move_file(self._sound[name], self._folder / name)
        return made

    def copy(self) -> None:
        """From the folder of the last build or from another generation."""
        for name in self.wanted:
            for path in self._copies(name):
                if fault_of(path, self._manifest.files[name], thorough=True) is None:
                    (self.working / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, self.working / name)
                    break

    def convert_chunks(self) -> None:
        """Restore either file of rows from the other."""
        for part in self._having(CHUNKS_FILE, MAPPED_FILE):
            if (table := self._rows(part)) is None:
                continue
            if part.file(CHUNKS_FILE) in self.wanted:
                write_table(self.working / part.file(CHUNKS_FILE), table, GENERATION_CHUNKS)
            if part.file(MAPPED_FILE) in self.wanted:
                write_mapped(self.working / part.file(MAPPED_FILE), table, GENERATION_CHUNKS)

    def recall_vectors(self) -> None:
        """From the tenant's cache, by the keys of the chunks."""
        for part in self._having(VECTORS_FILE):
            if (table := self._rows(part)) is None:
                continue
            try:
                vectors = self._cache().remembered([*chain.from_iterable(table["vector_keys"].to_pylist())])
            except (ModelError, SecretError, ValueError) as error:
                _log.warning("the vectors cannot be restored from the cache: %s", error)
                return
            if vectors is not None:
                save_vectors(self._made(part), vectors)

    def recall_sentences(self) -> None:
        """From the tenant's cache, by the sentences of the chunks."""
        if not {SENTENCES_FILE, SENTENCE_ROWS_FILE} & self.wanted or (table := self._table()) is None:
            return
        try:
            write_sentences(self.working, table, self._recalled, self._manifest.embedder)
        except (ModelError, SecretError, ValueError) as error:
            _log.warning("the sentence vectors cannot be restored from the cache: %s", error)

    def _recalled(self, part: SentencesPart) -> EmbeddedTexts:
        keys = [vector_key(self._manifest.embedder.name, text) for text in part.texts]
        vectors = self._cache().remembered(keys)
        if vectors is None:
            raise ModelError("it does not have all of them")
        return EmbeddedTexts(vectors, keys, 0)

    def _cache(self) -> VectorCache:
        seal = Seal(self._store.home, SEAL_PURPOSE)
        return VectorCache(self._store.cache(self._tenant), self._manifest.embedder.name, seal)

    def code_vectors(self) -> None:
        """Codes follow from vectors."""
        for part in self._having(CODES_FILE, FACTS_FILE):
            if not (path := self._sound.get(part.file(VECTORS_FILE))):
                continue
            try:
                vectors = load_vectors(path.parent, part.vectors, self._manifest.embedder.dimension)
            except VectorsError as error:
                _log.warning("the codes cannot be restored: %s", error)
                return
            save_codes(self._made(part), vectors)

    def list_readers(self) -> None:
        """Restore the readers of each page from the chunks."""
        if READERS_FILE in self.wanted and (table := self._table()) is not None:
            write_page_readers(self.working, table)

    def index_words(self) -> None:
        """The lexical index follows from the chunks."""
        if any(name.startswith(f"{LEXICAL_FOLDER}/") for name in self.wanted) and (table := self._table()) is not None:
            build_lexical(self.working / LEXICAL_FOLDER, table)

    def index_keywords(self) -> None:
        """The keyword index follows from the chunks."""
        if self.wanted.intersection(keyword_index.FILES) and (table := self._table()) is not None:
            write_keyword_index(self.working, table)

    def _take(self, folder: Path) -> None:
        for name in self.wanted:
            if fault_of(folder / name, self._manifest.files[name], thorough=True) is None:
                self._sound[name] = folder / name

    def _copies(self, name: str) -> Iterator[Path]:
        candidate = self._store.candidate(self._tenant)
        folder = candidate / _PARTS.get(name, "dense")
        yield candidate / name if name.startswith(f"{LEXICAL_FOLDER}/") else folder / name
        if name.startswith(f"{PARTS_FOLDER}/"):  # a part may have another number there
            name = f"{PARTS_FOLDER}/*/{Path(name).name}"
        yield from sorted(self._store.generations(self._tenant).glob(f"[!.]*/{name}"))

    def _having(self, *names: str) -> list[GenerationPart]:
        """Return the parts of which one of these files is damaged and not made again yet."""
        return [part for part in self._parts if self.wanted.intersection(map(part.file, names))]

    def _made(self, part: GenerationPart) -> Path:
        folder = part.folder(self.working)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _table(self) -> pa.Table | None:
        """Return the whole chunk table, None if the rows of a part cannot be had."""
        tables = [self._rows(part) for part in self._parts]
        found = [table for table in tables if table is not None]
        return pa.concat_tables(found) if len(found) == len(tables) else None

    def _rows(self, part: GenerationPart) -> pa.Table | None:
        """Return the rows of a part from either of their files, None if both are damaged."""
        try:
            if path := self._sound.get(part.file(MAPPED_FILE)):
                return map_table(path, GENERATION_CHUNKS)
            path = self._sound.get(part.file(CHUNKS_FILE))
            return read_table(path, GENERATION_CHUNKS) if path else None
        except StoreError as error:  # of another version of the program
            _log.warning("nothing can be restored from the chunks: %s", error)
            return None


def _restore_shards(store: Store, tenant: str, manifest: Manifest, config: Config) -> list[str]:
    """Build damaged shards again from chunks and vectors, which must be sound by now; returns the collections."""
    damaged = find_dense_damage(store, tenant, manifest.id, config, "digests")
    if not damaged:
        return []
    folder, place = store.generation(tenant, manifest.id), place_of(store, tenant, config)
    parts = parts_of(manifest)
    needed = [part.file(name) for part in parts for name in (MAPPED_FILE, VECTORS_FILE)]
    if any(fault_of(folder / name, manifest.files[name], True) for name in needed):
        return []
    table, dimension = map_chunks(folder, parts), manifest.embedder.dimension
    vectors = JoinedVectors([load_vectors(part.folder(folder), part.vectors, dimension) for part in parts])
    try:
        wanted = {damage.part for damage in damaged}
        if (place.url is None and discard_unreadable(place.folder)) or not wanted & manifest.collections:
            wanted = set(manifest.collections)
        collections, restored = ShardWriter.open(place), list[str]()
        names = np.array(table["shard"].to_pylist(), dtype=object)
        for shard in manifest.shards:
            rows = np.flatnonzero(names == shard.name)
            if shard.collection not in wanted or not len(rows):
                continue
            content = shard_content(take_rows(table, rows), vectors_at(table, vectors, rows), manifest.embedder.name)
            if content.digest == shard.digest:
                collections.replace(shard.collection, content)
                restored.append(shard.collection)
        return restored
    except DenseError as error:
        _log.warning("the shards cannot be restored: %s", error)
        return []
