"""Passages of a book for one question: the closest to each other first, then in reading order.

Belongs here: the worth of a common section, document order. Does not belong here: retrieving passages (`search`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_serving.records.passages import Candidate, Chunk

POOL = 10
"""Candidates that are looked at, as the source document of book answers has it; five of them are shown."""
SAME_SECTION, SAME_CHAPTER = 1.0, 0.5
WEIGHT = 0.2
"""Worth of a passage whose neighbours in the book were all found, too, where the scores span from 0 to 1."""


def nearest_sections(candidates: Sequence[Candidate], count: int) -> list[Candidate]:
    """Return the `count` best of ranked candidates, each raised by the share of the others' scores in its chapter and
    section.

    A passage's worth is s + 0.2 · Σ (s' · nearness) / Σ s', over the other candidates, where s is its score scaled to
    [0, 1], and nearness 1 in the same section, ½ in the same chapter. Outside of books a page counts as a chapter.
    """
    scores = [candidate.score for candidate in candidates]
    low, span = min(scores, default=0.0), (max(scores, default=0.0) - min(scores, default=0.0)) or 1.0
    scaled = [(score - low) / span for score in scores]
    worth = []
    for place, candidate in enumerate(candidates):
        others = [(scaled[at], one.chunk) for at, one in enumerate(candidates) if at != place]
        near = sum(score * nearness(candidate.chunk, chunk) for score, chunk in others)
        total = sum(score for score, _ in others)
        worth.append(scaled[place] + (WEIGHT * near / total if total else 0.0))
    order = sorted(range(len(candidates)), key=lambda place: (-worth[place], place))
    return [candidates[place] for place in order[:count]]


def nearness(one: Chunk, other: Chunk) -> float:
    """Return the nearness of two passages: in one section, in one chapter, or neither."""
    if one.source != other.source:
        return 0.0
    if one.page_id == other.page_id:
        is_section = one.section == other.section if one.passage_id else one.section_id == other.section_id
        return SAME_SECTION if is_section else SAME_CHAPTER
    return SAME_CHAPTER if one.chapter and one.chapter == other.chapter else 0.0


def in_document_order(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return passages of books as one reads them, book by book in the order of their best passages; then those of no
    book, best first."""
    books = list(dict.fromkeys(one.chunk.source for one in candidates if one.chunk.page_order))

    def place(candidate: Candidate) -> tuple[int, int, int]:
        chunk = candidate.chunk
        if not chunk.page_order:
            return len(books), 0, 0
        return books.index(chunk.source), chunk.page_order, chunk.chunk_idx

    return sorted(candidates, key=place)
