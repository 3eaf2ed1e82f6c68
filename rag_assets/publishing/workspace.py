"""The intermediate results of a build's steps, and the generation's folder made of them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_assets.publishing.lexical_writer import write_keyword_index
from rag_serving.artifacts.contents import KnownDigests, Stamp, is_settled, let_go, map_file, stamp_of
from rag_serving.artifacts.manifest import FILE, KEY_PURPOSE, FileFacts, Manifest, PartSize, file_facts, id_of
from rag_serving.artifacts.schema import DUPLICATES, GENERATION_CHUNKS, ORIGINALS, PAGE_FACTS, PAGE_READERS
from rag_serving.artifacts.secret import FIELD, canonical, signature_of
from rag_serving.artifacts.store import (
    Store,
    StoreError,
    commit_folder,
    map_table,
    read_json,
    read_table,
    remove_folder,
    write_json,
    write_mapped,
    write_table,
)
from rag_serving.indexes.exact import CODES_FILE, Vectors, VectorsError, vectors_of
from rag_serving.indexes.exact import FACTS_FILE as CODE_FACTS_FILE
from rag_serving.indexes.exact import FILE as VECTORS_FILE
from rag_serving.indexes.generation import LEXICAL_FOLDER
from rag_serving.indexes.generation_parts import CHUNKS_FILE, MAPPED_FILE, GenerationPart, map_chunks, named_parts
from rag_serving.indexes.lexical import LexicalError, LexicalIndex
from rag_serving.indexes.originals import FILE as ORIGINALS_FILE
from rag_serving.indexes.set_tables import DUPLICATES_FILE, FACTS_FILE, Facts
from rag_serving.indexes.sources import FILE as READERS_FILE

_THREADS = 4


def create_manifest(**fields: Any) -> Manifest:
    """Return a manifest of these fields; its id is the first 16 hex digits of the SHA-256 of its identifying ones."""
    draft = Manifest(id="", **fields)
    return draft.model_copy(update={"id": id_of(draft)})


def signed(manifest: Manifest, home: Path) -> Manifest:
    """Return the manifest with the signature of an installation: HMAC-SHA256 of its canonical form (RFC 2104). Raises
    SecretError: the installation's secret cannot be used."""
    content = manifest.model_dump(mode="json")
    return manifest.model_copy(update={FIELD: signature_of(content, home, KEY_PURPOSE)})


class StampedFacts(NamedTuple):
    """Size and digest of a file. `stamp`: what the file was before and after it was read, None if it may have
    changed without notice."""

    facts: FileFacts
    stamp: Stamp | None


def folder_facts(folder: Path) -> dict[str, FileFacts]:
    """Return size and digest of every file below a folder, by relative path."""
    return {name: one.facts for name, one in stamped_facts(folder).items()}


def stamped_facts(folder: Path) -> dict[str, StampedFacts]:
    """Return the same with the stamps of the files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    with ThreadPoolExecutor(_THREADS) as pool:
        facts = list(pool.map(_stamped, files))
    return {path.relative_to(folder).as_posix(): one for path, one in zip(files, facts, strict=True)}


def _stamped(path: Path) -> StampedFacts:
    before = stamp_of(path)
    settled = before is not None and is_settled(before)
    facts = file_facts(path)
    return StampedFacts(facts, before if settled and stamp_of(path) == before else None)


def remember_digests(store: Store, tenant: str, folder: Path, files: Mapping[str, StampedFacts]) -> None:
    """Note the digests of files that lie in a folder now, so that they are not read again while they stay the same."""
    known, where = KnownDigests(store, tenant), folder.relative_to(store.tenant(tenant)).as_posix()
    for name, one in files.items():
        if one.stamp:
            known.add(f"{where}/{name}", one.stamp, one.facts.sha256)
    known.save()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest: the last file of a generation."""
    write_json(folder / FILE, manifest.model_dump(mode="json"))


def pages_digest(versions: Mapping[str, int]) -> str:
    """Digest of page ids and their versions."""
    return sha256(canonical(sorted(versions.items()))).hexdigest()[:32]


_CELLS_AT_ONCE = 16_384  # rows whose cells are Python objects at once
_Entry = tuple[str, str]  # text hash, reader class


