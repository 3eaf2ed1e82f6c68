"""The records of a page during layout analysis.

Belongs here: words, cells, rows and pages with their places, in points from the top left of the page as it is read
(turned upright). Does not belong here: the analysis.
"""

from __future__ import annotations

from typing import NamedTuple

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


class Word(NamedTuple):
    """A run between white space on a page."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    bold: bool = False

    @property
    def height(self) -> float:
        return self.y1 - self.y0


class PdfCell(NamedTuple):
    """Words side by side on one line, with nothing but spaces between them."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    size: float  # height of most of its letters, from ascender to descender
    bold: bool = False  # all of it
    chars: int = 0  # of all bold words


class PdfRow(NamedTuple):
    """The cells of one line, from left to right."""

    cells: tuple[PdfCell, ...]
    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    bold: bool
    column: int = 0  # number of its column of text on the page; 0: the page has one
    left: float = 0.0  # borders of that column
    right: float = 0.0

    @property
    def text(self) -> str:
        return " ".join(cell.text for cell in self.cells)


class Grid(NamedTuple):
    """A table: the words above each column, and its rows."""

    header: list[str]  # one text a column; empty: it has none
    rows: list[list[str]]
    bands: list[tuple[float, float]]  # top and bottom of each row


class RuledTable(NamedTuple):
    """A table with lines around its cells, and its box."""

    box: Box
    grid: Grid


class PageRows(NamedTuple):
    """One page: its lines in reading order, and its contents beside text."""

    page: int  # from 1
    width: float
    height: float
    rows: tuple[PdfRow, ...]
    ruled: tuple[RuledTable, ...] = ()  # from top to bottom; no row has their words
    tiny: int = 0  # words that are too small to be read
    struck: int = 0  # words that are left out because a line strikes them out
    aslant: str = ""  # text neither upright nor along a side
    fields: tuple[str, ...] = ()  # "name: value" of filled form fields
    images: int = 0  # that are large enough to show something
    letters: int = 0  # of the text layer
    turned: tuple[PageRows, ...] = ()  # lines of another rotation, in coordinates where these are upright
