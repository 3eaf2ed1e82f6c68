"""A passage for reading: its text in blocks, its context, its other occurrences.

Belongs here: one passage of a page. Does not belong here: the page (`page`), HTTP, access (`ReaderView`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rag_serving.indexes.originals import Original
from rag_serving.indexes.protocols import ReaderView
from rag_serving.records.answers import Answer, Citation
from rag_serving.records.passages import Chunk
from rag_serving.text.page_blocks import PageBlock, page_blocks

MOST_AROUND = 400
"""Characters of the text before and after a passage."""
PDF = "application/pdf"


@dataclass(frozen=True)
class ReadPassage:
    """A passage that a reader may see."""

    chunk: Chunk
    original: Original | None  # that its page was read from

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        chunk = self.chunk
        return {
            "chunk": chunk_payload(chunk),
            "page": {**page_facts(chunk), "media": media_of(self.original)},
            "heading_path": list(chunk.heading_path),
            "anchor": chunk.anchor,
            "url": chunk.url,
            "page_number": page_number(chunk, self.original),
            "before": chunk.context_before[-MOST_AROUND:],
            "after": chunk.context_after[:MOST_AROUND],
            "also_at": [vars(place) for place in chunk.also_at],
        }


def read_passage(view: ReaderView, chunk_id: str) -> ReadPassage | None:
    """Return a passage; None if the reader may see none of that id."""
    row = view.row_of(chunk_id)
    if row is None:
        return None
    (chunk,) = view.chunks([row])
    return ReadPassage(chunk, view.original(chunk.page_id))


def numbered(answer: Answer, view: ReaderView) -> Answer:
    """Return the answer with page 1 in citations of one-page documents, which have no page anchors."""

    def is_single(citation: Citation) -> bool:
        original = view.original(citation.page_id) if citation.page is None else None
        return original is not None and original.page_count == 1

    cited = tuple(replace(one, page=1) if is_single(one) else one for one in answer.citations)
    return replace(answer, citations=cited)


def chunk_payload(chunk: Chunk) -> dict[str, Any]:
    """Return the JSON shape of a passage's text; all ranges in it are offsets into `text`."""
    return {
        "chunk_id": chunk.chunk_id,
        "text": chunk.text,
        "content_type": chunk.content_type,
        "boilerplate": chunk.is_boilerplate,
        "blocks": [_block(chunk, block) for block in page_blocks(chunk.text, chunk.parts)],
        "pages": [[mark.start, mark.page] for mark in chunk.parts.marks if mark.page],
        "missing": None,
    }


def _block(chunk: Chunk, block: PageBlock) -> dict[str, Any]:
    """Return the JSON shape of a block, with its first page and OCR's confidence in a paged document."""
    if not chunk.parts.marks:
        return block.payload()
    read = chunk.ocr_confidence(block.start, block.end)
    return {**block.payload(), "page": chunk.page_at(block.start), "ocr_confidence": read}


def page_facts(chunk: Chunk) -> dict[str, Any]:
    """Return the facts about a passage's page."""
    return {
        "page_id": chunk.page_id,
        "title": chunk.title,
        "url": page_url(chunk.url),
        "space": chunk.space,
        "source": chunk.source,
        "kind": chunk.kind,
        "version": chunk.version,
        "updated_at": chunk.updated_at.isoformat() if chunk.updated_at else None,
        "labels": list(chunk.labels),
    }


def page_url(url: str) -> str:
    """Return the address of a page without the anchor of a passage."""
    return url.partition("#")[0]


def page_number(chunk: Chunk, original: Original | None) -> int | None:
    """Return a passage's page in its document, from 1; None if the document has no pages."""
    return chunk.page_number or (1 if original and original.page_count == 1 else None)


def media_of(original: Original | None) -> str:
    """Return `pdf` where pages can be shown as pictures, else `text`."""
    return "pdf" if original and original.media_type == PDF else "text"
