"""The prefix that tells a chunk where it comes from.

Belongs here: what stands above a chunk's text for each index, and at which level it was made.
Does not belong here: embedding, and anything a reader sees: a prefix is never shown and never quotable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

from rag_serving.prefix import metadata_prefix
from rag_serving.schema import CONTEXTS, GENERATION_CHUNKS
from rag_serving.structure import lexical_prefixes

VERSION = 2
"""Raised when the same chunk would get another prefix."""

Level = Literal["metadata", "none"]


def build_contexts(chunks: pa.Table, level: Level) -> pa.Table:
    """Rows of CONTEXTS, one for each chunk, in the same order."""
    ids = chunks["chunk_id"].to_pylist()
    prefixes = lexical = [""] * len(ids)
    if level == "metadata":
        places = zip(chunks["title"].to_pylist(), chunks["heading_path"].to_pylist(), strict=True)
        prefixes, lexical = [metadata_prefix(title, path or ()) for title, path in places], lexical_prefixes(chunks)
    columns = {"chunk_id": ids, "prefix": prefixes, "lexical_prefix": lexical, "level": [level] * len(ids)}
    return pa.table(columns, schema=CONTEXTS.arrow)


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
