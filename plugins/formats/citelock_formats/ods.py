"""ODS files: what an OpenDocument spreadsheet says, sheet by sheet."""

from __future__ import annotations

from collections.abc import Iterator

from citelock_formats.odf_styles import DRAW, OFFICE, TABLE, TEXT
from citelock_formats.odf_text import OpenText, open_document, table_rows, write_frame
from rag_assets.steps.files.composed import Composed
from rag_assets.steps.files.office.block_writer import Line
from rag_assets.steps.files.office.parts import small_int
from rag_assets.steps.files.office.xlsx import COLUMNS_MAX, ROWS_MAX, MergedCell, SheetRow, SheetShape, write_sheet
from rag_assets.steps.files.records import FileText, PagesDone
from rag_assets.steps.formats.blocks import STRUCK, clean
from rag_assets.steps.formats.element_tree import Element

_HIDDEN = ("collapse", "filter")
_COLUMN_GROUPS = frozenset(f"{TABLE}{name}" for name in ("table-columns", "table-column-group", "table-header-columns"))


def ods_text(content: bytes, composed: Composed, _pages_done: PagesDone | None = None) -> FileText:
    """Return the blocks of an OpenDocument spreadsheet. Raises FileError if it cannot be read."""
    text, body = open_document(content, composed, "OpenDocument spreadsheet", "spreadsheet")

    def read() -> None:
        for sheet in body.iterchildren(f"{TABLE}table"):
            _write(text, sheet)

    return text.writer.file_text(read)


def _write(text: OpenText, sheet: Element) -> None:
    writer = text.writer
    if text.styles.is_unseen("table", sheet.get(f"{TABLE}style-name", "")):
        writer.count("hidden sheet", "hidden")
        return
    writer.heading(Line(sheet.get(f"{TABLE}name", "")), 1)
    shape = SheetShape()
    rows = _OpenRows(text, sheet, shape)
    write_sheet(writer, rows.read(), shape)
    writer.count("hidden column", "hidden", len(rows.hidden_columns))
    writer.count("hidden row", "hidden", rows.hidden)
    writer.count("comment", "hidden", sum(1 for _ in sheet.iter(f"{OFFICE}annotation")))
    for frame in sheet.iter(f"{DRAW}frame"):
        write_frame(text, frame)


class _OpenRows:
    def __init__(self, text: OpenText, sheet: Element, shape: SheetShape) -> None:
        self._text, self._sheet, self._shape, self._columns = text, sheet, shape, _hidden_columns(sheet)
        self.hidden_columns: set[int] = set()  # those with text
        self.hidden = 0

    def read(self) -> Iterator[SheetRow]:
        """Yield the visible rows with text; a repeated one as often as it occurs."""
        number = 0
        for node, _ in table_rows(self._sheet):
            times = small_int(node.get(f"{TABLE}number-rows-repeated")) or 1
            cells = dict(self._cells(node, number))
            if node.get(f"{TABLE}visibility") in _HIDDEN:
                self._shape.hidden_rows.update(range(number, min(number + times, ROWS_MAX)))
                self.hidden += times if cells else 0
            elif cells:
                for row in range(number, min(number + times, ROWS_MAX)):
                    yield SheetRow(row, cells)
            number += times
            if number >= ROWS_MAX:
                return

    def _cells(self, row: Element, number: int) -> Iterator[tuple[int, str]]:
        column = 0
        for cell in row:
            if cell.tag not in (f"{TABLE}table-cell", f"{TABLE}covered-table-cell"):
                continue
            times = small_int(cell.get(f"{TABLE}number-columns-repeated")) or 1
            text = _text(self._text, cell) if cell.tag == f"{TABLE}table-cell" else ""
            for place in range(column, min(column + times, COLUMNS_MAX)) if text else ():
                if place in self._columns:
                    self.hidden_columns.add(place)
                else:
                    yield place, text
            columns = small_int(cell.get(f"{TABLE}number-columns-spanned")) or 1
            rows = small_int(cell.get(f"{TABLE}number-rows-spanned")) or 1
            if columns > 1 or rows > 1:
                self._shape.merged.append(MergedCell(number, column, number + rows - 1, column + columns - 1))
            column += times
            if column >= COLUMNS_MAX:
                return


def _text(text: OpenText, cell: Element) -> str:
    lines = (" ".join(text.line(paragraph).paragraphs()) for paragraph in cell.iterchildren(f"{TEXT}p"))
    words = clean(" ".join(lines))
    if words and text.styles.mark("table-cell", cell.get(f"{TABLE}style-name", "")) == "struck":
        text.writer.count(STRUCK, "hidden")
        return ""
    return words


def _hidden_columns(table: Element) -> set[int]:
    hidden: set[int] = set()
    place = 0
    for column in _columns(table):
        times = small_int(column.get(f"{TABLE}number-columns-repeated")) or 1
        if column.get(f"{TABLE}visibility") in _HIDDEN:
            hidden.update(range(place, min(place + times, COLUMNS_MAX)))
        place += times
    return hidden


def _columns(table: Element) -> Iterator[Element]:
    for child in table:
        if child.tag == f"{TABLE}table-column":
            yield child
        elif child.tag in _COLUMN_GROUPS:
            yield from _columns(child)
