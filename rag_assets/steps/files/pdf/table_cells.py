"""Cells as tables have them: a sign with its number, one value a cell.

Belongs here: what a cell's text looks like, and mending the cells of one line. Does not belong here: columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rag_assets.steps.files.pdf.records import Cell

_SIGN = re.compile(r"[-–−(]?\s?(?:[$€£¥]|US\$)\s?[(]?")
_CLOSING = re.compile(r"[)%*†⁰¹²³⁴-⁹]{1,3}|%\)|\)%|(?:ppts?|pts?|bps)\.?")
_VALUE = (
    r"(?:[-–−+(]\s?)?(?:[$€£¥]\s?)?(?:[-–−(]\s?)?(?:\d[\d,.’']*|[—–])(?:\s?[)%]){0,2}"
    r"(?:[BMK]|x|×|\s?(?:ppts?|pts?|bps)\.?)?[⁰¹²³⁴-⁹]{0,2}"
)
_NONE = r"[—–-]|\*{1,3}|N/?[AM]|n/?[am]|NM|nil"
_DATA = re.compile(rf"{_VALUE}|{_NONE}")
_ONE = re.compile(_VALUE)
_YEAR = re.compile(r"(?:19|20)\d\d\.?")
_NUMBERING = re.compile(
    r"(?:item|note|part|section|article|chapter|exhibit)?\s?\(?(?:[0-9]{1,3}|[a-z]|[ivx]{1,5})[A-Z]?\s?[.):]{1,2}", re.I
)
_DIGIT = re.compile(r"\d")


def is_data(text: str) -> bool:
    """Return whether a cell holds a value: a number with its signs, a dash or "N/A", and no year."""
    return bool(_DATA.fullmatch(text)) and not _YEAR.fullmatch(text)


def is_numbering(text: str) -> bool:
    """Return whether a cell is only the number of a heading, a note or a list item."""
    return bool(_NUMBERING.fullmatch(text))


def table_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells of a line of a table, each value in one of its own with the signs that stand apart."""
    mended: list[Cell] = []
    sign: Cell | None = None
    for cell in _parted(cells):
        if sign is not None:
            joint = "" if sign.text.endswith("(") else " "
            cell = cell._replace(text=f"{sign.text}{joint}{cell.text}", x0=sign.x0)
            sign = None
        if _SIGN.fullmatch(cell.text):
            sign = cell
        elif mended and _CLOSING.fullmatch(cell.text) and _DIGIT.search(mended[-1].text):
            mended[-1] = mended[-1]._replace(text=f"{mended[-1].text}{cell.text}", x1=cell.x1)
        else:
            mended.append(cell)
    return [*mended, sign] if sign is not None else mended


def _parted(cells: Sequence[Cell]) -> Iterator[Cell]:
    """Yield cells of one value each, and a sign of money at the end of a cell for itself."""
    for cell in cells:
        body, _, last = cell.text.rpartition(" ")
        if body and _SIGN.fullmatch(last) and (is_data(body) or _spans(body)):
            border = _border(cell, len(body) + 1)
            yield from _values(cell._replace(text=body, x1=_border(cell, len(body))))
            yield cell._replace(text=last, x0=border)
        else:
            yield from _values(cell)


def _values(cell: Cell) -> Iterator[Cell]:
    """Yield the values of a cell that has several and nothing else."""
    spans = _spans(cell.text)
    if len(spans) < 2:
        yield cell
        return
    for start, end in spans:
        yield cell._replace(text=cell.text[start:end], x0=_border(cell, start), x1=_border(cell, end))


def _spans(text: str) -> list[tuple[int, int]]:
    """Return where the values of a text stand that holds values alone; none where it holds something else."""
    spans: list[tuple[int, int]] = []
    place = 0
    while (match := _ONE.match(text, place)) is not None:
        spans.append(match.span())
        if match.end() == len(text):
            return spans
        if text[match.end()] != " " or text[match.end() - 1] == ",":  # a comma and a space: they are one value
            return []
        place = match.end() + 1
    return []


def _border(cell: Cell, place: int) -> float:
    """Return about where a character of a cell begins."""
    return cell.x0 + (cell.x1 - cell.x0) * place / max(len(cell.text), 1)
