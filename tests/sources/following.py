"""Sections and chunks that follow a table of pages from sync to sync, by the real steps.

Belongs here: bringing them up to date, and telling where two tables differ.
Does not belong here: where the pages come from.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa

from rag_assets.steps.chunks.chunking import ChunkSize
from rag_assets.steps.incremental import update_chunks, update_sections
from rag_serving.artifacts.schema import CHUNKS, MACRO_LEDGER, SECTIONS
from rag_serving.config.loading import Config
from rag_serving.models.embedding.factory import open_tokenizer
from rag_serving.models.protocols import Tokenizer


class Index:
    """Sections and chunks that follow the pages."""

    def __init__(self) -> None:
        self.sections, self.ledger, self.chunks = SECTIONS.empty(), MACRO_LEDGER.empty(), CHUNKS.empty()

    def follow(self, pages: pa.Table) -> Index:
        update = update_sections(pages, self.sections, self.ledger, 1_000_000)
        assert not update.failed
        self.sections, self.ledger = update.sections, update.ledger
        self.chunks = update_chunks(self.sections, pages, self.chunks, tokenizer(), ChunkSize.about(64, 16)).chunks
        return self


@cache
def tokenizer() -> Tokenizer:
    return open_tokenizer(Config().embedding)


def unlike(table: pa.Table, other: pa.Table) -> list[tuple[Any, ...]]:
    """Where two tables differ: chunk, column, and both values; an empty list where they are the same."""
    if len(table) != len(other):
        return [("rows", len(table), len(other))]
    pairs = zip(table.to_pylist(), other.to_pylist(), strict=True)
    return [
        (one["chunk_id"], name, one[name], two[name]) for one, two in pairs for name in one if one[name] != two[name]
    ]
