"""Header rows: which first rows of a table name its columns.

Belongs here: captions in the first row, headers of several lines, headers that nobody declared.
Does not belong here: reading cells, merged cells (`formats.tables`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from rag_assets.steps.formats.tables import HEADER_MAX, Cell, Repeats, grid, one_header

Header = int | Literal["first", "unknown"]
"""How many rows are declared to be the header; "first": the table's style is for one with a header; "unknown": the file
does not say."""

_YEAR = re.compile(r"(?:19|20)\d\d")
_NUMBER = re.compile(r"[-+−(]?[^\w\s]?\s?\d[\d.,'’/:\u00a0\u202f-]*\s?(?:[^\w\s]\)?|[A-Z]{3})?")


def headed(rows: Sequence[Sequence[Cell]], header: Header, repeats: Repeats) -> tuple[str, list[list[Cell]]]:
    """Return a caption that stands in the first row, and the rows without spans under one row of headers.

    A header of several lines becomes one: each column's words from top to bottom.
    """
    caption = ""
    rows = [row for row in rows if row]
    if len(rows) > 2 and header not in (0, 1) and _is_caption(rows):
        caption, rows = next(cell.text for cell in rows[0] if cell.text), rows[1:]
        header = header - 1 if isinstance(header, int) else header
    texts = list(grid(rows, repeats))
    depth = _depth(rows, texts, header)
    plain = [[Cell(text) for text in line] for line in texts[depth:]]
    if not depth:
        return caption, plain
    return caption, [[Cell(text, header=True) for text in one_header(texts[:depth])], *plain]


def _is_caption(rows: Sequence[Sequence[Cell]]) -> bool:
    """Return whether the first row is one text over more than one column."""
    filled = [cell for cell in rows[0] if cell.text]
    width = max(sum(cell.columns for cell in row) for row in rows[1:])
    covers = len(filled) == 1 and (filled[0].columns >= width or len(rows[0]) == width)
    return covers and width > 1 and filled[0].rows == 1 and sum(bool(cell.text) for cell in rows[1]) > 1


def _depth(rows: Sequence[Sequence[Cell]], texts: Sequence[Sequence[str]], header: Header) -> int:
    """Return how many rows are the header."""
    marked = 0
    while marked < len(rows) and all(cell.header for cell in rows[marked]):
        marked += 1
    declared = marked or (header if isinstance(header, int) else int(header == "first"))
    if declared >= len(rows):
        return min(declared, len(rows)) if declared == 1 else int(len(rows) > 1)
    if declared > 1:
        return min(declared, HEADER_MAX)
    if not declared and (header != "unknown" or len(rows) < 2 or not _names_columns(texts[0])):
        return 0
    return _continued(rows, texts)


def _continued(rows: Sequence[Sequence[Cell]], texts: Sequence[Sequence[str]]) -> int:
    """Return how many lines a header has whose first row is one: a merged cell is parted in the row below."""
    depth = 1
    while depth < min(HEADER_MAX, len(rows) - 1) and any(cell.columns > 1 and cell.text for cell in rows[depth - 1]):
        below = texts[depth]
        named = [text for above, text in zip(texts[depth - 1], below, strict=False) if above]
        if not named or not all(named) or any(map(_is_number, named)):
            break
        depth += 1
    return depth


def _names_columns(texts: Sequence[str]) -> bool:
    """Return whether the cells of a first row read as names of columns: text in nearly all, and no numbers."""
    filled = [text for text in texts if text]
    return len(filled) >= max(len(texts) - 1, 1) and not any(map(_is_number, filled)) and not _all_years(filled)


def _all_years(texts: Sequence[str]) -> bool:
    return all(_YEAR.fullmatch(text) for text in texts)


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text)) and not _YEAR.fullmatch(text)
