"""XLSX files: what an Excel workbook says, sheet by sheet.

Belongs here: sheets in their order, cells as they are shown, what is hidden.
Does not belong here: tables of a sheet (`sheets`), number formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rag_assets.steps.files.office.block_writer import BlockWriter
from rag_assets.steps.files.office.drawings import A, C, paragraph_text, write_chart
from rag_assets.steps.files.office.lines import Line
from rag_assets.steps.files.office.number_formats import BUILT_IN, shown
from rag_assets.steps.files.office.parts import Package, pulled
from rag_assets.steps.files.office.sheets import COLUMNS_MAX, ROWS_MAX, Merged, SheetRow, SheetShape, write_sheet
from rag_assets.steps.files.office.word_styles import is_on, small_int
from rag_assets.steps.files.office.word_text import PIC, R
from rag_assets.steps.files.records import FileError, FileText, PagesDone
from rag_assets.steps.formats.blocks import clean
from rag_assets.steps.formats.budget import Budget
from rag_assets.steps.formats.element_tree import Element
from rag_assets.steps.formats.text_marks import STRUCK, Mark

S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
XDR = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_PLACE = re.compile(r"\$?([A-Z]{1,3})\$?([0-9]{1,7})")
_MERGED = re.compile(rb'<(?:[A-Za-z0-9]{1,20}:)?mergeCell\s[^>]{0,100}?ref="([A-Z0-9:$]{1,40})"')
_OVERLAP = 200  # bytes of a piece that are looked at again with the next one
_STRINGS_MAX = 50_000_000  # characters of shared strings


def xlsx_text(content: bytes, budget: Budget, _pages_done: PagesDone | None = None) -> FileText:
    """Return the blocks of an Excel workbook. Raises FileError where it cannot be read."""
    package = Package(content, "Excel workbook")
    main = package.main_part("xl/workbook.xml")
    tree = package.xml(main)
    if tree is None or tree.find(f"{S}sheets") is None:
        raise FileError("it is not a readable Excel workbook: its list of sheets is missing")
    writer = BlockWriter(budget)
    workbook = _Workbook(package, main, tree, writer)
    return writer.file_text(workbook.read)


@dataclass(frozen=True)
class _Shown:
    """What makes stored values what a sheet shows."""

    strings: Sequence[str]
    codes: Sequence[str]  # of number formats, by the cell's style
    from_1904: bool
    struck: frozenset[int]  # styles of cells whose text is struck
    writer: BlockWriter

    def text(self, cell: Element) -> str:
        """Return the text of a cell (`c`)."""
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return _rich(self.writer, cell.find(f"{S}is"))
        value = cell.findtext(f"{S}v") or ""
        if kind == "s":
            place = small_int(value.strip())
            return self.strings[place] if place is not None and place < len(self.strings) else ""
        if kind == "b":
            return "TRUE" if value == "1" else "FALSE"
        if kind != "n" or not value:
            return clean(value)
        style = _style(cell)
        return shown(value.strip(), self.codes[style] if style < len(self.codes) else "", self.from_1904)

    def is_struck(self, cell: Element) -> bool:
        """Return whether the text of a cell is struck, and count it then."""
        if is_struck := _style(cell) in self.struck:
            self.writer.count(STRUCK, "hidden")
        return is_struck


class _Workbook:
    """Reads one workbook."""

    def __init__(self, package: Package, main: str, tree: Element, writer: BlockWriter) -> None:
        self._package = package
        self._writer = writer
        self._tree = tree
        self._relations = package.relations(main)
        settings = tree.find(f"{S}workbookPr")
        from_1904 = settings is not None and is_on(settings.get("date1904"), absent=False)
        styles = self._part("styles")
        self._shown = _Shown(self._strings(), _codes(styles), from_1904, _struck(styles), writer)

    def read(self) -> None:
        """Write all sheets that are not hidden."""
        for sheet in self._tree.iterfind(f"{S}sheets/{S}sheet"):
            relation = self._relations.get(sheet.get(f"{R}id", ""))
            if relation is None or not self._package.has(relation.target):
                raise FileError("it is not a readable Excel workbook: a sheet is missing")
            if sheet.get("state", "visible") != "visible":
                self._writer.count("hidden sheet", "hidden")
                continue
            self._writer.heading(Line(sheet.get("name", "")), 1)
            if relation.kind == "worksheet":
                self._sheet(relation.target)
            self._beside(relation.target)

    def _sheet(self, name: str) -> None:
        shape = SheetShape(merged=[*_merged(self._package, name)], names=self._tables(name))
        rows = _Rows(self._package, name, self._shown, shape)
        write_sheet(self._writer, rows.read(), shape)
        self._writer.count("hidden row", "hidden", rows.hidden_rows)
        self._writer.count("hidden column", "hidden", rows.hidden_columns)
        self._writer.count("formula without a value", "lost", rows.unknown)

    def _tables(self, name: str) -> dict[int, str]:
        """Return the names of the defined tables of a sheet by their first rows."""
        names = {}
        for relation in self._package.relations(name).values():
            if relation.kind == "table" and (table := self._package.xml(relation.target)) is not None:
                place = _PLACE.match(table.get("ref", ""))
                if place:
                    names[int(place[2]) - 1] = table.get("displayName", "") or table.get("name", "")
        return names

    def _beside(self, name: str) -> None:
        """Write what stands on a sheet beside its cells: charts, boxes of text; count comments and figures."""
        for relation in self._package.relations(name).values():
            tree = self._package.xml(relation.target) if relation.kind in ("drawing", "comments") else None
            if tree is not None and relation.kind == "drawing":
                self._drawing(relation.target, tree)
            elif tree is not None:
                self._writer.count("comment", "hidden", sum(1 for _ in tree.iter(f"{S}comment")))

    def _drawing(self, name: str, tree: Element) -> None:
        relations = self._package.relations(name)
        for chart in tree.iter(f"{C}chart"):
            relation = relations.get(chart.get(f"{R}id", ""))
            write_chart(self._writer, None if relation is None else self._package.xml(relation.target))
        for paragraph in tree.iter(f"{A}p"):
            self._writer.text(paragraph_text(self._writer, paragraph))
        for picture in tree.iter(f"{XDR}pic", f"{PIC}pic"):
            described = clean(next((each.get("descr", "") for each in picture.iter(f"{XDR}cNvPr")), ""))
            self._writer.text(described)
            self._writer.count("figure", "rendered" if described else "lost")

    def _strings(self) -> list[str]:
        name = next((each.target for each in self._relations.values() if each.kind == "sharedStrings"), "")
        strings: list[str] = []
        left = _STRINGS_MAX
        for node in pulled(self._package, name, f"{S}si"):
            strings.append(_rich(self._writer, node))
            left -= len(strings[-1])
            if left < 0:
                break
        return strings

    def _part(self, kind: str) -> Element | None:
        name = next((each.target for each in self._relations.values() if each.kind == kind), "")
        return self._package.xml(name) if name else None


class _Rows:
    """Reads the rows of one sheet piece by piece, as far as they are asked for."""

    def __init__(self, package: Package, name: str, values: _Shown, shape: SheetShape) -> None:
        self._package, self._name, self._shown, self._shape = package, name, values, shape
        self._columns: set[int] = set()  # hidden
        self._hidden: set[int] = set()  # columns that are hidden and have text
        self.hidden_rows = self.unknown = 0

    @property
    def hidden_columns(self) -> int:
        """Return how many columns with text are hidden."""
        return len(self._hidden)

    def read(self) -> Iterator[SheetRow]:
        """Yield the rows that are shown and have text."""
        number = -1
        for node in pulled(self._package, self._name, f"{S}col", f"{S}row"):
            if node.tag == f"{S}col":
                self._column(node)
                continue
            number = (small_int(node.get("r")) or number + 2) - 1
            if number >= ROWS_MAX:
                return
            cells = dict(self._cells(node))
            if is_on(node.get("hidden"), absent=False):
                self._shape.hidden_rows.add(number)
                self.hidden_rows += bool(cells)
            elif cells:
                yield SheetRow(number, cells)

    def _column(self, node: Element) -> None:
        if is_on(node.get("hidden"), absent=False):
            first, last = small_int(node.get("min")) or 1, small_int(node.get("max")) or 1
            self._columns.update(range(first - 1, min(last, COLUMNS_MAX)))

    def _cells(self, row: Element) -> Iterator[tuple[int, str]]:
        column = -1
        for cell in row.iterchildren(f"{S}c"):
            place = _PLACE.fullmatch(cell.get("r", ""))
            column = _column_number(place[1]) if place else column + 1
            if column >= COLUMNS_MAX:
                continue
            text = clean(self._shown.text(cell))
            if text and self._shown.is_struck(cell):
                continue
            if text and column in self._columns:
                self._hidden.add(column)
            elif text:
                yield column, text
            elif cell.find(f"{S}f") is not None and not cell.findtext(f"{S}v") and cell.get("t") != "str":
                self.unknown += 1


def _merged(package: Package, name: str) -> Iterator[Merged]:
    """Yield the merged cells of a sheet, which stand behind its rows: found without reading those."""
    before = b""
    for chunk in package.chunks(name):
        piece = before + chunk
        for match in _MERGED.finditer(piece):
            if match.end() > len(before) and (merged := _range(match[1].decode())) is not None:
                yield merged
        before = piece[-_OVERLAP:]


def _range(reference: str) -> Merged | None:
    first, _, last = reference.partition(":")
    begin, end = _PLACE.fullmatch(first), _PLACE.fullmatch(last or first)
    if not begin or not end:
        return None
    return Merged(int(begin[2]) - 1, _column_number(begin[1]), int(end[2]) - 1, _column_number(end[1]))


def _column_number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def _rich(writer: BlockWriter, node: Element | None) -> str:
    """Return the text of a rich string as its runs mark it, without how its words are spoken."""
    line = Line()
    for text in () if node is None else node.iter(f"{S}t"):
        above = text.getparent()
        if above.tag != f"{S}rPh":
            writer.write(line, text.text or "", _mark(above.find(f"{S}rPr")))
    return line.verbatim()


def _mark(font: Element | None) -> Mark:
    """Return how a font marks text."""
    if font is None:
        return ""
    if (strike := font.find(f"{S}strike")) is not None and is_on(strike.get("val")):
        return "struck"
    align = font.find(f"{S}vertAlign")
    shifts: dict[str, Mark] = {"superscript": "raised", "subscript": "lowered"}
    return "" if align is None else shifts.get(align.get("val", ""), "")


def _style(cell: Element) -> int:
    return small_int(cell.get("s")) or 0


def _codes(styles: Element | None) -> list[str]:
    """Return the code of each cell style's number format."""
    if styles is None:
        return []
    formats = styles.iterfind(f"{S}numFmts/{S}numFmt")
    own = {small_int(node.get("numFmtId")): node.get("formatCode", "") for node in formats}
    ids = [small_int(node.get("numFmtId")) or 0 for node in styles.iterfind(f"{S}cellXfs/{S}xf")]
    return [own.get(each, BUILT_IN.get(each, "")) for each in ids]


def _struck(styles: Element | None) -> frozenset[int]:
    """Return the cell styles whose fonts strike text."""
    if styles is None:
        return frozenset()
    fonts = {place for place, font in enumerate(styles.iterfind(f"{S}fonts/{S}font")) if _mark(font) == "struck"}
    formats = enumerate(styles.iterfind(f"{S}cellXfs/{S}xf"))
    return frozenset(place for place, node in formats if small_int(node.get("fontId")) in fonts)
