"""From chunks and their vectors to a generation's folder, in steps that can run in separate processes.

Belongs here: ordering the chunk table, building shards and the lexical index, writing the manifest last.
Does not belong here: checking a generation or publishing it, where chunks and vectors come from.

Steps leave their results under `Store.candidate(tenant)`; each is complete or not there, and says which chunks it was made of.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.config import Config
from rag_serving.generation import CHUNKS_FILE, LEXICAL_FOLDER, Generation, place_of
from rag_serving.indexes import exact, lexical, shard_collections, terms
from rag_serving.indexes.chroma import Place
from rag_serving.indexes.exact import Vectors, load_vectors, save_vectors
from rag_serving.indexes.lexical import LexicalError, LexicalIndex, build_lexical, documents_digest
from rag_serving.indexes.shard_collections import ShardCollections, ShardContent
from rag_serving.indexes.shards import content_digest, shard_count, shard_name
from rag_serving.manifest import (
    EmbedderFacts,
    FileFacts,
    Manifest,
    Shard,
    SourcePages,
    create_manifest,
    pages_digest,
    write_manifest,
)
from rag_serving.schema import GENERATION_CHUNKS
from rag_serving.store import (
    Store,
    StoreError,
    commit_folder,
    read_json,
    read_table,
    remove_folder,
    write_json,
    write_table,
)

Progress = Callable[[int, int], None]  # done, of how many

_DENSE, _LEXICAL, _WORKING = "dense", "lexical", "generation"
_DENSE_FACTS = "dense.json"
_ORDER = [("source", "ascending"), ("page_id", "ascending"), ("chunk_idx", "ascending"), ("chunk_id", "ascending")]


class BuildError(Exception):
    """The chunks or vectors cannot become a generation; the message says which and why."""


@dataclass(frozen=True)
class DenseBuild:
    """What the dense step made."""

    shards: tuple[Shard, ...]
    built: int
    reused: int
    chunks: int
    dimension: int


@dataclass(frozen=True)
class LexicalBuild:
    """What the lexical step made."""

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
) -> Generation:
    """Build, commit and open a generation of `chunks` (GENERATION_CHUNKS, any order) with their `vectors` [n, d].

    It is not published. The arguments are those of the steps below.

    Raises:
        BuildError: chunks and vectors do not fit together.
        DenseError: Chroma cannot be used.
        StoreError: the home folder cannot be used.
    """
    build_dense(store, tenant, chunks, vectors, config, embedder, progress)
    build_lexical_index(store, tenant, chunks)
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
    """Build the shards whose content is new; leave table, vectors and shards in the candidate folder.

    `chunks`: GENERATION_CHUNKS in any order, column `shard` filled here. `vectors` [n, d]: L2-normalized, row by row those of
    `chunks`. `embedder`: name of the model that made them.
    """
    table, vectors = arranged(chunks, vectors)
    count = shard_count(table["page_id"].to_pylist(), config.indexing.max_shard_chunks)
    table = _with_shards(table, count)
    with store.lock(tenant):
        shards, built = _ensure_shards(place_of(store, tenant, config), table, vectors, embedder, progress)
        result = DenseBuild(shards, built, len(shards) - built, len(table), vectors.shape[1])
        _leave_dense(store.candidate(tenant), table, vectors, embedder, result)
    return result


def build_lexical_index(store: Store, tenant: str, chunks: pa.Table) -> LexicalBuild:
    """Build the BM25 index over prefix and text of every chunk; leave it in the candidate folder.

    `chunks` needs the columns source, page_id, chunk_idx, chunk_id, prefix, text; any order.
    """
    table = chunks.select(["source", "page_id", "chunk_idx", "chunk_id", "prefix", "text"]).sort_by(_ORDER)
    texts = _indexed_texts(table)
    with store.lock(tenant):
        folder = _empty(store.candidate(tenant) / f".{_LEXICAL}")
        size = build_lexical(folder, table["chunk_id"].to_pylist(), texts)
        commit_folder(folder, store.candidate(tenant) / _LEXICAL)
    return LexicalBuild(len(table), size)


def commit_generation(
    store: Store, tenant: str, config: Config, sources: Mapping[str, str | None] | None = None
) -> Manifest:
    """Put the candidate's parts together as an immutable generation; returns its manifest.

    One that already exists with the same id and is whole is left as it is. `sources`: sync fingerprint of each source, told
    in the manifest.

    Raises:
        StoreError: a step did not run, or its results are of different chunks.
    """
    with store.lock(tenant):
        candidate = store.candidate(tenant)
        facts = read_json(candidate / _DENSE / _DENSE_FACTS)
        table = read_table(candidate / _DENSE / CHUNKS_FILE, GENERATION_CHUNKS)
        if _lexical_content(candidate) != documents_digest(table["chunk_id"].to_pylist(), _indexed_texts(table)):
            raise StoreError(
                f"the indexes under {candidate} are of different chunks: two builds ran at the same time; run `citelock build`"
            )
        working = _assemble(candidate)
        manifest = _manifest(tenant, table, facts, config, sources or {}, _file_facts(working))
        if _is_whole(store, tenant, manifest.id, config):
            remove_folder(working)
        else:
            write_manifest(working, manifest)
            commit_folder(working, store.generation(tenant, manifest.id))
    return manifest


def arranged(chunks: pa.Table, vectors: Vectors) -> tuple[pa.Table, Vectors]:
    """Chunks and vectors in the one order that does not depend on how they came: by source, page and place in the page.

    Raises:
        BuildError: a chunk id stands twice, or the vectors are not finite numbers, one for each chunk.
    """
    if vectors.ndim != 2 or len(vectors) != len(chunks):
        raise BuildError(f"{len(chunks)} chunks came with vectors of shape {vectors.shape}")
    if not np.isfinite(vectors).all():
        bad = chunks["chunk_id"][int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])].as_py()
        raise BuildError(
            f"the vector of chunk {bad} has values that are not finite; delete the vector cache and embed again"
        )
    counts = pc.value_counts(chunks["chunk_id"].combine_chunks())
    twice = [entry["values"].as_py() for entry in counts if entry["counts"].as_py() > 1]
    if twice:
        raise BuildError(
            f"chunk id {twice[0]!r} stands more than once; two sources must not share page ids (set id_prefix)"
        )
    order = pc.sort_indices(chunks, sort_keys=_ORDER)
    return chunks.take(order), np.ascontiguousarray(vectors[order.to_numpy()], dtype=np.float32)


def table_digest(table: pa.Table) -> str:
    """SHA-256 of a table's values, column by column: independent of file format and library version."""
    hasher = hashlib.sha256()
    for name in sorted(table.column_names):
        column = table[name]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        hasher.update(json.dumps([name, column.to_pylist()], ensure_ascii=False, separators=(",", ":")).encode())
    return hasher.hexdigest()


