"""Text that a page shows of a page of another source: taken in when a tenant's sources come together.

Belongs here: which chunks are made again with all sources at hand, and which are left as they are.
Does not belong here: how a reference is followed and who may read the result (`transclusion`).

A source is synced by itself and cannot see the others. So its pages that show a page it does not have are read again
whenever the tenant is published, from the pages as they then are: nothing is kept that could become stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.steps.chunks.chunking import ChunkSize, build_chunks
from rag_assets.steps.sections.reading import BodyReader
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.models.protocols import Tokenizer


class IncludingSource(NamedTuple):
    """A source with pages that show pages which it does not have."""

    chunks: pa.Table  # CHUNKS, as the source made them
    pages: pa.Table  # PAGES, those that the chunks were made of
    missed: list[str]  # ids of the pages in question
    listed: pa.Table | None = None  # see `build_sections`


class Across(NamedTuple):
    """A source's chunks with text of the other sources, and how many macros that resolved."""

    chunks: pa.Table
    resolved: int


def with_other_sources(
    source: IncludingSource,
    others: Mapping[str, pa.Table],
    tokenizer: Tokenizer,
    size: ChunkSize,
    max_page_bytes: int,
    reader: BodyReader | None = None,
) -> Across:
    """Return the chunks of a source, those pages made again that show a page of another source.

    Args:
        source: whose pages ask.
        others: PAGES of the tenant's other sources by name.
        tokenizer: see `build_chunks`.
        size: see `build_chunks`.
        max_page_bytes: a larger page is not read.
        reader: see `build_sections`.
    """
    asking = source.pages.filter(pc.is_in(source.pages["page_id"], value_set=pa.array(source.missed, pa.string())))
    alone = build_sections(asking, max_page_bytes, [source.pages], source.listed, reader)
    result = build_sections(asking, max_page_bytes, [source.pages, *others.values()], source.listed, reader)
    resolved = _resolved(result.ledger) - _resolved(alone.ledger)
    if result.sections.equals(alone.sections):
        return Across(source.chunks, resolved)
    made = build_chunks(result.sections, asking, tokenizer, size)
    ids = pc.unique(asking["page_id"])
    kept = source.chunks.filter(pc.invert(pc.is_in(source.chunks["page_id"], value_set=ids)))
    return Across(pa.concat_tables([kept, made]), resolved)


def _resolved(ledger: pa.Table) -> int:
    return int(pc.sum(ledger.filter(pc.equal(ledger["outcome"], "resolved"))["count"]).as_py() or 0)
