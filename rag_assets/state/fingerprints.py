"""Digests of everything that shapes a table: equal digests mean there is nothing to do.

Belongs here: which settings and versions each table depends on.
Does not belong here: the decision itself (`rag_assets.state.planning`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from urllib.parse import urlsplit

import pyarrow as pa

from rag_assets.sources.base import settings_digest
from rag_assets.steps.chunks import chunking, select
from rag_assets.steps.chunks.chunking import ChunkSize
from rag_assets.steps.contexts import contextualize, embedded_windows
from rag_assets.steps.contexts import prompt as context_prompt
from rag_assets.steps.dedup import duplicates
from rag_assets.steps.sections import splitting as sections
from rag_serving.artifacts import keyword_tables
from rag_serving.artifacts.schema import CHUNKS, CONTEXTS, DEDUP_MAP, GENERATION_CHUNKS, SECTIONS
from rag_serving.config.indexing import Indexing
from rag_serving.config.loading import Config
from rag_serving.indexes import chroma, lexical, sentence_vectors
from rag_serving.text import analyzer as terms


def digest(*parts: object) -> str:
    """Return a short SHA-256 of values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def sections_settings(config: Config) -> str:
    changed = config.documents.changed()
    return digest(SECTIONS.version, sections.VERSION, config.ingestion.max_page_bytes, *([changed] if changed else []))


def source_sections_settings(config: Config, source: str) -> str:
    return digest(sections_settings(config), config.sources[source].resolve_lists)


def chunk_size(config: Config, source: str) -> ChunkSize:
    """Return how long the chunks of a source are."""
    return ChunkSize.of(config.profiles.of(config.sources[source]), config.ingestion)


def chunks_settings(config: Config, source: str) -> str:
    embedding = config.embedding
    return digest(
        sections_settings(config),
        CHUNKS.version,
        chunking.VERSION,
        asdict(chunk_size(config, source)),
        config.profiles.name_of(config.sources[source]),
        (embedding.provider, embedding.model, embedding.weights_dir),  # whose tokenizer counts
    )


def ingest_settings(config: Config, source: str) -> str:
    """Return all that shapes a source's tables, beside its content."""
    return digest(settings_digest(source, config.sources[source]), chunks_settings(config, source))


def table_digest(table: pa.Table) -> str:
    """Return a digest of the table's content, column by column: names and values, whatever their layout in memory."""
    whole = hashlib.sha256()
    for name in table.column_names:
        whole.update(json.dumps([name, table[name].to_pylist()], default=str).encode())
    return whole.hexdigest()[:32]


def pages_digest(pages: pa.Table) -> str:
    """Return a digest of what pages of other sources may take from these."""
    return table_digest(pages.select(["page_id", "space", "title", "url", "readers", "content_hash"]))


def tenant_inputs(config: Config, chunks: Mapping[str, str], embedder: str, pages: Mapping[str, str]) -> str:
    """Return all that shapes a tenant's generation.

    Args:
        config: its settings of selection, context and indexes count.
        chunks: digest of each source's chunk table.
        embedder: name of the embedding model.
        pages: digest of each source's pages, where sources show pages of each other; else empty.
    """
    ingestion = config.ingestion
    return digest(
        dict(chunks),
        dict(pages),
        (embedder, embedded_windows.VERSION),
        (CONTEXTS.version, GENERATION_CHUNKS.version, contextualize.VERSION, select.VERSION),
        (config.context.provider, config.context.model, config.context.refresh and context_prompt.VERSION),
        (sorted(ingestion.drop_labels), ingestion.drop_boilerplate),
        (DEDUP_MAP.version, duplicates.SIGNATURE_VERSION, duplicates.VERSION),
        (ingestion.dedup_enabled, ingestion.dedup_method, ingestion.dedup_threshold),
        config.indexing.max_shard_chunks,
        *_graphs(config),
        *_parts(config),
        (lexical.FORMAT, chroma.FORMAT, terms.ANALYZER_VERSION, keyword_tables.FORMAT),
        (sentence_vectors.FORMAT, config.indexing.sentence_vectors, config.embedding.provider),
        *_database(config),
    )


def _graphs(config: Config) -> tuple[object, ...]:
    """Return what decides whether there are graphs; nothing for the defaults, which change no fingerprint."""
    most, always = config.indexing.max_graph_chunks, config.indexing.dense_search == "chroma"
    return (most, always) if always or most != Indexing().max_graph_chunks else ()


def _parts(config: Config) -> tuple[tuple[str, int], ...]:
    """Return what decides which parts a generation is stored in; nothing for the default."""
    most = config.indexing.max_part_chunks
    return (("parts", most),) if most != Indexing().max_part_chunks else ()


def _database(config: Config) -> tuple[tuple[str, str], ...]:
    """Return which database generations are copied to: another one has none of them yet."""
    if config.index.kind == "disk":
        return ()
    address = urlsplit(config.index.writer_url or config.index.url or "")
    place = f"{address.netloc.rpartition('@')[2]}{address.path}"
    if config.index.kind in {"qdrant", "opensearch"}:
        place += f" {config.index.collection} {config.index.collections}"
    return ((config.index.kind, place),)
