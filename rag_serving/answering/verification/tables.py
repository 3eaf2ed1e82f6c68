"""What a table row says: each cell with the first cell of its row and the header of its column.

Belongs here: rows as sentences. Does not belong here: which rows a passage has (`support`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from rag_serving.answering.verification.equivalence import read
from rag_serving.answering.verification.words import Token, tokens
from rag_serving.text.units import cells_of

_MOST_CELLS = 12
_IS, _OF, _FOR, _BY, _AND = (tokens(word) for word in ("are", "of", "for", "by", "and"))
_HAVE = [Token("have", "have", "word", 0, 4)]


def cells(row: str) -> list[list[Token]]:
    """Return the tokens of each cell of a row."""
    return [read(cell) for cell in cells_of(row)] if row else []


def row_sentences(row: str, head: list[list[Token]]) -> Iterator[list[Token]]:
    """Yield what a table row says: each cell with the row's first cell and the header of its column."""
    values = cells(row)
    if not (1 < len(values) <= _MOST_CELLS):
        return
    label = values[0]
    if not label:
        return
    if len(values) == 2:
        yield [*label, *values[1]]
    named = [(head[column], cell) for column, cell in enumerate(values) if column < len(head) and head[column] and cell]
    for name, cell in [pair for pair in named if pair[1] is not label]:
        yield from _cell(label, name, cell)
    for (name, cell), (next_name, next_cell) in pairwise(named[1:]):
        yield [*label, *_IS, *name, *cell, *_AND, *next_name, *next_cell]


def _cell(label: list[Token], name: list[Token], cell: list[Token]) -> Iterator[list[Token]]:
    """Yield what one cell says: the name of its column, the first cell of its row, and itself."""
    at = next((at for at, token in enumerate(name) if token.key == "per"), len(name))
    yield [*label, *name, *cell]
    yield [*label, *_IS, *name, *cell]
    yield [*name, *_OF, *label, *cell]
    yield [*name, *_FOR, *label, *cell]
    yield [*name, *cell, *_FOR, *label]
    yield [*name[:at], *_FOR, *label, *cell, *name[at:]]
    if name[at:]:
        yield [*label, *cell, *name[at:]]
    if [token.text.lower() for token in name] in (["meaning"], ["description"], ["definition"]):
        yield [*label, *read("means"), *cell]
        yield [*label, *cell]
    yield [*label, *name, *_OF, *cell]
    yield [*label, *cell, *_BY, *name]
    if [token.key for token in name] == ["default"]:
        yield [replace(name[0], text="by default", key="by-default", kind="strict"), *label, *cell]
    yield [*label, *_HAVE, *name, *_OF, *cell]
    if name[0].text.lower() == "who":
        yield [*cell, *name[1:], *_FOR, *label]
    if [token.text.lower() for token in cell] in (["no"], ["yes"]):
        yield [*(cell if cell[0].key == "no" else []), *name, *_FOR, *label]