def write_page_readers(folder: Path, chunks: pa.Table) -> None:
    """Write the file for a table of GENERATION_CHUNKS."""
    write_table(folder / READERS_FILE, page_readers(chunks), PAGE_READERS)


def page_readers(chunks: pa.Table) -> pa.Table:
    """PAGE_READERS of GENERATION_CHUNKS: the pages of the chunks, and those of chunks dropped as duplicates of them."""
    pages: defaultdict[str, set[_Entry]] = defaultdict(set)
    for page_id, entry in _entries(chunks):
        pages[page_id].add(entry)
    rows = [
        {"page_id": page_id, "classes": sorted({readers for _, readers in entries}), "content": _digest(entries)}
        for page_id, entries in sorted(pages.items())
    ]
    return PAGE_READERS.table(list(rows))


def _entries(chunks: pa.Table) -> Iterator[tuple[str, _Entry]]:
    for batch in chunks.select(["page_id", "text_hash", "readers", "places"]).to_batches(max_chunksize=_CELLS_AT_ONCE):
        for page_id, text_hash, readers, places in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield page_id, (text_hash, readers)
            for place in places or ():
                yield place["chunk_id"].rsplit(":", 2)[0], (text_hash, place["readers"])


def _digest(entries: set[_Entry]) -> str:
    return hashlib.sha256(json.dumps(sorted(entries), separators=(",", ":")).encode()).hexdigest()[:32]


def write_facts(folder: Path, facts: Facts) -> None:
    """Write the files of the facts of pages."""
    write_table(folder / FACTS_FILE, facts.pages, PAGE_FACTS)
    write_table(folder / DUPLICATES_FILE, facts.duplicates, DUPLICATES)


_LEVELS = 127
_CODED_AT_ONCE = 1024  # vectors that are coded at once: what is computed of them stays in the processor's cache
_WRITTEN = 65_536  # vectors after which the memory of mapped ones is let go


def save_vectors(folder: Path, vectors: Vectors) -> None:
    """Write L2-normalized vectors [n, d] into a folder, under their final name only when complete."""
    temporary = folder / f".{VECTORS_FILE}"
    with temporary.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": vectors.shape}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(vectors), _WRITTEN):
            file.write(np.ascontiguousarray(vectors[start : start + _WRITTEN], dtype="<f4").data)
            let_go(vectors)
    temporary.replace(folder / VECTORS_FILE)


def load_vectors(folder: Path, rows: int, dimension: int) -> Vectors:
    """Return the vectors [rows, dimension] of a folder, memory-mapped. Raises VectorsError: missing, truncated, or of
    another shape."""
    path = folder / VECTORS_FILE
    try:
        return vectors_of(map_file(path) if rows else memoryview(b""), rows, dimension)
    except OSError as error:
        raise VectorsError(f"{path} cannot be read ({error})") from error


def save_codes(folder: Path, vectors: NDArray[np.float32]) -> None:
    """Write the codes [d, n] of vectors [n, d], and per row its scale, its error and its code's length [3, n]."""
    count, dimension = vectors.shape
    if not count:
        return
    facts = np.empty((3, count), np.float32)
    with (folder / CODES_FILE).open("wb") as file:
        header = {"descr": "|i1", "fortran_order": False, "shape": (dimension, count)}
        np.lib.format.write_array_header_1_0(file, header)
        file.flush()
        begin = file.tell()
        for start in range(0, count, _WRITTEN):
            part = slice(start, start + _WRITTEN)
            codes, facts[:, part] = _coded(vectors[part])
            let_go(vectors)
            for number, row in enumerate(codes):
                data, place = row.data, begin + number * count + start
                while len(data):
                    written = os.pwrite(file.fileno(), data, place)
                    data, place = data[written:], place + written
    with (folder / CODE_FACTS_FILE).open("wb") as file:
        np.save(file, facts, allow_pickle=False)


