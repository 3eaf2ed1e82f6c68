"""A page as it is read: its sections in order, with the passages that a reader may see.

Belongs here: putting a page together again from its passages, and from those that were dropped as near-duplicates.
Does not belong here: one passage (`passage`), HTTP, who may read what (`ReaderView`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from typing import Any

from rag_serving.deadline import check
from rag_serving.indexes.originals import Original
from rag_serving.indexes.page_contents import DroppedPassage
from rag_serving.indexes.protocols import ReaderView
from rag_serving.reading.passage import chunk_payload, media_of, page_facts, page_url
from rag_serving.records.passages import Chunk

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
        first = next((one for one in self.passages if isinstance(one, Chunk)), None)
        facts = page_facts(first) if first else _facts_of_dropped(self.passages[0])
        return {
            **facts,
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
        path, url = _place(first)
        yield {
            "anchor": first.anchor if isinstance(first, Chunk) else url.partition("#")[2],
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
    """Return the common key of a section's passages; their addresses differ if it spans pages."""
    if isinstance(passage, Chunk):
        return passage.section_id, _beginning(passage.url)
    return passage.dropped.section_id, _beginning(passage.dropped.url)


def _beginning(url: str) -> str:
    """Return the address of a heading; of a paged file that of the whole."""
    page, _, anchor = url.partition("#")
    return page if anchor.startswith("page=") else url


def _place(passage: Chunk | Duplicate) -> tuple[list[str], str]:
    """Return heading path and address."""
    if isinstance(passage, Chunk):
        return list(passage.heading_path), passage.url
    return passage.dropped.heading.split(_BETWEEN_HEADINGS), passage.dropped.url


def _facts_of_dropped(passage: Chunk | Duplicate) -> dict[str, Any]:
    """Return the facts about a page without indexed passages."""
    if isinstance(passage, Chunk):
        return page_facts(passage)
    dropped = passage.dropped
    return {
        "page_id": dropped.page_id,
        "title": dropped.title,
        "url": page_url(dropped.url),
        "space": dropped.space,
        "source": dropped.source,
        "kind": dropped.kind,
        "version": dropped.version,
        "updated_at": None,
        "labels": list(dropped.labels),
    }
