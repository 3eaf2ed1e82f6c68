"""A page as it is read: its sections in order, with the passages that a reader may see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby
from typing import Any

from rag_serving.deadline import check
from rag_serving.indexes.originals import Original
from rag_serving.indexes.page_contents import DroppedPassage
from rag_serving.indexes.view import ReaderView
from rag_serving.records.answers import Answer, Citation
from rag_serving.records.passages import Chunk
from rag_serving.text.page_blocks import PageBlock, page_blocks

MOST_AROUND = 400  # characters of the text before and after a passage
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


def page_facts(of: Chunk | DroppedPassage) -> dict[str, Any]:
    """Return the facts about a passage's page; of a dropped passage's it is not known when it was changed."""
    return {
        **{name: getattr(of, name) for name in ("page_id", "title", "space", "source", "kind", "version")},
        "url": page_url(of.url),
        "updated_at": of.updated_at.isoformat() if isinstance(of, Chunk) and of.updated_at else None,
        "labels": list(of.labels),
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


DUPLICATE = "near-identical passage shown at"
_BETWEEN_HEADINGS = " → "


@dataclass(frozen=True)
class Duplicate:
    """A passage that was dropped, and the one that is kept for it."""

    dropped: DroppedPassage
    kept: Chunk

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape of a passage without text."""
        kept = self.kept
        return {
            "chunk_id": self.dropped.chunk_id,
            "text": "",
            "content_type": kept.content_type,
            "boilerplate": kept.is_boilerplate,
            "blocks": [],
            "pages": [],
            "missing": {
                "text": DUPLICATE,
                "title": _BETWEEN_HEADINGS.join(kept.heading_path) or kept.title,
                "url": kept.url,
                "page_id": kept.page_id,
                "chunk_id": kept.chunk_id,
            },
        }


@dataclass(frozen=True)
class Page:
    """The visible part of a page: at least one passage."""

    passages: tuple[Chunk | Duplicate, ...]  # in order
    original: Original | None
    generation: str

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape. A long page stops with its request's deadline (StoppedError)."""
        first = next((one for one in self.passages if isinstance(one, Chunk)), self.passages[0])
        return {
            **page_facts(first if isinstance(first, Chunk) else first.dropped),
            "media": media_of(self.original),
            "page_count": self.original.page_count if self.original else None,
            "generation": self.generation,
            "has_newer": False,
            "sections": list(_sections(self.passages)),
        }


def read_page(view: ReaderView, page_id: str) -> Page | None:
    """Return a page; None if the reader may see nothing of one of that id."""
    chunks, dropped = view.chunks(view.page_rows(page_id).tolist()), view.duplicates_of_page(page_id)
    if not chunks and not dropped:
        return None
    kept = view.chunks([one.kept for one in dropped])
    duplicates = [Duplicate(one, chunk) for one, chunk in zip(dropped, kept, strict=True)]
    return Page(tuple(merge(chunks, duplicates, key=_position)), view.original(page_id), view.id)


def _position(passage: Chunk | Duplicate) -> int:
    return passage.chunk_idx if isinstance(passage, Chunk) else passage.dropped.position


def _sections(passages: Iterable[Chunk | Duplicate]) -> Iterator[dict[str, Any]]:
    for _, group in groupby(passages, key=_section):
        members = list(group)
        first = next((one for one in members if isinstance(one, Chunk)), members[0])
        if isinstance(first, Chunk):
            path, url, anchor = list(first.heading_path), first.url, first.anchor
        else:
            path, url = first.dropped.heading.split(_BETWEEN_HEADINGS), first.dropped.url
            anchor = url.partition("#")[2]
        yield {
            "anchor": anchor,
            "url": url,
            "heading_path": path,
            "heading": path[-1] if path else "",
            "level": max(len(path) - 1, 0),
            "chunks": [_payload(one) for one in members],
        }


def _payload(passage: Chunk | Duplicate) -> dict[str, Any]:
    check()
    return chunk_payload(passage) if isinstance(passage, Chunk) else passage.payload()


def _section(passage: Chunk | Duplicate) -> tuple[str, str]:
    """Return the common key of a section's passages; their addresses differ if it spans pages. Of a paged file the
    address is that of the whole."""
    of = passage if isinstance(passage, Chunk) else passage.dropped
    page, _, anchor = of.url.partition("#")
    return of.section_id, page if anchor.startswith("page=") else of.url
