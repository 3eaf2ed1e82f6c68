"""Tables of OpenDocument texts and slides.

Belongs here: rows, header rows, merged and repeated cells. Does not belong here: sheets (`ods`), what stands in a cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from citelock_formats.odf_styles import TABLE
from rag_assets.steps.files.office.block_writer import BlockWriter, cell_text
from rag_assets.steps.files.office.header_rows import Header
from rag_assets.steps.files.office.word_styles import small_int
from rag_assets.steps.formats.element_tree import Element
from rag_assets.steps.formats.tables import SPAN_MAX, Cell

REPEAT_MAX = 64  # how often a row or a cell of a text's table may repeat
_GROUPS = frozenset(f"{TABLE}{name}" for name in ("table-rows", "table-row-group", "table-header-rows"))


class Document(Protocol):
    """What a table needs of the document that it stands in."""

    writer: BlockWriter

    def apart(self, element: Element) -> None: ...
    def write_notes(self) -> None: ...


def write_table(document: Document, table: Element) -> None:
    """Write a table and the notes in it."""
    rows: list[list[Cell]] = []
    headers = 0
    for row, is_header in _rows(table):
        if row.get(f"{TABLE}visibility") in ("collapse", "filter"):
            document.writer.count("hidden row", "hidden")
            continue
        cells = list(_cells(document, row))
        headers += is_header and headers == len(rows)
        rows += [cells] * min(small_int(row.get(f"{TABLE}number-rows-repeated")) or 1, REPEAT_MAX)
    declares: Header = headers or (1 if table.get(f"{TABLE}use-first-row-styles") == "true" else "unknown")
    document.writer.table(rows, declares)
    document.write_notes()


def _rows(table: Element, is_header: bool = False) -> Iterator[tuple[Element, bool]]:
    for child in table:
        if child.tag == f"{TABLE}table-row":
            yield child, is_header
        elif child.tag in _GROUPS:
            yield from _rows(child, is_header or child.tag == f"{TABLE}table-header-rows")


def _cells(document: Document, row: Element) -> Iterator[Cell]:
    """Yield the cells of a row, but those that another one covers."""
    for node in row.iterchildren(f"{TABLE}table-cell"):
        with document.writer.cell() as blocks:
            document.apart(node)
            document.writer.end_list()
        columns = min(small_int(node.get(f"{TABLE}number-columns-spanned")) or 1, SPAN_MAX)
        cell = Cell(cell_text(blocks), False, columns, small_int(node.get(f"{TABLE}number-rows-spanned")) or 1)
        for _ in range(min(small_int(node.get(f"{TABLE}number-columns-repeated")) or 1, REPEAT_MAX)):
            yield cell
