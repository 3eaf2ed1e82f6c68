"""Passages: a citable chunk, a candidate for an answer, and the lock that freezes the chosen ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rag_serving.text.structure import Structure, confidence_of, decode, page_at, structure_of

Box = tuple[float, float, float, float]
"""A rectangle in points from the top left of a page as it is shown: left, top, right, bottom."""


@dataclass(frozen=True)
class Location:
    """Another occurrence of a passage's text, which the asker may read."""

    title: str  # the heading path
    url: str  # with #anchor
    space: str


@dataclass(frozen=True)
class PagePart:
    """The part of a quote on one page of a paged document."""

    page: int  # from 1
    page_label: str | None = None  # the document's own name of the page, such as iv; None: not looked up, or none
    boxes: tuple[Box, ...] | None = None  # a rectangle for each line; empty: not found there; None: not looked up

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return {"page": self.page, "page_label": self.page_label, "boxes": boxes_payload(self.boxes)}


@dataclass(frozen=True)
class BookPlace:
    """A passage's place in a book."""

    passage_id: str  # such as ch3-sec2-p45
    chapter: str | None  # such as `Chapter 3: Common Concepts`
    section: str | None  # such as `3.2 Data Types`; None: the chapter's own page
    page: int | None  # of the file it was printed from; else the place of its web page in reading order; from 1
    source_file: str | None

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return dict(vars(self))


def boxes_payload(boxes: Sequence[Box] | None) -> list[list[float]] | None:
    """Return the JSON shape of rectangles."""
    return None if boxes is None else [list(box) for box in boxes]


def page_told(page: int, label: str | None) -> str:
    """Return a page in words: `page 12`, or `page 12 (iv)` where the document calls it otherwise."""
    return f"page {page} ({label})" if label and label != str(page) else f"page {page}"


def ocr_told(confidence: int) -> str:
    """Return in words that OCR read a quote."""
    return f"OCR, {confidence} %"


@dataclass(frozen=True)
class Chunk:
    """A citable passage of one page version, as a generation stores it."""

    chunk_id: str
    page_id: str
    version: int
    chunk_idx: int
    space: str
    title: str
    heading_path: tuple[str, ...]
    anchor: str
    url: str
    text: str
    start: int
    end: int
    content_type: str
    context_before: str = ""
    context_after: str = ""
    labels: tuple[str, ...] = ()
    is_boilerplate: bool = False
    text_hash: str = ""
    updated_at: datetime | None = None
    structure: str = ""  # of the text, as ingest knew it; empty where no ingest has read it
    section_id: str = ""
    source: str = ""
    kind: str = "page"  # page, comments, attachment or document
    passage_id: str | None = None  # place in its book, such as ch3-sec2-p45; None: no book
    chapter: str | None = None  # number and title of its chapter
    section: str | None = None  # number and title of its page below the chapter's own
    page_order: int | None = None  # place of its page in the source's reading order, from 1; None: it has none
    source_file: str | None = None  # that its page was read from, below the source's folder
    slug: str | None = None  # short name of its document
    category: str | None = None  # of its document
    also_at: tuple[Location, ...] = ()

    @property
    def led_in(self) -> str:
        """The text behind the header of its table and the introduction of its list, with which answers may show it."""
        return "\n".join((self.parts.table_header, self.parts.introduction, self.text))

    @property
    def page_number(self) -> int | None:
        """The page of a paged document that the text begins on, from 1."""
        return self.page_at(0)

    def page_at(self, position: int) -> int | None:
        """Return a character's page in a paged document, from 1; without marks of the ingest, by anchor (RFC 8118)."""
        if marks := self.parts.marks:
            return page_at(marks, position)
        number = self.anchor.removeprefix("page=")
        return int(number) if number != self.anchor and number.isdecimal() and len(number) < 10 else None

    def ocr_confidence(self, start: int, end: int) -> int | None:
        """Return the least confidence that OCR read some of `text[start:end]` with; None: OCR read none of it."""
        return confidence_of(self.parts.marks, start, end)

    @property
    def in_book(self) -> BookPlace | None:
        """The passage's place in its book; None outside of books."""
        if self.passage_id is None:
            return None
        page = self.page_number or self.page_order
        return BookPlace(self.passage_id, self.chapter, self.section, page, self.source_file)

    @property
    def parts(self) -> Structure:
        """The units of the text and their parents."""
        return decode(self.structure) if self.structure else structure_of(self.text)

    @property
    def headings(self) -> str:
        """The page's title and the passage's headings, one per line."""
        return "\n".join(dict.fromkeys((self.title, *self.heading_path)))


@dataclass(frozen=True)
class Candidate:
    """A chunk that may become a passage, with what each stage said of it."""

    chunk: Chunk
    score: float
    scores: Mapping[str, float] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)  # in each index that returned it, from 1
    dropped_by: str | None = None  # the stage that kept it from being a passage

    def explanation(self) -> dict[str, Any]:
        """Return the JSON shape of a candidate of an explained search."""
        return {
            "chunk_id": self.chunk.chunk_id,
            "scores": dict(self.scores),
            "ranks": dict(self.ranks),
            "dropped_by": self.dropped_by,
        }

    def result(self) -> dict[str, Any]:
        """Return the JSON shape of one search result."""
        chunk = self.chunk
        names = ("chunk_id", "page_id", "space", "title", "anchor", "url", "text")
        return {
            **{name: getattr(chunk, name) for name in names},
            "page_version": chunk.version,
            "heading_path": list(chunk.heading_path),
            "score": self.score,
            "scores": dict(self.scores),
            "ranks": dict(self.ranks),
            "also_at": [vars(place) for place in chunk.also_at],
            **({"book": chunk.in_book.payload()} if chunk.in_book else {}),
        }


@dataclass(frozen=True)
class Lock:
    """The frozen passages `[1..N]` of one answer; nothing outside can be cited."""

    passages: tuple[Candidate, ...]

    def __len__(self) -> int:
        return len(self.passages)

    def passage(self, index: int) -> Candidate | None:
        """Return the passage cited as `[index]`, counted from 1, or None outside the lock."""
        return self.passages[index - 1] if 1 <= index <= len(self.passages) else None

    @property
    def chunk_ids(self) -> tuple[str, ...]:
        return tuple(candidate.chunk.chunk_id for candidate in self.passages)
