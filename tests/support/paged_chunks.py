"""Blocks of a paged file as the sections and chunks that ingest makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rag_assets.steps.chunks.chunking import ChunkSize, build_chunks
from rag_assets.steps.formats.blocks import Block, Content, blocks_body
from rag_assets.steps.sections.splitting import sections_of_page
from rag_serving.artifacts.schema import PAGES, SECTIONS
from support.shown_pages import Words


def page_row(blocks: Sequence[Block], page_id: str = "7", title: str = "manual.pdf") -> dict[str, Any]:
    """The row of PAGES of a file with these blocks."""
    row: dict[str, Any] = dict.fromkeys(PAGES.columns.names)
    row |= {"page_id": page_id, "version": 3, "title": title, "url": f"https://wiki.example/pages/{page_id}"}
    row |= {"body": blocks_body(Content([*blocks], Counter())), "body_format": "blocks", "anchor_flavor": "html"}
    return row | {"content_hash": "h", "space": "ENG", "readers": "everyone", "labels": [], "ancestors": []}


def sections_of(page: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of SECTIONS of a page."""
    return sections_of_page(page).sections


def chunks_of_page(page: dict[str, Any], size: int = 250, stride: int = 3) -> list[dict[str, Any]]:
    """The rows of CHUNKS of a page."""
    sections, lengths = SECTIONS.table(sections_of(page)), ChunkSize(size, size * 12 // 25, size * 32 // 25, stride)
    return build_chunks(sections, PAGES.table([page]), Words(), lengths).to_pylist()