def _coded(vectors: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return codes [d, n] and facts [3, n] of vectors [n, d], some of which are coded at once; one array is used for
    every step."""
    codes, facts = np.empty(vectors.shape[::-1], np.int8), np.empty((3, len(vectors)), np.float32)
    for start in range(0, len(vectors), _CODED_AT_ONCE):
        part = slice(start, start + _CODED_AT_ONCE)
        own = np.asarray(vectors[part], np.float32)
        largest = np.maximum(own.max(axis=1, initial=0), -own.min(axis=1, initial=0))
        scales = np.where(largest > 0, largest, 1).astype(np.float32) / np.float32(_LEVELS)
        steps = own / scales[:, None]
        np.rint(steps, out=steps)
        codes[:, part] = steps.astype(np.int8).T
        steps *= scales[:, None]
        lengths = np.sqrt(np.einsum("ij,ij->i", steps, steps))
        np.subtract(own, steps, out=steps)
        facts[:, part] = scales, np.sqrt(np.einsum("ij,ij->i", steps, steps)), lengths
    return codes, facts


_DENSE, _LEXICAL, _SENTENCES, _FACTS = "dense", "lexical", "sentences", "dense.json"
_MADE_OF = "sentences.json"
_ORIGINALS, _PAGE_FACTS = "originals", "facts"


@dataclass(frozen=True)
class BuildWorkspace:
    """The working folder of one tenant's build."""

    folder: Path

    @classmethod
    def of(cls, store: Store, tenant: str) -> BuildWorkspace:
        return cls(store.candidate(tenant))

    def write_dense(
        self,
        table: pa.Table,
        vectors: Vectors,
        sizes: Sequence[PartSize],
        facts: Mapping[str, Any],
        write_words: Callable[[Path, pa.Table], None] = write_keyword_index,
    ) -> None:
        """Write the arranged table, its vectors and derived files; `sizes`: of its parts, in order, `write_words` makes
        the keyword index."""
        with self._part(_DENSE) as working:
            with ThreadPoolExecutor(1) as beside:  # Arrow and numpy leave the other core to the words
                parts = beside.submit(_write_parts, working, table, vectors, sizes)
                write_page_readers(working, table)
                write_words(working, table)
                parts.result()
            write_json(working / _FACTS, {**facts, "parts": [size.model_dump() for size in sizes]})

    def lexical(self) -> AbstractContextManager[Path]:
        """Return an empty folder that becomes the lexical index when the block ends well."""
        return self._part(_LEXICAL)

    @contextmanager
    def sentences(self, chunk_ids: Sequence[str], embedder: str) -> Iterator[Path]:
        """Yield an empty folder that becomes the sentence vectors of these chunks when the block ends well."""
        with self._part(_SENTENCES) as working:
            yield working
            write_json(working / _MADE_OF, {"chunks": list(chunk_ids), "embedder": embedder})

    def without_sentences(self) -> None:
        """Leave no sentence vectors for the generation."""
        remove_folder(self.folder / _SENTENCES)

    def has_sentences(self, chunk_ids: Sequence[str], embedder: str) -> bool:
        """Return whether there are sentence vectors. Raises StoreError: they are of other chunks, or of another
        model."""
        if not (self.folder / _SENTENCES).is_dir():
            return False
        if read_json(self.folder / _SENTENCES / _MADE_OF) != {"chunks": list(chunk_ids), "embedder": embedder}:
            raise StoreError(f"the sentence vectors under {self.folder} are of other chunks; run `citelock build`")
        return True

    @property
    def originals_folder(self) -> Path:
        """Return the folder of the table that `write_originals` left."""
        return self.folder / _ORIGINALS

    def write_originals(self, table: pa.Table) -> None:
        """Leave ORIGINALS for the generation; none if it has no row."""
        if not len(table):
            remove_folder(self.originals_folder)
            return
        with self._part(_ORIGINALS) as working:
            write_mapped(working / ORIGINALS_FILE, table, ORIGINALS)

    def originals(self) -> pa.Table:
        """Return the result of `write_originals`: no row if there was none."""
        path = self.originals_folder / ORIGINALS_FILE
        return map_table(path, ORIGINALS) if path.exists() else ORIGINALS.empty()

    def write_facts(self, facts: Facts | None, chunk_ids: Sequence[str]) -> None:
        """Leave the facts that belong to these chunks; None: the generation has none."""
        if facts is None:
            remove_folder(self.folder / _PAGE_FACTS)
            return
        with self._part(_PAGE_FACTS) as working:
            write_facts(working, facts)
            write_json(working / _MADE_OF, {"chunks": _ids_digest(chunk_ids)})

    def facts_of(self, chunk_ids: Sequence[str]) -> Facts | None:
        """Return the result of `write_facts`. Raises StoreError: it belongs to other chunks."""
        folder = self.folder / _PAGE_FACTS
        if not folder.is_dir():
            return None
        if read_json(folder / _MADE_OF) != {"chunks": _ids_digest(chunk_ids)}:
            raise StoreError(f"the facts of pages under {self.folder} are of other chunks; run `citelock build`")
        return Facts(read_table(folder / FACTS_FILE, PAGE_FACTS), read_table(folder / DUPLICATES_FILE, DUPLICATES))

    def table(self) -> pa.Table:
        """Return the table that `write_dense` left."""
        return map_chunks(self.folder / _DENSE, named_parts(self.part_sizes()))

    def part_sizes(self) -> list[PartSize]:
        """Return the sizes of the parts that `write_dense` left."""
        return [PartSize.model_validate(size) for size in self.facts()["parts"]]

    def facts(self) -> dict[str, Any]:
        """Return the facts that `write_dense` left."""
        facts: dict[str, Any] = read_json(self.folder / _DENSE / _FACTS)
        return facts

    def lexical_content(self) -> str:
        """Return the digest of the lexical index's inputs."""
        try:
            return LexicalIndex.open(self.folder / _LEXICAL).content
        except LexicalError as error:
            raise StoreError(f"{error}; run `citelock build`") from error

    def collections(self) -> frozenset[str]:
        """Return the collections of a dense step whose generation may not be committed yet."""
        try:
            return frozenset(shard["collection"] for shard in self.facts()["shards"])
        except StoreError:
            return frozenset()

    def assembled(self) -> Path:
        """Return all parts in one folder, still without its manifest; linked, not copied, if that is possible."""
        working = _empty(self.folder / "generation")
        folders = self.folder / _DENSE, self.folder / _SENTENCES, self.originals_folder, self.folder / _PAGE_FACTS
        for folder in folders:
            _link_files(folder, working)
        _link_files(self.folder / _LEXICAL, working / LEXICAL_FOLDER)
        return working

    @contextmanager
    def _part(self, name: str) -> Iterator[Path]:
        working = _empty(self.folder / f".{name}")
        yield working
        commit_folder(working, self.folder / name)


def _ids_digest(chunk_ids: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(chunk_ids)).encode()).hexdigest()


