"""The pages of a text from a paged file, and the confidence of OCR.

Belongs here: the positions in a text where a page, or another confidence, begins. Does not belong here: reading files,
pictures of pages (`rag_serving.rendering`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class PageMark(NamedTuple):
    """The start of a page's text, up to the next mark."""

    start: int  # offset in the text
    page: int  # from 1; 0: not known
    confidence: int | None = None  # of what OCR read, 0 to 100; None: no OCR


PageMarks = tuple[PageMark, ...]
"""In order, the first at the beginning of the text; none where the file has no pages."""


def marks_of(blocks: Iterable[Mapping[str, Any]]) -> PageMarks:
    """Return the marks of a section with blocks of SECTIONS; none if no block is on a page or read by OCR. The text
    between two blocks is on the page of the first."""
    return _told([*_marks(blocks)])


def within(marks: PageMarks, start: int, end: int) -> PageMarks:
    """Return the marks of `text[start:end]`, counted from its start."""
    if not marks:
        return ()
    first = max(bisect_right(marks, start, key=_start) - 1, 0)
    inside = [mark for mark in marks[first:] if mark.start < max(end, start + 1)]
    return _told([mark._replace(start=max(mark.start - start, 0)) for mark in inside])


def page_at(marks: PageMarks, position: int) -> int | None:
    """Return a character's page, from 1; None if unknown."""
    place = bisect_right(marks, position, key=_start) - 1
    return (marks[place].page or None) if place >= 0 else None


def pages_of(marks: PageMarks, start: int, end: int) -> tuple[int, ...]:
    """Return the pages of `text[start:end]`, in order and each once."""
    return tuple(dict.fromkeys(mark.page for mark in within(marks, start, end) if mark.page))


def confidence_of(marks: PageMarks, start: int, end: int) -> int | None:
    """Return the least confidence that OCR read some of `text[start:end]` with, 0 to 100; None: OCR read none of it."""
    read = [mark.confidence for mark in within(marks, start, end) if mark.confidence is not None]
    return min(read, default=None)


def page_anchor(page: int) -> str:
    """Return the anchor of a page that PDF viewers know (RFC 8118)."""
    return f"page={page}"


def encoded(marks: PageMarks) -> list[list[int]]:
    """Return the compact form: arrays, without defaults."""
    return [[start, page, *([] if sure is None else [sure])] for start, page, sure in marks]


def decoded(rows: Sequence[Sequence[int]]) -> PageMarks:
    """Return the marks that `encoded` wrote."""
    return tuple(PageMark(*row) for row in rows)


def _marks(blocks: Iterable[Mapping[str, Any]]) -> Iterator[PageMark]:
    for block in blocks:
        page, confidence = block.get("page") or 0, block.get("confidence")
        yield PageMark(block["start"], page, confidence)
        for at, later in block.get("breaks") or ():
            yield PageMark(at, later, confidence)


def _told(marks: Sequence[PageMark]) -> PageMarks:
    """Return the marks that say something else than the one before, the first from the beginning of the text."""
    if not any(mark.page or mark.confidence is not None for mark in marks):
        return ()
    told: list[PageMark] = []
    for mark in marks:
        if told and told[-1].start >= mark.start:
            told.pop()
        if not told or told[-1][1:] != mark[1:]:
            told.append(mark if told else mark._replace(start=0))
    return tuple(told)


def _start(mark: PageMark) -> int:
    return mark.start
