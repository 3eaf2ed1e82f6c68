"""Places beside a passage: other occurrences of its text, rectangles on the pages of a file.

Belongs here: plain immutable records, their JSON shapes, a place in words. Does not belong here: finding them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
