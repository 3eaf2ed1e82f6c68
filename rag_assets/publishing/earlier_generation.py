"""The indexes of words, made of those of the published generation where most rows did not change.

Belongs here: whether what is published may be used, which of its rows are the same. Does not belong here: what is
copied (`lexical_writer`, `keyword_writer`), comparing rows (`kept_rows`).

Nothing is taken on trust: every file is compared with the digest in its signed manifest, and looked at once more when
all was copied. Where anything is missing, altered, of another version, or mostly other rows, all rows are indexed anew,
which gives the same bytes.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_assets.publishing.kept_rows import KeptRows, find_kept_rows
from rag_assets.publishing.keyword_writer import COLUMNS, EarlierKeywords, write_keyword_index
from rag_assets.publishing.lexical_writer import EarlierLexical, Progress, build_lexical
from rag_serving.artifacts import keyword_tables
from rag_serving.artifacts.contents import FileComparison, let_go
from rag_serving.artifacts.digests import Stamp, stamp_of
from rag_serving.artifacts.keyword_tables import KEYWORD_PAGES, KEYWORD_ROWS, KEYWORD_WORDS
from rag_serving.artifacts.manifest import read_manifest
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store, StoreError, table_of
from rag_serving.indexes import keyword_index, lexical
from rag_serving.indexes.generation_files import LEXICAL_FOLDER
from rag_serving.indexes.generation_parts import MAPPED_FILE, parts_of
from rag_serving.indexes.lexical import LexicalError, LexicalIndex
from rag_serving.text.analyzer import ANALYZER_VERSION

_log = logging.getLogger(__name__)

_LEXICAL_COLUMNS = ("lexical_prefix", "text", "lang")
_SCHEMAS = dict(zip(keyword_index.FILES, (KEYWORD_WORDS, KEYWORD_ROWS, KEYWORD_PAGES), strict=True))


def library_versions() -> dict[str, str]:
    """Return the versions of what shapes the files of a generation, as its manifest has them."""
    libraries = {library: version(library) for library in ("chromadb", "numpy", "pyarrow", "PyStemmer")}
    return {**libraries, "unicode": unicodedata.unidata_version}


def write_lexical(store: Store, tenant: str, folder: Path, table: pa.Table, progress: Progress | None = None) -> int:
    """Do what `lexical_writer.build_lexical` does, with what can be kept of the published generation."""
    names = {f"{LEXICAL_FOLDER}/{name}": name for name in lexical.FILES}
    formats = {"lexical": lexical.FORMAT, "analyzer": ANALYZER_VERSION}
    if (files := _Published.open(store, tenant, names, formats)) and (kept := files.kept(table, _LEXICAL_COLUMNS)):
        try:
            index = LexicalIndex.of({name: files.contents[path] for path, name in names.items()})
            size = build_lexical(folder, table, progress, EarlierLexical(index, kept))
        except LexicalError as error:
            _log.warning("all texts are analyzed: %s", error)
        else:
            if files.unaltered:
                return size
    return build_lexical(folder, table, progress)


def write_keywords(store: Store, tenant: str, folder: Path, table: pa.Table) -> None:
    """Do what `keyword_writer.write_keyword_index` does, with what can be kept of the published generation."""
    formats = {"keyword": keyword_tables.FORMAT}
    if (files := _Published.open(store, tenant, _SCHEMAS, formats)) and (kept := files.kept(table, COLUMNS)):
        words, rows, pages = (table_of(files.contents[name], files.folder / name, _SCHEMAS[name]) for name in _SCHEMAS)
        write_keyword_index(folder, table, EarlierKeywords(words, rows, pages, kept))
        if files.unaltered:
            return
    write_keyword_index(folder, table)


class _Published(NamedTuple):
    """Files of the published generation, mapped, and what they were when they were compared with their digests;
    `chunks`: the names of those with its rows."""

    folder: Path
    chunks: Sequence[str]
    contents: Mapping[str, memoryview]
    stamps: Mapping[str, Stamp | None]

    @classmethod
    def open(cls, store: Store, tenant: str, names: Collection[str], formats: Mapping[str, int]) -> _Published | None:
        """Return some files beside the chunks; None where they cannot be used, which is told where they should be
        sound."""
        generation = store.current(tenant)
        if generation is None or not store.generation(tenant, generation).is_dir():
            return None
        folder = store.generation(tenant, generation)
        try:
            manifest = read_manifest(store, tenant, generation)
            chunks = [part.file(MAPPED_FILE) for part in parts_of(manifest)]
            wanted = [*chunks, *names]
            versions = {"chunks": GENERATION_CHUNKS.version, **formats}
            same = versions.items() <= manifest.formats.items() and library_versions() == manifest.versions
            if not same or not manifest.files.keys() >= set(wanted):
                return None
            facts = {name: manifest.files[name] for name in wanted}
            with FileComparison(store, tenant, folder, facts, wanted, 0) as compared:
                contents = {name: compared[name] for name in wanted}
        except StoreError as error:
            _log.warning("nothing is kept of generation %s: %s", generation, error)
            return None
        return cls(
            folder,
            chunks,
            {name: content.data for name, content in contents.items()},
            {name: content.stamp for name, content in contents.items()},
        )

    def kept(self, table: pa.Table, columns: Sequence[str]) -> KeptRows | None:
        """Return which rows have the same cells in some columns, None where most do not."""
        earlier = [table_of(self.contents[name], self.folder / name, GENERATION_CHUNKS) for name in self.chunks]
        kept = find_kept_rows(table, pa.concat_tables(earlier), columns, self._let_go)
        return kept if kept.worthwhile else None

    def _let_go(self) -> None:
        for name in self.chunks:
            let_go(self.contents[name])

    @property
    def unaltered(self) -> bool:
        """Whether no file was written to since it was compared."""
        return all(stamp_of(self.folder / name) in (None, stamp) for name, stamp in self.stamps.items())
