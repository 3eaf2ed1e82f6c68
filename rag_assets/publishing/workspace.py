"""What the steps of a build leave for each other, and the generation's folder made of it.

Belongs here: files under `Store.candidate(tenant)`; every part is complete or not there.
Does not belong here: what is in the parts (`build`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_assets.publishing.keyword_writer import write_keyword_index
from rag_assets.publishing.page_readers import write_page_readers
from rag_assets.publishing.vector_files import save_codes, save_vectors
from rag_serving.artifacts.manifest import PartSize
from rag_serving.artifacts.schema import GENERATION_CHUNKS, ORIGINALS
from rag_serving.artifacts.store import (
    Store,
    StoreError,
    commit_folder,
    map_table,
    read_json,
    remove_folder,
    write_json,
    write_mapped,
    write_table,
)
from rag_serving.indexes.exact import Vectors
from rag_serving.indexes.generation_files import LEXICAL_FOLDER
from rag_serving.indexes.generation_parts import CHUNKS_FILE, MAPPED_FILE, GenerationPart, map_chunks, named_parts
from rag_serving.indexes.lexical import LexicalError, LexicalIndex
from rag_serving.indexes.originals import FILE as ORIGINALS_FILE

_DENSE, _LEXICAL, _SENTENCES, _FACTS = "dense", "lexical", "sentences", "dense.json"
_MADE_OF = "sentences.json"
_ORIGINALS = "originals"


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
        """Leave the arranged table, its vectors and what was made of them; `sizes`: of its parts, in order,
        `write_words` makes the keyword index."""
        with self._part(_DENSE) as working:
            with ThreadPoolExecutor(1) as beside:  # Arrow and numpy leave the other core to the words
                parts = beside.submit(_write_parts, working, table, vectors, sizes)
                write_page_readers(working, table)
                write_words(working, table)
                parts.result()
            write_json(working / _FACTS, {**facts, "parts": [size.model_dump() for size in sizes]})

    @contextmanager
    def lexical(self) -> Iterator[Path]:
        """Yield an empty folder that becomes the lexical index when the block ends well."""
        with self._part(_LEXICAL) as working:
            yield working

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
        """Return whether there are sentence vectors.

        Raises:
            StoreError: they are of other chunks, or of another model.
        """
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
        """Leave ORIGINALS for the generation; none where it has no row."""
        if not len(table):
            remove_folder(self.originals_folder)
            return
        with self._part(_ORIGINALS) as working:
            write_mapped(working / ORIGINALS_FILE, table, ORIGINALS)

    def originals(self) -> pa.Table:
        """Return what `write_originals` left: no row where it left nothing."""
        path = self.originals_folder / ORIGINALS_FILE
        return map_table(path, ORIGINALS) if path.exists() else ORIGINALS.empty()

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
        """Digest of what the lexical index was made of."""
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
        """Return all parts in one folder, still without its manifest; linked, not copied, where that is possible."""
        working = _empty(self.folder / "generation")
        folders = self.folder / _DENSE, self.folder / _SENTENCES, self.originals_folder
        for folder in folders:
            _link_files(folder, working)
        _link_files(self.folder / _LEXICAL, working / LEXICAL_FOLDER)
        return working

    @contextmanager
    def _part(self, name: str) -> Iterator[Path]:
        working = _empty(self.folder / f".{name}")
        yield working
        commit_folder(working, self.folder / name)


def _empty(folder: Path) -> Path:
    remove_folder(folder)
    folder.mkdir(parents=True)
    return folder


def _write_parts(folder: Path, table: pa.Table, vectors: Vectors, sizes: Sequence[PartSize]) -> None:
    """Write the files of every part, one after the other.

    Their bytes do not depend on the rows of other parts, nor on the chunks that the table's columns are in.
    """
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
    """Link the files below a folder into another one, but for what only a build reads; none where there is none."""
    for file in sorted(path for path in source.rglob("*") if path.is_file() and path.name not in (_FACTS, _MADE_OF)):
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        _link(file, place)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
