"""Tables: cells with spans become lines that read alone.

Belongs here: the grid, merged cells, the Markdown of a row.
Does not belong here: the content of a cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from rag_assets.steps.formats.blocks import Block

SPAN_MAX = 64  # columns a cell may claim; a body with more is broken or hostile
REPEAT_MAX = 500  # characters of a merged cell that are repeated; a longer one appears once
HEADER_MAX = 4  # rows of a header
REPEATED_MAX = 1_000_000  # characters that the tables of one body may repeat; one with more is hostile


class Cell(NamedTuple):
    """One cell: its text on one line and the number of columns and rows it covers."""

    text: str
    header: bool = False
    columns: int = 1
    rows: int = 1


@dataclass
class Repeats:
    """The number of merged cells' characters that may still be repeated; the tables of a body share it."""

    left: int = REPEATED_MAX


def row_blocks(rows: Sequence[Sequence[Cell]], group: int, repeats: Repeats | None = None) -> Iterator[Block]:
    """Yield one block a row; the first rows of header cells become one, which carries the delimiter line.

    A first one that is a single text over several columns is the table's caption. Rows without text are left out.
    """
    filled = [pair for pair in zip(rows, grid(rows, repeats or Repeats()), strict=True) if any(pair[1])]
    named = takewhile(lambda pair: pair[0] and all(cell.header for cell in pair[0]), filled[: HEADER_MAX + 1])
    header = [texts for _, texts in named]
    body = filled[len(header) :]
    if not body:  # nothing but header cells: the first of them name the columns
        header, body = header[:1], filled[1:]
    if len(header) > 1 and len(header[0]) > 1 and len(set(header[0])) == 1:
        yield Block("paragraph", header.pop(0)[0])
    if header:
        merged = one_header(header)
        yield Block("table", f"{row_line(merged)}\n|" + "---|" * len(merged), group)
    for _, texts in body:
        yield Block("table", row_line(texts), group)


def one_header(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return each column's words from top to bottom, without immediate repetitions."""
    width = max(map(len, lines))
    columns = ([line[column] for line in lines if column < len(line) and line[column]] for column in range(width))
    return [" ".join(dict.fromkeys(words)) for words in columns]


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
    """Append the text of cells from earlier rows to the next columns; nothing once too much was repeated."""
    if repeats.left < 0:
        below.clear()
    while (column := len(texts)) in below:
        left, text = below.pop(column)
        texts.append(text)
        repeats.left -= len(text) + 1
        if left > 1:
            below[column] = (left - 1, text)