def _empty(folder: Path) -> Path:
    remove_folder(folder)
    folder.mkdir(parents=True)
    return folder


def _write_parts(folder: Path, table: pa.Table, vectors: Vectors, sizes: Sequence[PartSize]) -> None:
    """Write the files of every part, one after the other. Their bytes do not depend on the rows of other parts, nor on
    the chunks that the table's columns are in."""
    place, parts = 0, named_parts(sizes)
    write_chunk_parts(folder, table, parts)
    for part in parts:
        own = part.folder(folder)
        save_vectors(own, vectors[place : place + part.vectors])
        save_codes(own, vectors[place : place + part.vectors])
        place += part.vectors


def write_chunk_parts(folder: Path, table: pa.Table, parts: Sequence[GenerationPart]) -> None:
    """Write the rows of every part of a generation's chunk table below its folder."""
    row = 0
    for part in parts:
        own = part.folder(folder)
        own.mkdir(parents=True, exist_ok=True)
        rows = table if len(parts) == 1 else _copied(table.slice(row, part.chunks))
        write_table(own / CHUNKS_FILE, rows, GENERATION_CHUNKS)
        write_mapped(own / MAPPED_FILE, rows, GENERATION_CHUNKS)
        row += part.chunks


def _copied(rows: pa.Table) -> pa.Table:
    """Return rows in memory of their own: Arrow writes a slice with bytes of the rows behind it as padding."""
    kinds = zip(rows.columns, rows.schema.types, strict=True)
    columns = [pa.concat_arrays([pa.array([], kind), *column.chunks]) for column, kind in kinds]
    return pa.table(columns, schema=rows.schema)


def _link_files(source: Path, target: Path) -> None:
    """Link the files below a folder into another one, except those for builds alone; none if there is none."""
    for file in sorted(path for path in source.rglob("*") if path.is_file() and path.name not in (_FACTS, _MADE_OF)):
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(file, place)
        except OSError:
            shutil.copyfile(file, place)
