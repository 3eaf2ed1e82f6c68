"""From chunks and their vectors to a generation, in steps that can run in separate processes.

Each step says which chunks its result was made of, so that results of two builds are never put together. Of the
published generation nothing is taken on trust: every file is compared with the digest in its signed manifest, and
looked at once more when all was copied. Where anything is missing, altered, of another version, or mostly other rows,
all rows are indexed anew, which gives the same bytes.
"""

from __future__ import annotations

import logging
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rag_assets.publishing import arrange, shard_writer
from rag_assets.publishing.lexical_writer import (
    COLUMNS,
    EarlierKeywords,
    EarlierLexical,
    Progress,
    build_lexical,
    write_keyword_index,
)
from rag_assets.publishing.passage_vectors import Embed, build_sentences, count_vectors, vectors_at
from rag_assets.publishing.posting_lists import KeptRows, find_kept_rows
from rag_assets.publishing.shard_writer import ShardContent, ShardWriter, discard_unreadable
from rag_assets.publishing.workspace import (
    BuildWorkspace,
    create_manifest,
    pages_digest,
    remember_digests,
    signed,
    stamped_facts,
    write_manifest,
)
from rag_serving.artifacts import keyword_tables
from rag_serving.artifacts.columns import take_rows, values_digest
from rag_serving.artifacts.contents import FileComparison, Stamp, let_go, stamp_of
from rag_serving.artifacts.keyword_tables import KEYWORD_PAGES, KEYWORD_ROWS, KEYWORD_WORDS
from rag_serving.artifacts.manifest import EmbedderFacts, Manifest, Shard, SourcePages, read_manifest
from rag_serving.artifacts.schema import DUPLICATES, GENERATION_CHUNKS, ORIGINALS, PAGE_FACTS
from rag_serving.artifacts.store import Store, StoreError, commit_folder, remove_folder, table_of
from rag_serving.config.loading import Config
from rag_serving.indexes import chroma, keyword_index, lexical, sentence_vectors
from rag_serving.indexes.chroma import ChromaLocation, DenseError, one_line
from rag_serving.indexes.exact import Vectors, vector_ids
from rag_serving.indexes.generation import LEXICAL_FOLDER, Generation, place_of
from rag_serving.indexes.generation_parts import MAPPED_FILE, parts_of
from rag_serving.indexes.integrity import MARK, find_file_damage
from rag_serving.indexes.lexical import LexicalError, LexicalIndex
from rag_serving.indexes.set_tables import Facts
from rag_serving.text import analyzer as terms
from rag_serving.text.analyzer import ANALYZER_VERSION

