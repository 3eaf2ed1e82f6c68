"""The prefix that tells a chunk where it comes from.

Belongs here: what stands above a chunk's text for each index, and at which level it was made.
Does not belong here: embedding, and anything a reader sees: a prefix is never shown and never quotable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import pyarrow as pa

from rag_assets.steps.contexts.context_prefix import lexical_prefixes, metadata_prefixes, under_prefixes
from rag_assets.steps.contexts.prompt import document_type
from rag_serving.artifacts.schema import CONTEXTS, GENERATION_CHUNKS
from rag_serving.models.protocols import Tokenizer

VERSION = 5
"""Raised when the same chunk would get another prefix."""

Template = Literal["metadata", "none"]
CountTokens = Callable[[Sequence[str]], Sequence[int]]

COMPONENTS = ("length_score", "relevance_score", "coherence_score", "specificity_score")
"""Columns of CONTEXTS: the parts of a context's quality."""

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
    provider: str = ""
    model: str = ""
    made_at: float = 0.0  # seconds since the epoch
    scores: tuple[float, float, float, float] | None = None  # as COMPONENTS names them; None: not kept at the time


def build_contexts(
    chunks: pa.Table,
    template: Template,
    written: Mapping[str, WrittenContext] | None = None,
    failures: Mapping[str, str] | None = None,
    count_tokens: CountTokens | None = None,
) -> pa.Table:
    """Return rows of CONTEXTS, one for each chunk, in the same order.

    Args:
        chunks: rows of SELECTED_CHUNKS.
        template: what every chunk gets, whether or not a model wrote about it.
        written: by chunk id what a model wrote; it stands under the template's line.
        failures: by chunk id why a model did not.
        count_tokens: counts texts as the embedding model does; without it token counts are those of the bare texts.
    """
    written, failures = written or {}, failures or {}
    ids, texts = chunks["chunk_id"].to_pylist(), chunks["text"].to_pylist()
    prefixes = lexical = [""] * len(ids)
    if template == "metadata":
        prefixes, lexical = metadata_prefixes(chunks), lexical_prefixes(chunks)
    contexts = [written.get(chunk_id) for chunk_id in ids]
    reasons = [failures.get(chunk_id) for chunk_id in ids]
    levels = [_level(*each) for each in zip(contexts, reasons, prefixes, strict=True)]
    prefixes = [_under(prefix, context) for prefix, context in zip(prefixes, contexts, strict=True)]
    columns = {
        "chunk_id": ids,
        "prefix": prefixes,
        "lexical_prefix": [_under(prefix, context) for prefix, context in zip(lexical, contexts, strict=True)],
        "contextualized": under_prefixes(prefixes, texts),
        "level": levels,
        "quality": [context.quality if context else None for context in contexts],
        "issues": [_issues(context, reason) for context, reason in zip(contexts, reasons, strict=True)],
        "tokens_in": [context.tokens_in if context else 0 for context in contexts],
        "tokens_out": [context.tokens_out if context else 0 for context in contexts],
        "document_type": [document_type(title or "") for title in chunks["title"].to_pylist()],
        "generation_timestamp": [_moment(context.made_at) if context else None for context in contexts],
        "llm_provider": [context.provider if context else None for context in contexts],
        "llm_model": [context.model if context else None for context in contexts],
        "token_count": _token_counts(chunks["token_count"].to_pylist(), prefixes, count_tokens),
        **_components(contexts),
    }
    return pa.table(columns, schema=CONTEXTS.arrow)


def token_counter(tokenizer: Tokenizer) -> CountTokens:
    """Return a function that counts the tokens of each of many texts."""
    return lambda texts: [len(offsets) for offsets in tokenizer.offsets(texts)]


def _components(contexts: Sequence[WrittenContext | None]) -> dict[str, list[float | None]]:
    """Return the parts of each context's quality by the names of their columns; null where no model wrote."""
    scores = [context.scores if context and context.scores else (None,) * len(COMPONENTS) for context in contexts]
    return {name: [parts[place] for parts in scores] for place, name in enumerate(COMPONENTS)}


def _token_counts(bare: Sequence[int | None], prefixes: Sequence[str], count: CountTokens | None) -> list[int | None]:
    """Return the tokens of each prefix and its text, counted apart; a prefix that many chunks have is counted once."""
    different = [*dict.fromkeys(prefix for prefix in prefixes if prefix)]
    tokens = dict(zip(different, count(different) if count else [0] * len(different), strict=True))
    return [own if own is None else own + tokens.get(prefix, 0) for own, prefix in zip(bare, prefixes, strict=True)]


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


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
    """Return chunks with their prefixes, as rows of GENERATION_CHUNKS: each with one vector that has no name yet, and
    without a shard.

    Args:
        chunks: rows of SELECTED_CHUNKS.
        contexts: rows of CONTEXTS for the same chunks, in the same order.
    """
    nothing, unnamed = pa.array([""] * len(chunks), pa.string()), pa.array([[""]] * len(chunks), pa.list_(pa.string()))
    whole = (
        chunks.append_column("prefix", contexts["prefix"])
        .append_column("lexical_prefix", contexts["lexical_prefix"])
        .append_column("vector_keys", unnamed)
        .append_column("shard", nothing)
    )
    return whole.select(GENERATION_CHUNKS.columns.names).cast(GENERATION_CHUNKS.arrow)


def with_vector_keys(chunks: pa.Table, keys: Sequence[Sequence[str]]) -> pa.Table:
    """Return rows of GENERATION_CHUNKS that name the vectors of their texts."""
    place = chunks.column_names.index("vector_keys")
    field = chunks.schema.field("vector_keys")
    return chunks.set_column(place, field, pa.array(keys, field.type))
