"""What reading a file gives.

Belongs here: the body that is made of a file, and the error of one that has none. Does not belong here: any reading.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple


class FileError(Exception):
    """This file has no text that can be read; the message says why."""


class FileText(NamedTuple):
    """A body, the format that it is in, and how many pages the file has."""

    body: str
    body_format: Literal["text", "markdown", "storage", "html", "blocks"]
    page_count: int | None = None  # None: the file is not paged


PagesDone = Callable[[int, int], None]
"""Called with (page, pages) after each page of a paged file."""


class OcrWord(NamedTuple):
    """A word that OCR read: its box in points from the top left of the page, and its confidence, 0 to 100."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    confidence: int


class OcrPage(NamedTuple):
    """What OCR read of one page."""

    page: int  # from 1
    words: tuple[OcrWord, ...]