_log = logging.getLogger(__name__)
_LEXICAL_COLUMNS = ("lexical_prefix", "text", "lang")
_SCHEMAS = dict(zip(keyword_index.FILES, (KEYWORD_WORDS, KEYWORD_ROWS, KEYWORD_PAGES), strict=True))


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that shape the files of a generation, for its manifest."""
    libraries = {name: found for name in ("chromadb", "numpy", "pyarrow", "PyStemmer") if (found := _version(name))}
    return {**libraries, "unicode": unicodedata.unidata_version}


def _version(library: str) -> str | None:
    """Return the version of a library; None if it is not installed, as Chroma need not be."""
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def write_lexical(store: Store, tenant: str, folder: Path, table: pa.Table, progress: Progress | None = None) -> int:
    """Run `lexical_writer.build_lexical`, reusing parts of the published generation."""
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
    """Run `lexical_writer.write_keyword_index`, reusing parts of the published generation."""
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
        """Return some files beside the chunks; None, with a log entry for damage, if they cannot be used."""
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
        """Return which rows have the same cells in some columns, None if most do not."""
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


_BLOCK = 65_536  # vectors that are looked at at once


@dataclass(frozen=True)
class DenseBuild:
    """The result of the dense step."""

    shards: tuple[Shard, ...]
    built: int
    reused: int
    chunks: int
    dimension: int


@dataclass(frozen=True)
class LexicalBuild:
    """The result of the lexical step."""

    chunks: int
    terms: int


def build_generation(
    store: Store,
    tenant: str,
    chunks: pa.Table,
    vectors: Vectors,
    config: Config,
    embedder: str,
    sources: Mapping[str, str | None] | None = None,
    progress: Progress | None = None,
    embed: Embed | None = None,
    facts: Facts | None = None,
) -> Generation:
    """Build, commit and open a generation; it is not published. Arguments and errors are those of the steps below.
    Vectors of sentences are stored where `embed` makes them."""
    build_dense(store, tenant, chunks, vectors, config, embedder, progress)
    BuildWorkspace.of(store, tenant).write_originals(ORIGINALS.empty())
    BuildWorkspace.of(store, tenant).write_facts(facts, chunks["chunk_id"].to_pylist())
    build_lexical_index(store, tenant, chunks)
    if embed:
        build_sentences(store, tenant, chunks, embed, EmbedderFacts(name=embedder, dimension=vectors.shape[1]))
    else:
        BuildWorkspace.of(store, tenant).without_sentences()
    manifest = commit_generation(store, tenant, config, sources)
    return Generation.open(store, tenant, manifest.id, config)


def build_dense(
    store: Store,
    tenant: str,
    chunks: pa.Table,
    vectors: Vectors,
    config: Config,
    embedder: str,
    progress: Progress | None = None,
) -> DenseBuild:
    """Build the shards whose content is new.

    `chunks`: GENERATION_CHUNKS in any order; column `shard` is filled here. `vectors` [vectors, d]: L2-normalized, row
    by row those named in `chunks`. `embedder`: name of their model. Raises BuildError: chunks and vectors do not fit
    together, or a part of them is too large for a file. Raises DenseError: Chroma cannot be used.
    """
    table, vectors = arrange.arranged(chunks, vectors)
    borders = arrange.part_borders(table, config.indexing.max_part_chunks)
    arrange.refuse_oversized(table.slice(first, last - first) for first, last in pairwise(borders))
    table = arrange.with_shards(table, config.indexing.max_shard_chunks)
    with store.lock(tenant):
        shards, built = tuple[Shard, ...](), 0
        if has_graphs(config, len(table)) and not is_crowded(vectors):
            shards, built = _ensure_shards(place_of(store, tenant, config), table, vectors, embedder, progress)
        facts = {
            "embedder": embedder,
            "dimension": vectors.shape[1],
            "shards": [shard.model_dump() for shard in shards],
            **_digests(table),
        }
        write_words = partial(write_keywords, store, tenant)
        BuildWorkspace.of(store, tenant).write_dense(
            table, vectors, arrange.part_sizes(table, borders), facts, write_words
        )
    return DenseBuild(shards, built, len(shards) - built, len(table), vectors.shape[1])


def build_lexical_index(store: Store, tenant: str, chunks: pa.Table, progress: Progress | None = None) -> LexicalBuild:
    """Build the BM25 index over place and text of every chunk. `chunks` needs the columns source, page_id, chunk_idx,
    chunk_id, lexical_prefix, text, lang; any order."""
    needed = ["source", "page_id", "chunk_idx", "chunk_id", "lexical_prefix", "text", "lang"]
    table = arrange.in_order(chunks.select(needed))
    with store.lock(tenant), BuildWorkspace.of(store, tenant).lexical() as folder:
        size = write_lexical(store, tenant, folder, table, progress)
    return LexicalBuild(len(table), size)


def commit_generation(
    store: Store,
    tenant: str,
    config: Config,
    sources: Mapping[str, str | None] | None = None,
    context_levels: Mapping[str, int] | None = None,
) -> Manifest:
    """Combine the steps' results into an immutable generation; return its manifest. A complete one with the same id is
    left alone. `sources`: sync fingerprint of each source, `context_levels`: chunks by the origin of their prefix; both
    become part of the manifest. Raises StoreError: a step did not run, or its result is of other chunks."""
    with store.lock(tenant):
        candidate = BuildWorkspace.of(store, tenant)
        table, facts = candidate.table(), candidate.facts()
        if candidate.lexical_content() != facts.get("lexical_digest"):
            raise StoreError(
                f"the indexes under {candidate.folder} are of different chunks (two builds at the same time?); "
                "run `citelock build`"
            )
        chunk_ids = table["chunk_id"].to_pylist()
        has_sentences, pages = candidate.has_sentences(chunk_ids, facts["embedder"]), candidate.facts_of(chunk_ids)
        originals, working = candidate.originals(), candidate.assembled()
        files = stamped_facts(working)
        manifest = create_manifest(
            **_content_facts(tenant, table, facts, has_sentences, originals, pages),
            parts=tuple(sizes) if len(sizes := candidate.part_sizes()) > 1 else (),
            created_at=datetime.now(UTC),
            sources=dict(sources or {}),
            settings={
                "ingestion": config.ingestion.model_dump(mode="json"),
                "context": {
                    "provider": config.context.provider,
                    "model": config.context.model,
                    "levels": dict(context_levels or {}),
                },
                "lexical": {"k1": lexical.K1, "b": lexical.B, "method": lexical.METHOD},
                "dense": _hnsw(),
            },
            files={name: one.facts for name, one in files.items()},
            versions=library_versions(),
        )
        if whole := _whole(store, tenant, manifest.id, config):
            remove_folder(working)
            (store.generation(tenant, manifest.id) / MARK).unlink(missing_ok=True)
            return whole
        manifest = signed(manifest, store.home)
        write_manifest(working, manifest)
        commit_folder(working, store.generation(tenant, manifest.id))
        remember_digests(store, tenant, store.generation(tenant, manifest.id), files)
    return manifest


def _digests(table: pa.Table) -> dict[str, str]:
    with ThreadPoolExecutor(1) as beside:
        words = beside.submit(arrange.lexical_digest, table)
        return {"inputs_digest": values_digest(table), "lexical_digest": words.result()}


def _whole(store: Store, tenant: str, generation_id: str, config: Config) -> Manifest | None:
    """Return the manifest of a generation whose files are intact to the last bit; any other is replaced."""
    if find_file_damage(store, tenant, generation_id, config, "digests"):
        return None
    return read_manifest(store, tenant, generation_id)


def has_graphs(config: Config, chunks: int) -> bool:
    """Return whether so many chunks get graphs of Chroma beside the codes of their vectors."""
    return config.indexing.dense_search == "chroma" or chunks <= config.indexing.graph_chunks


def is_crowded(vectors: Vectors) -> bool:
    """Return whether so many vectors are equal that they would take all the edges of a graph, whose other vectors would
    be unreachable from them: texts without any word known to the model."""
    counts = Counter[int]()
    for start in range(0, len(vectors), _BLOCK):
        counts.update(hash(row.tobytes()) for row in np.round(vectors[start : start + _BLOCK], 3) + 0.0)
        let_go(vectors)
    return max(counts.values(), default=0) > shard_writer.MAX_NEIGHBORS


def _ensure_shards(
    place: ChromaLocation, table: pa.Table, vectors: Vectors, embedder: str, progress: Progress | None
) -> tuple[tuple[Shard, ...], int]:
    """Return every shard's collection, built if it does not exist yet; and how many were built."""
    names = np.array(table["shard"].to_pylist(), dtype=object)
    shards, built, done = [], 0, 0
    try:
        if place.url is None and (fault := discard_unreadable(place.folder)):
            _log.warning("the dense index in %s is built anew: %s", place.folder, fault)
        collections = ShardWriter.open(place)
        collections.remove_unfinished()
        for name in sorted(set(names)):
            rows = np.flatnonzero(names == name)
            content = shard_content(take_rows(table, rows), vectors_at(table, vectors, rows), embedder)
            collection, fresh = collections.ensure(content, partial(_report, progress, done, len(table)))
            done, built = done + len(rows), built + fresh
            _report(progress, 0, len(table), done)
            shards.append(Shard(name=name, collection=collection, chunks=len(rows), digest=content.digest))
    except DenseError:
        raise
    except Exception as error:  # Chroma raises its own, its transport's and plain ValueErrors
        raise DenseError(f"the dense index at {place} cannot be built ({one_line(error)})") from error
    return tuple(shards), built


