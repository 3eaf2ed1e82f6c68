"""The result of reading a file: its body or why it has none; the encoding of bytes, cutting a text at the budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Literal, NamedTuple

from rag_assets.steps.formats.blocks import Budget, first_chars, noted

MODULES: Mapping[str, str] = MappingProxyType({"pdf": "pypdfium2"})
"""The module without which no file of a kind can be read, where it comes with an extra."""
_EXTRAS = MappingProxyType({"pypdfium2": "pdf"})


def needs(error: ImportError) -> str:
    """Return the package to install for a kind of file."""
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
    """The OCR text of one page."""

    page: int  # from 1
    words: tuple[OcrWord, ...]


_SEVEN_BITS = "iso-2022"
"""Encodings whose bytes are all valid UTF-8, so that only what is declared tells them."""
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def decoded(content: bytes, declared: str | None = None) -> str:
    """Return the text of bytes: UTF-8, UTF-16 if marked so, else as declared or Windows-1252 (the encoding of older
    files).

    UTF-8 comes before a declared encoding: text in another encoding is hardly ever valid UTF-8, and pages lie.
    """
    if content.startswith(_UTF16):
        return content.decode("utf-16", "replace")
    if b"\x00" in content:
        raise FileError("it is not text, whatever its name says")
    tries = [("utf-8-sig", "strict"), (declared or "", "replace")]
    if b"\x1b" in content and (declared or "").lower().startswith(_SEVEN_BITS):
        tries.reverse()
    for encoding, errors in tries:
        with suppress(LookupError, UnicodeError):
            return content.decode(encoding, errors)
    return content.decode("cp1252", "replace")


def shortened(text: str, budget: Budget) -> str:
    """Return a text up to the budget, with the reason after it where it was cut."""
    return noted(*first_chars(text, budget))
