"""Tables: cells with spans become lines that read alone.

Belongs here: the grid, merged cells, the Markdown of a row.
Does not belong here: what stands in a cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rag_assets.steps.formats.blocks import Block

SPAN_MAX = 64  # columns a cell may claim; a body that asks for more is broken or hostile
REPEAT_MAX = 500  # characters of a merged cell that are repeated; a longer one stands once
REPEATED_MAX = 1_000_000  # characters that the tables of one body may repeat; one that asks for more is hostile


class Cell(NamedTuple):
    """One cell: its text on one line and how many columns and rows it covers."""

    text: str
    header: bool = False
    columns: int = 1
    rows: int = 1


@dataclass
class Repeats:
    """How many characters of merged cells may still be repeated; the tables of a body share it."""

    left: int = REPEATED_MAX


def row_blocks(rows: Sequence[Sequence[Cell]], group: int, repeats: Repeats | None = None) -> Iterator[Block]:
    """Yield one block a row; a first row of header cells carries the delimiter line. Rows without text are left out."""
    first = True
    for cells, texts in zip(rows, grid(rows, repeats or Repeats()), strict=True):
        if not any(texts):
            continue
        line = row_line(texts)
        if first and cells and all(cell.header for cell in cells):
            line += "\n|" + "---|" * len(texts)
        first = False
        yield Block("table", line, group)


def row_line(texts: Sequence[str]) -> str:
    """Return `| a | b |`, pipes inside a cell escaped."""
    return "|" + "".join(f" {text.replace('|', chr(92) + '|')} |" if text else " |" for text in texts)


def grid(rows: Sequence[Sequence[Cell]], repeats: Repeats) -> Iterator[list[str]]:
    """Yield the texts of each row with merged cells repeated in every row and column that they cover, while they may
    be."""
    below: dict[int, tuple[int, str]] = {}  # column → rows still covered from above, and the text there
    for cells in rows:
        texts: list[str] = []
        _fill(texts, below, repeats)
        for cell in cells:
            repeated = cell.text if len(cell.text) <= REPEAT_MAX else ""
            for offset in range(min(max(cell.columns, 1), SPAN_MAX) if repeats.left >= 0 else 1):
                if cell.rows > 1 and repeats.left >= 0:
                    below[len(texts)] = (cell.rows - 1, repeated)
                texts.append(repeated if offset else cell.text)
                repeats.left -= len(repeated) + 1 if offset else 0
            _fill(texts, below, repeats)
        yield texts


def _fill(texts: list[str], below: dict[int, tuple[int, str]], repeats: Repeats) -> None:
    """Append what cells of earlier rows leave in the next columns; nothing more is left where too much was repeated."""
    if repeats.left < 0:
        below.clear()
    while (column := len(texts)) in below:
        left, text = below.pop(column)
        texts.append(text)
        repeats.left -= len(text) + 1
        if left > 1:
            below[column] = (left - 1, text)
