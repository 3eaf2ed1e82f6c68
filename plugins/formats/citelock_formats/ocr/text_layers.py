"""Which pages of a PDF have no text layer that can be used.

Belongs here: the decision, from the characters and pictures of a page. Pure; called in a process with limits.
Does not belong here: reading the text of a page (`rag_assets.steps.files`), recognizing it (`engine`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from citelock_formats.ocr.records import ScannedPage, Why
from rag_assets.steps.files.pdf.page_objects import shown_objects

ENOUGH_LETTERS = 150
"""Letters and digits; a page with more has a text layer, whatever pictures lie behind it."""
_STRAY = 10  # letters that say nothing: a page number, a stamp
_WHOLE_PAGE, _SOME = 0.5, 0.1  # shares of the page that pictures cover: with few letters, with hardly any
_BROKEN = 0.3  # share of signs without meaning
_FEWEST_SIGNS = 20
_OUTLINES = 300  # paths; so many without a letter are letters
_MOST_OBJECTS = 50_000
_GRID = 32  # a page is looked at in so many rows and columns
_PLAIN = frozenset("\t\r\n\x02\ufffe")  # PDFium writes the last two for hyphens


class _Signs(NamedTuple):
    letters: int
    unreadable: int
    total: int


def pages_without_text(document: Any, numbers: Sequence[int]) -> Iterator[ScannedPage]:
    """Yield those of the pages [numbers from 1] that need OCR; an empty page does not."""
    for number in numbers:
        page = document[number - 1]
        try:
            if why := _why(page):
                yield ScannedPage(number, why)
        finally:
            page.close()


def _why(page: Any) -> Why | None:
    layer = page.get_textpage()
    try:
        signs = _signs(layer.get_text_range())
    finally:
        layer.close()
    if signs.total >= _FEWEST_SIGNS and signs.unreadable > _BROKEN * signs.total:
        return "broken"
    if signs.letters >= ENOUGH_LETTERS:
        return None
    covered, paths = _drawn(page)
    if covered >= _WHOLE_PAGE or (signs.letters < _STRAY and covered >= _SOME):
        return "scan"
    return "outlines" if signs.letters < _STRAY and paths >= _OUTLINES else None


def _signs(text: str) -> _Signs:
    letters = unreadable = total = 0
    for sign in text:
        if sign.isspace() or sign in _PLAIN:
            continue
        total += 1
        if sign.isalnum():
            letters += 1
        elif sign == "\ufffd" or unicodedata.category(sign) in ("Cc", "Cn", "Co", "Cs"):
            unreadable += 1
    return _Signs(letters, unreadable, total)


def _drawn(page: Any) -> tuple[float, int]:
    """Return the share of the page that pictures cover, and how many paths it has."""
    import numpy as np
    from pypdfium2 import raw

    left, bottom, right, top = page.get_bbox()
    width, height = right - left, top - bottom
    if not (width > 0 and height > 0):
        return 0.0, 0
    grid, paths = np.zeros((_GRID, _GRID), bool), 0
    for kind, (x0, y0, x1, y1) in shown_objects(page, _MOST_OBJECTS):
        if kind == raw.FPDF_PAGEOBJ_PATH:
            paths += 1
            continue
        columns = [round(min(max((x - left) / width, 0), 1) * _GRID) for x in (x0, x1)]
        rows = [round(min(max((y - bottom) / height, 0), 1) * _GRID) for y in (y0, y1)]
        grid[rows[0] : rows[1], columns[0] : columns[1]] = True
    return float(grid.mean()), paths