def _indexed_texts(table: pa.Table) -> list[str]:
    """What both indexes see of a chunk: the context prefix above its text."""
    return [
        f"{prefix}\n{text}" if prefix else text for prefix, text in zip(*_lists(table, "prefix", "text"), strict=True)
    ]


def _lexical_content(candidate: Path) -> str:
    try:
        return LexicalIndex.open(candidate / _LEXICAL).content
    except LexicalError as error:
        raise StoreError(f"{error}; run `citelock build`") from error


def _lists(table: pa.Table, *names: str) -> list[list[Any]]:
    return [table[name].to_pylist() for name in names]


def _with_shards(table: pa.Table, count: int) -> pa.Table:
    pages = table["page_id"].combine_chunks().dictionary_encode()
    names = pa.array([shard_name(page, count) for page in pages.dictionary.to_pylist()], pa.string())
    shards = names.take(pages.indices) if len(table) else pa.array([], pa.string())
    bare = table.drop_columns(["shard"]) if "shard" in table.column_names else table
    return bare.append_column("shard", shards).select(GENERATION_CHUNKS.columns.names).cast(GENERATION_CHUNKS.arrow)


def _ensure_shards(
    place: Place, table: pa.Table, vectors: Vectors, embedder: str, progress: Progress | None
) -> tuple[tuple[Shard, ...], int]:
    """Every shard's collection, built where it does not exist yet; and how many were built."""
    collections = ShardCollections.open(place)
    collections.remove_unfinished()
    names = np.array(table["shard"].to_pylist(), dtype=object)
    shards, built, done = [], 0, 0
    for name in sorted(set(names)):
        rows = np.flatnonzero(names == name)
        content = _content(table.take(pa.array(rows)), vectors[rows], embedder)
        before = done
        collection, fresh = collections.ensure(
            content, lambda part, base=before: _report(progress, base + part, len(table))
        )
        done += len(rows)
        _report(progress, done, len(table))
        built += fresh
        shards.append(Shard(name=name, collection=collection, chunks=len(rows), digest=content.digest))
    return tuple(shards), built


def _report(progress: Progress | None, done: int, total: int) -> None:
    if progress:
        progress(done, total)


