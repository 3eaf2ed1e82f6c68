"""Tables of RTF: rows of cells that end at an edge, which only the whole table tells the columns of.

Belongs here: definitions of cells, merged ones, columns by their edges. Does not belong here: text in cells.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from rag_assets.steps.formats.tables import Cell

_NEAR = 30  # twips: edges that are nearer to each other than half a millimetre are one


@dataclass
class CellShape:
    """What a row says of one of its cells: the edge on its right in twips, and whether it goes on with another."""

    edge: int = 0
    below: bool = False  # with the one above
    beside: bool = False  # with the one before


@dataclass
class RtfRow:
    """The row that is being read."""

    shapes: list[CellShape] = field(default_factory=list)
    shape: CellShape = field(default_factory=CellShape)
    texts: list[str] = field(default_factory=list)
    is_header: bool = False


@dataclass
class RtfTable:
    """The rows of one table."""

    headers: int = 0
    _rows: list[list[tuple[CellShape, str]]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, shapes: list[CellShape], texts: list[str], is_header: bool) -> None:
        """Add a row; cells that it does not define have no edge and stand at its end."""
        last = shapes[-1].edge if shapes else 0
        more = [CellShape(last + 1000 * number) for number in range(1, len(texts) - len(shapes) + 1)]
        self.headers += is_header and self.headers == len(self._rows)
        self._rows.append([*zip([*shapes, *more], texts, strict=False)])

    def rows(self) -> list[list[Cell]]:
        """Return the cells with what they cover."""
        edges = _edges([shape.edge for row in self._rows for shape, _ in row])
        rows: list[list[Cell]] = []
        above: dict[int, tuple[int, int]] = {}  # first column → row and place of the cell that may go on
        for row in self._rows:
            cells: list[Cell] = []
            column = 0
            for shape, text in row:
                end = max(bisect_left(edges, shape.edge - _NEAR) + 1, column + 1)
                if shape.beside and not text and cells:
                    cells[-1] = cells[-1]._replace(columns=cells[-1].columns + end - column)
                elif shape.below and not text and column in above:
                    at, place = above[column]
                    rows[at][place] = rows[at][place]._replace(rows=rows[at][place].rows + 1)
                else:
                    above[column] = (len(rows), len(cells))
                    cells.append(Cell(text, columns=end - column))
                column = end
            rows.append(cells)
        return rows


def _edges(edges: list[int]) -> list[int]:
    """Return the different edges in order; those near each other are one."""
    merged: list[int] = []
    for edge in sorted(set(edges)):
        if not merged or edge - merged[-1] > _NEAR:
            merged.append(edge)
    return merged
