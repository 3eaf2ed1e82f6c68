"""Tables of a Word document: rows of cells with what they cover.

Belongs here: merged cells, header rows, rows that are deleted or hidden.
Does not belong here: what stands in a cell (`docx`), which rows name the columns where nobody says so (`header_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from rag_assets.steps.files.office.block_writer import BlockWriter, Outcome, cell_text
from rag_assets.steps.files.office.header_rows import Header
from rag_assets.steps.files.office.word_styles import W, is_on, small_int, value_of
from rag_assets.steps.formats.element_tree import Element
from rag_assets.steps.formats.tables import Cell

_WRAPPERS = frozenset(f"{W}{name}" for name in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag"))
_FIRST_ROW = 0x0020


class Document(Protocol):
    """What a table needs of the document that it stands in."""

    writer: BlockWriter

    def container(self, element: Element) -> None: ...
    def count(self, name: str, outcome: Outcome, number: int = 1) -> None: ...
    def table_written(self) -> None: ...


def write_table(document: Document, table: Element) -> None:
    """Write a table."""
    rows: list[list[Cell]] = []
    headers = 0
    covering: dict[int, tuple[int, int]] = {}  # column → row and place of the cell that still covers it
    for node in _inside(table, f"{W}tr"):
        properties = node.find(f"{W}trPr")
        if properties is not None and _is_gone(document, properties):
            continue
        is_header = properties is not None and is_on(_switch(properties, "tblHeader"), absent=False)
        headers += is_header and headers == len(rows)
        rows.append(_row(document, node, rows, covering))
    document.writer.table(rows, headers or _style_header(table))
    document.table_written()


def _row(document: Document, node: Element, rows: list[list[Cell]], covering: dict[int, tuple[int, int]]) -> list[Cell]:
    """Return the cells of a row; a cell that goes on with the one above makes that one longer."""
    cells: list[Cell] = []
    properties = node.find(f"{W}trPr")
    column = 0
    if properties is not None and (before := small_int(value_of(properties, "gridBefore"))):
        cells.append(Cell("", columns=before))
        column = before
    for each in _inside(node, f"{W}tc"):
        cell = each.find(f"{W}tcPr")
        columns = (small_int(value_of(cell, "gridSpan")) if cell is not None else None) or 1
        merge = None if cell is None else cell.find(f"{W}vMerge")
        goes_on = merge is not None and merge.get(f"{W}val", "continue") == "continue"
        with document.writer.cell() as blocks:
            document.container(each)
            document.writer.end_list()
        text = cell_text(blocks)
        if goes_on and not text and (above := covering.get(column)) is not None:
            row, place = above
            rows[row][place] = rows[row][place]._replace(rows=rows[row][place].rows + 1)
        else:
            covering.pop(column, None)
            if merge is not None:
                covering[column] = (len(rows), len(cells))
            cells.append(Cell(text, columns=columns))
        column += columns
    return cells


def _is_gone(document: Document, properties: Element) -> bool:
    """Return whether a row is deleted or hidden, and count it."""
    if properties.find(f"{W}del") is not None:
        document.count("deleted text", "hidden")
        return True
    if is_on(_switch(properties, "hidden"), absent=False):
        document.count("hidden text", "hidden")
        return True
    return False


def _switch(properties: Element, name: str) -> str | None:
    """Return the value of a switch; "on" where it stands without one, None where it does not stand."""
    node = properties.find(f"{W}{name}")
    return None if node is None else node.get(f"{W}val", "on")


def _style_header(table: Element) -> Header:
    """Return what the table's look says of its first row."""
    look = table.find(f"{W}tblPr/{W}tblLook")
    if look is None:
        return "unknown"
    flag = look.get(f"{W}firstRow")
    if flag is None:
        try:
            return "first" if int(look.get(f"{W}val", "0"), 16) & _FIRST_ROW else "unknown"
        except ValueError:
            return "unknown"
    return "first" if is_on(flag) else "unknown"


def _inside(element: Element, tag: str) -> Iterator[Element]:
    """Yield the children of a tag, also those in content controls and marks of changes."""
    for child in element:
        if child.tag == tag:
            yield child
        elif child.tag in _WRAPPERS:
            yield from _inside(child, tag)