def _content(rows: pa.Table, vectors: Vectors, embedder: str) -> ShardContent:
    ids, keys, readers = _lists(rows, "chunk_id", "vector_key", "readers")
    header = [f"{name}={value}" for name, value in sorted(_formats()["dense_settings"].items())]
    digest = content_digest([embedder, str(vectors.shape[1]), *header], zip(ids, keys, readers, strict=True))
    return ShardContent(digest, ids, vectors, readers)


def _formats() -> dict[str, dict[str, Any]]:
    """The settings that shape each index."""
    return {
        "dense_settings": {
            "format": shard_collections.FORMAT,
            "ef_construction": shard_collections.EF_CONSTRUCTION,
            "ef_search": shard_collections.EF_SEARCH,
            "max_neighbors": shard_collections.MAX_NEIGHBORS,
        },
        "lexical_settings": {"k1": lexical.K1, "b": lexical.B, "method": lexical.METHOD},
    }


def _leave_dense(candidate: Path, table: pa.Table, vectors: Vectors, embedder: str, result: DenseBuild) -> None:
    working = _empty(candidate / f".{_DENSE}")
    write_table(working / CHUNKS_FILE, table, GENERATION_CHUNKS)
    save_vectors(working, vectors)
    facts = {
        "embedder": embedder,
        "dimension": result.dimension,
        "shards": [shard.model_dump() for shard in result.shards],
        "inputs_digest": table_digest(table),
    }
    write_json(working / _DENSE_FACTS, facts)
    commit_folder(working, candidate / _DENSE)


def _assemble(candidate: Path) -> Path:
    """The candidate's parts in one folder: linked, not copied, where the file system can."""
    working = _empty(candidate / _WORKING)
    for name in (CHUNKS_FILE, exact.FILE):
        _link(candidate / _DENSE / name, working / name)
    (working / LEXICAL_FOLDER).mkdir()
    for file in sorted((candidate / _LEXICAL).iterdir()):
        _link(file, working / LEXICAL_FOLDER / file.name)
    return working


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _empty(folder: Path) -> Path:
    remove_folder(folder)
    folder.mkdir(parents=True)
    return folder


def _file_facts(folder: Path) -> dict[str, FileFacts]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): file_facts(path) for path in files}


def file_facts(path: Path) -> FileFacts:
    """Size and digest of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileFacts(bytes=path.stat().st_size, sha256=digest)


def _manifest(
    tenant: str,
    table: pa.Table,
    facts: Mapping[str, Any],
    config: Config,
    sources: Mapping[str, str | None],
    files: dict[str, FileFacts],
) -> Manifest:
    return create_manifest(
        tenant=tenant,
        created_at=datetime.now(UTC).replace(microsecond=0),
        inputs_digest=facts["inputs_digest"],
        embedder=EmbedderFacts(name=facts["embedder"], dimension=facts["dimension"]),
        shards=tuple(Shard.model_validate(shard) for shard in facts["shards"]),
        chunks=len(table),
        pages=_pages(table),
        sources=dict(sources),
        formats={
            "chunks": GENERATION_CHUNKS.version,
            "dense": shard_collections.FORMAT,
            "lexical": lexical.FORMAT,
            "analyzer": terms.ANALYZER_VERSION,
        },
        settings={"ingestion": config.ingestion.model_dump(mode="json"), **_formats()},
        files=files,
        versions={library: version(library) for library in ("bm25s", "chromadb", "numpy", "pyarrow")},
    )


def candidate_collections(store: Store, tenant: str) -> frozenset[str]:
    """The collections of a dense step whose generation may not be committed yet."""
    try:
        facts = read_json(store.candidate(tenant) / _DENSE / _DENSE_FACTS)
    except StoreError:
        return frozenset()
    return frozenset(shard["collection"] for shard in facts["shards"])


def _pages(table: pa.Table) -> dict[str, SourcePages]:
    """Count and digest of the pages of each source."""
    versions: dict[str, dict[str, int]] = {}
    for source, page, number in zip(*_lists(table, "source", "page_id", "version"), strict=True):
        versions.setdefault(source, {})[page] = number
    return {
        source: SourcePages(pages=len(pages), digest=pages_digest(pages)) for source, pages in sorted(versions.items())
    }


def _is_whole(store: Store, tenant: str, generation_id: str, config: Config) -> bool:
    """Whether a generation of this id stands complete on disk."""
    try:
        Generation.open(store, tenant, generation_id, config).close()
    except StoreError:
        return False
    return True
