"""The prefix that tells a chunk where it comes from.

Belongs here: what stands above a chunk's text for each index, and at which level it was made.
Does not belong here: embedding, and anything a reader sees: a prefix is never shown and never quotable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from rag_serving.prefix import metadata_prefix, under_prefixes
from rag_serving.schema import CONTEXTS, GENERATION_CHUNKS
from rag_serving.structure import lexical_prefixes

VERSION = 3
"""Raised when the same chunk would get another prefix."""

Template = Literal["metadata", "none"]

NOT_ASKED = "skipped: "
"""How the reason begins for a passage that could not even be asked about."""


@dataclass(frozen=True)
class WrittenContext:
    """What a model wrote about a passage, and what that took."""

    text: str
    quality: float  # 0 to 1
    issues: tuple[str, ...] = ()
    prompt_version: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0  # of those in: read from the server's prompt cache


def build_contexts(
    chunks: pa.Table,
    template: Template,
    written: Mapping[str, WrittenContext] | None = None,
    failures: Mapping[str, str] | None = None,
) -> pa.Table:
    """Rows of CONTEXTS, one for each chunk, in the same order.

    Args:
        chunks: rows of SELECTED_CHUNKS.
        template: what every chunk gets, whether or not a model wrote about it.
        written: by chunk id what a model wrote; it stands under the template's line.
        failures: by chunk id why a model did not.
    """
    written, failures = written or {}, failures or {}
    ids, texts = chunks["chunk_id"].to_pylist(), chunks["text"].to_pylist()
    prefixes = lexical = [""] * len(ids)
    if template == "metadata":
        places = zip(chunks["title"].to_pylist(), chunks["heading_path"].to_pylist(), strict=True)
        prefixes, lexical = [metadata_prefix(title, path or ()) for title, path in places], lexical_prefixes(chunks)
    found = [written.get(chunk_id) for chunk_id in ids]
    reasons = [failures.get(chunk_id) for chunk_id in ids]
    levels = [_level(*each) for each in zip(found, reasons, prefixes, strict=True)]
    prefixes = [_under(prefix, context) for prefix, context in zip(prefixes, found, strict=True)]
    columns = {
        "chunk_id": ids,
        "prefix": prefixes,
        "lexical_prefix": [_under(prefix, context) for prefix, context in zip(lexical, found, strict=True)],
        "contextualized": under_prefixes(prefixes, texts),
        "level": levels,
        "quality": [context.quality if context else None for context in found],
        "issues": [_issues(context, reason) for context, reason in zip(found, reasons, strict=True)],
        "tokens_in": [context.tokens_in if context else 0 for context in found],
        "tokens_out": [context.tokens_out if context else 0 for context in found],
    }
    return pa.table(columns, schema=CONTEXTS.arrow)


def _level(context: WrittenContext | None, failure: str | None, prefix: str) -> str:
    if context is not None:
        return "llm"
    if failure is not None and failure.startswith(NOT_ASKED):
        return "skipped"
    return "metadata" if prefix else "none"


def _issues(context: WrittenContext | None, reason: str | None) -> list[str]:
    return list(context.issues) if context else [reason] if reason else []


def _under(prefix: str, context: WrittenContext | None) -> str:
    return "\n".join(part for part in (prefix, context.text if context else "") if part)


def contextualized(chunks: pa.Table, contexts: pa.Table) -> pa.Table:
    """Chunks with their prefixes, as rows of GENERATION_CHUNKS that have no vector and no shard yet.

    Args:
        chunks: rows of SELECTED_CHUNKS.
        contexts: rows of CONTEXTS for the same chunks, in the same order.
    """
    nothing = pa.array([""] * len(chunks), pa.string())
    whole = (
        chunks.append_column("prefix", contexts["prefix"])
        .append_column("lexical_prefix", contexts["lexical_prefix"])
        .append_column("vector_key", nothing)
        .append_column("shard", nothing)
    )
    return whole.select(GENERATION_CHUNKS.columns.names).cast(GENERATION_CHUNKS.arrow)


def with_vector_keys(chunks: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Rows of GENERATION_CHUNKS that name the vectors of their texts."""
    place = chunks.column_names.index("vector_key")
    return chunks.set_column(place, chunks.schema.field("vector_key"), pa.array(keys, pa.string()))
