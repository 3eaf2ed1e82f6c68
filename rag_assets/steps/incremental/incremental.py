"""Sections and chunks brought up to date: what did not change is kept, the rest is made again.

Belongs here: putting `reuse` together with `sections` and `chunking`.
Does not belong here: how a section or a chunk is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.steps.chunks.chunking import build_chunks
from rag_assets.steps.chunks.languages import Detect, with_languages
from rag_assets.steps.chunks.sizes import ChunkSize
from rag_assets.steps.incremental.reuse import (
    content_stamp,
    merged,
    page_stamp,
    renumbered,
    restamped,
    rows_of,
    split_unchanged,
)
from rag_assets.steps.sections.reading import BodyReader
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.models.protocols import Tokenizer

NOTHING_CUT: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class SectionsUpdate:
    """All sections of a source, and what it took."""

    sections: pa.Table
    ledger: pa.Table
    failed: Mapping[str, str]  # page id -> reason
    read: int  # pages whose body was read
    missed: tuple[str, ...] = ()  # pages that show one that is not among the source's own
    cut: Mapping[str, str] = field(default_factory=dict)  # page id -> why the rest of it is left out

    def macros(self, outcome: str) -> dict[str, int]:
        """Return how often each macro had this outcome, most first."""
        rows = self.ledger.filter(pc.equal(self.ledger["outcome"], outcome))
        counts = rows.group_by("macro").aggregate([("count", "sum")]).sort_by([("count_sum", "descending")])
        return dict(zip(counts["macro"].to_pylist(), counts["count_sum"].to_pylist(), strict=True))

    def outcomes(self) -> dict[str, int]:
        """Return how many macros had each outcome."""
        counts = self.ledger.group_by("outcome").aggregate([("count", "sum")])
        return dict(zip(counts["outcome"].to_pylist(), counts["count_sum"].to_pylist(), strict=True))


@dataclass(frozen=True)
class ChunksUpdate:
    """All chunks of a source, and what it took."""

    chunks: pa.Table
    read: int  # pages that were cut
    new: int  # chunks whose text the page did not have before


def update_sections(
    pages: pa.Table,
    previous: pa.Table,
    previous_ledger: pa.Table,
    max_page_bytes: int,
    listed: pa.Table | None = None,
    reader: BodyReader | None = None,
    cut_before: Mapping[str, str] = NOTHING_CUT,
) -> SectionsUpdate:
    """Return sections and ledger of the pages as they are now.

    Pages that show text of others are read each time: their hash is of what they show, never the page's own, so a
    change of the other page, of its readers, or of what is there to be found reaches them at once.

    Args:
        pages: rows of PAGES.
        previous: sections as they were, made with the same settings; empty: everything is made again.
        previous_ledger: the ledger of the same build.
        max_page_bytes: a larger page is recorded as failed.
        listed: see `build_sections`.
        reader: see `build_sections`.
        cut_before: `SectionsUpdate.cut` of the same build as `previous`.
    """
    reuse = split_unchanged(pages, previous, content_stamp)
    made = build_sections(reuse.changed, max_page_bytes, (pages,), listed, reader)
    kept = {page_id: cut_before[page_id] for page_id in set(reuse.kept["page_id"].to_pylist()) & cut_before.keys()}
    return SectionsUpdate(
        sections=merged(renumbered(reuse.kept, pages), made.sections, "order"),
        ledger=merged(renumbered(rows_of(previous_ledger, reuse.kept), pages), made.ledger, "macro", "outcome"),
        failed=dict(made.failures),
        read=len(reuse.changed),
        missed=tuple(made.missed),
        cut=dict(sorted({**kept, **made.cut}.items())),
    )


def update_chunks(
    sections: pa.Table,
    pages: pa.Table,
    previous: pa.Table,
    tokenizer: Tokenizer,
    size: ChunkSize,
    detect: Detect = lambda _: None,
) -> ChunksUpdate:
    """Return chunks of the pages as they are now.

    Args:
        sections: rows of SECTIONS.
        pages: rows of PAGES.
        previous: chunks as they were, made with the same settings; empty: everything is made again.
        tokenizer: see `build_chunks`.
        size: see `build_chunks`.
        detect: tells the language of a page whose source does not say it.
    """
    reuse = split_unchanged(restamped(pages, sections), previous, page_stamp)
    cut = build_chunks(rows_of(sections, reuse.changed), reuse.changed, tokenizer, size)
    made = with_languages(cut, detect)
    kept = rows_of(reuse.kept, sections)
    new = len(_texts(made) - _texts(previous))
    return ChunksUpdate(chunks=merged(kept, made, "chunk_idx"), read=len(reuse.changed), new=new)


def _texts(chunks: pa.Table) -> set[tuple[str, str]]:
    return set(zip(chunks["page_id"].to_pylist(), chunks["text_hash"].to_pylist(), strict=True))
