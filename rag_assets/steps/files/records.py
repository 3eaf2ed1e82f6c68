"""What reading a file gives.

Belongs here: the body that is made of a file, the error of one that has none, what to install where a package is
missing. Does not belong here: any reading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

MODULES: Mapping[str, str] = MappingProxyType({"pdf": "pypdfium2"})
"""The module without which no file of a kind can be read, where it comes with an extra."""
_EXTRAS = MappingProxyType({"pypdfium2": "pdf"})


def needs(error: ImportError) -> str:
    """Return what to install where a kind of file cannot be read for want of a package."""
    module = (error.name or str(error)).partition(".")[0]
    what = f"install citelock[{_EXTRAS[module]}]" if module in _EXTRAS else "install it"
    return f"files of this kind are read with {module}; {what} on the machine that builds"


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