def _report(progress: Progress | None, before: int, total: int, part: int) -> None:
    if progress:
        progress(before + part, total)


def shard_content(rows: pa.Table, vectors: Vectors, embedder: str) -> ShardContent:
    """Return a shard's content under the digest of everything that shapes its collection."""
    ids, keys, classes = arrange.values(rows, "chunk_id", "vector_keys", "readers")
    counts = [len(own) for own in keys]
    readers = [readers for readers, count in zip(classes, counts, strict=True) for _ in range(count)]
    ids = vector_ids(ids, counts)
    header = [embedder, str(vectors.shape[1]), *(f"{name}={value}" for name, value in sorted(_hnsw().items()))]
    digest = arrange.content_digest(header, zip(ids, chain.from_iterable(keys), readers, strict=True))
    return ShardContent(digest, ids, vectors, readers)


def _hnsw() -> dict[str, int]:
    return {
        "format": chroma.FORMAT,
        "ef_construction": shard_writer.EF_CONSTRUCTION,
        "ef_search": shard_writer.EF_SEARCH,
        "max_neighbors": shard_writer.MAX_NEIGHBORS,
    }


def _content_facts(
    tenant: str,
    table: pa.Table,
    facts: Mapping[str, Any],
    has_sentences: bool,
    originals: pa.Table,
    pages: Facts | None,
) -> dict[str, Any]:
    inputs = facts["inputs_digest"]
    if len(originals):
        inputs = arrange.content_digest([inputs, values_digest(originals)], ())
    if pages is not None:
        inputs = arrange.content_digest([inputs, *map(values_digest, pages)], ())
    versions: dict[str, dict[str, int]] = {}
    for source, page, number in zip(*arrange.values(table, "source", "page_id", "version"), strict=True):
        versions.setdefault(source, {})[page] = number
    return {
        "tenant": tenant,
        "inputs_digest": inputs,
        "embedder": EmbedderFacts(name=facts["embedder"], dimension=facts["dimension"]),
        "shards": tuple(Shard.model_validate(shard) for shard in facts["shards"]),
        "chunks": len(table),
        "vectors": vectors if (vectors := count_vectors(table)) != len(table) else None,
        "pages": {
            source: SourcePages(pages=len(pages), digest=pages_digest(pages))
            for source, pages in sorted(versions.items())
        },
        "formats": {
            "chunks": GENERATION_CHUNKS.version,
            "dense": chroma.FORMAT,
            "lexical": lexical.FORMAT,
            "analyzer": terms.ANALYZER_VERSION,
            "keyword": keyword_tables.FORMAT,
            **({"sentences": sentence_vectors.FORMAT} if has_sentences else {}),
            **({"originals": ORIGINALS.version} if len(originals) else {}),
            **({"page_facts": PAGE_FACTS.version, "duplicates": DUPLICATES.version} if pages is not None else {}),
        },
    }
