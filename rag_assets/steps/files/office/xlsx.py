"""XLSX files: what an Excel workbook says, sheet by sheet; the tables of a sheet, for sheets of all formats.

Cells are as they are shown by their number formats (ECMA-376, 18.8.30 and 18.8.31). Numbers are shown with `.` and `,`,
whatever the country of who looks: the file does not say. The dates that Excel shows by country (formats 14 and 22) are
shown as ISO 8601.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import NamedTuple

from rag_assets.steps.files.office.block_writer import BlockWriter, Line
from rag_assets.steps.files.office.docx import PIC, R
from rag_assets.steps.files.office.parts import (
    SHIFTS,
    A,
    C,
    Package,
    description_of,
    is_on,
    paragraph_text,
    pulled,
    small_int,
    target_of,
    write_chart,
)
from rag_assets.steps.files.records import FileError, FileText, PagesDone
from rag_assets.steps.formats.blocks import STRUCK, Budget, Cell, Mark, clean
from rag_assets.steps.formats.element_tree import Element

ROWS_MAX, COLUMNS_MAX = 1_048_576, 16_384
"""Of a sheet in Excel; what lies beyond is read by no program."""
_MERGED_MAX = 10_000
_DEFAULT_NAME = re.compile(r"(?:Table|Tabelle|Tableau|Tabla|__Anonymous_Sheet_DB__)_?\d{0,9}")


class MergedCell(NamedTuple):
    """A merged cell: its first and last row and column, from 0."""

    row: int
    column: int
    last_row: int
    last_column: int


class SheetRow(NamedTuple):
    """The cells of a row that have text, by column; both from 0."""

    row: int
    cells: Mapping[int, str]


@dataclass
class SheetShape:
    """A sheet's properties beside its cells."""

    merged: list[MergedCell] = field(default_factory=list)
    hidden_rows: set[int] = field(default_factory=set)  # they part nothing
    names: Mapping[int, str] = field(default_factory=dict)  # of defined tables, by their first row
    _starting: dict[tuple[int, int], MergedCell] = field(default_factory=dict)
    _indexed: int = 0

    def starting(self) -> Mapping[tuple[int, int], MergedCell]:
        """Return the merged cells by their first row and column."""
        new = self.merged[self._indexed : _MERGED_MAX]
        self._starting.update({(merged.row, merged.column): merged for merged in new})
        self._indexed += len(new)
        return self._starting


def write_sheet(writer: BlockWriter, rows: Iterable[SheetRow], shape: SheetShape) -> None:
    """Write the tables of a sheet; rows come in order, rows without text may be missing."""
    part: list[SheetRow] = []
    size, last = 0, -1
    for row in rows:
        if not row.cells:
            continue
        # A blank row parts them, or a defined table begins.
        between = range(last + 1, min(row.row, last + 2 + len(shape.hidden_rows)))
        if part and (row.row in shape.names or any(blank not in shape.hidden_rows for blank in between)):
            _write_part(writer, part, shape)
            part, size = [], 0
        last = row.row
        part.append(row)
        size += len(row.cells)
        if size > writer.cells_left:  # more than is kept: the writer reports the cut
            break
    _write_part(writer, part, shape)


def _write_part(writer: BlockWriter, part: list[SheetRow], shape: SheetShape) -> None:
    if not part:
        return
    name = shape.names.get(part[0].row, "")
    if name and not _DEFAULT_NAME.fullmatch(name):
        writer.text(name)
    columns = sorted({column for row in part for column in row.cells})
    if len(columns) == 1:
        for row in part:
            writer.paragraph(Line(row.cells[columns[0]]))
        return
    starting = shape.starting()
    rows = [row.row for row in part]
    covered: dict[int, MergedCell] = {}  # by column: the cell that goes on from above
    table: list[list[Cell]] = []
    for row in part:
        table.append([])
        covered_to = -1
        for place, column in enumerate(columns):
            if column <= covered_to or (column in covered and covered[column].last_row >= row.row):
                continue
            text, merged = row.cells.get(column, ""), starting.get((row.row, column))
            if merged is None:
                table[-1].append(Cell(text))
                continue
            covered_to = merged.last_column
            across = columns[place : bisect_right(columns, merged.last_column)]
            covered.update(dict.fromkeys(across, merged))
            down = bisect_right(rows, merged.last_row) - bisect_left(rows, row.row)
            table[-1].append(Cell(text, False, len(across), down))
    writer.table(table)


_BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 14: "yyyy-mm-dd",
    15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss",
    22: "yyyy-mm-dd h:mm", 37: "#,##0;-#,##0", 38: "#,##0;-#,##0", 39: "#,##0.00;-#,##0.00", 40: "#,##0.00;-#,##0.00",
    45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0", 48: "0.0E+0", 49: "@",
}  # fmt: skip
_TOKEN = re.compile(
    r'"[^"]{0,200}"|\\.|_.|\*.|\[[^\]]{0,100}\]|AM/PM|A/P|[Gg]eneral|y+|m+|d+|h+|s+|\.0+(?=[^0-9]|$)|[0#?,.]+|E[+-]|.',
    re.DOTALL | re.IGNORECASE,
)
_DATE = re.compile(r"y+|m+|d+|h+|s+|AM/PM|A/P|\[[hms]+\]", re.IGNORECASE)
_CURRENCY = re.compile(r"\[\$([^\]-]*)(?:-[^\]]*)?\]")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DIGITS_MAX = 30  # decimals that a format may ask for
_CODE_MAX = 255  # characters of a code in Excel

S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
XDR = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_PLACE = re.compile(r"\$?([A-Z]{1,3})\$?([0-9]{1,7})")
_MERGED = re.compile(rb'<(?:[A-Za-z0-9]{1,20}:)?mergeCell\s[^>]{0,100}?ref="([A-Z0-9:$]{1,40})"')
_OVERLAP = 200  # bytes of a piece that are looked at again with the next one
_STRINGS_MAX = 50_000_000  # characters of shared strings


def xlsx_text(content: bytes, budget: Budget, _pages_done: PagesDone | None = None) -> FileText:
    """Return the blocks of an Excel workbook. Raises FileError if it cannot be read."""
    package = Package(content, "Excel workbook")
    main = package.main_part("xl/workbook.xml")
    tree = package.xml(main)
    if tree is None or tree.find(f"{S}sheets") is None:
        raise FileError("it is not a readable Excel workbook: its list of sheets is missing")
    writer = BlockWriter(budget)
    workbook = _Workbook(package, main, tree, writer)
    return writer.file_text(workbook.read)


class _Workbook:
    def __init__(self, package: Package, main: str, tree: Element, writer: BlockWriter) -> None:
        self.package, self.writer = package, writer
        self._tree = tree
        self._relations = package.relations(main)
        settings = tree.find(f"{S}workbookPr")
        self._from_1904 = settings is not None and is_on(settings.get("date1904"), absent=False)
        self._strings: list[str] = []
        left = _STRINGS_MAX
        for node in pulled(package, target_of(self._relations, "sharedStrings"), f"{S}si"):
            self._strings.append(_rich(writer, node))
            left -= len(self._strings[-1])
            if left < 0:
                break
        styles = package.xml(target_of(self._relations, "styles"))
        self._codes = _codes(styles)  # of number formats, by the cell's style
        self._struck = _struck(styles)  # styles of cells whose text is struck

    def text(self, cell: Element) -> str:
        """Return the text of a cell (`c`)."""
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return _rich(self.writer, cell.find(f"{S}is"))
        value = cell.findtext(f"{S}v") or ""
        if kind == "s":
            place = small_int(value.strip())
            return self._strings[place] if place is not None and place < len(self._strings) else ""
        if kind == "b":
            return "TRUE" if value == "1" else "FALSE"
        if kind != "n" or not value:
            return clean(value)
        style = small_int(cell.get("s")) or 0
        return shown(value.strip(), self._codes[style] if style < len(self._codes) else "", self._from_1904)

    def is_struck(self, cell: Element) -> bool:
        """Return whether the text of a cell is struck, and count it then."""
        is_struck = (small_int(cell.get("s")) or 0) in self._struck
        self.writer.count(STRUCK, "hidden", int(is_struck))
        return is_struck

    def read(self) -> None:
        """Write all sheets that are not hidden."""
        for sheet in self._tree.iterfind(f"{S}sheets/{S}sheet"):
            relation = self._relations.get(sheet.get(f"{R}id", ""))
            if relation is None or not self.package.has(relation.target):
                raise FileError("it is not a readable Excel workbook: a sheet is missing")
            if sheet.get("state", "visible") != "visible":
                self.writer.count("hidden sheet", "hidden")
                continue
            self.writer.heading(Line(sheet.get("name", "")), 1)
            if relation.kind == "worksheet":
                name = relation.target
                shape = SheetShape(merged=[*_merged(self.package, name)], names=self._tables(name))
                rows = _SheetRows(self, name, shape)
                write_sheet(self.writer, rows.read(), shape)
                self.writer.count("hidden row", "hidden", rows.hidden_rows)
                self.writer.count("hidden column", "hidden", len(rows.hidden_columns))
                self.writer.count("formula without a value", "lost", rows.unknown)
            self._beside(relation.target)

    def _tables(self, name: str) -> dict[int, str]:
        """Return the names of the defined tables of a sheet by their first rows."""
        names = {}
        for relation in self.package.relations(name).values():
            table = self.package.xml(relation.target) if relation.kind == "table" else None
            if table is not None and (place := _PLACE.match(table.get("ref", ""))):
                names[int(place[2]) - 1] = table.get("displayName", "") or table.get("name", "")
        return names

    def _beside(self, name: str) -> None:
        """Write the objects on a sheet beside its cells: charts, boxes of text; count comments and figures."""
        for relation in self.package.relations(name).values():
            tree = self.package.xml(relation.target) if relation.kind in ("drawing", "comments") else None
            if tree is not None and relation.kind == "comments":
                self.writer.count("comment", "hidden", sum(1 for _ in tree.iter(f"{S}comment")))
            elif tree is not None:
                relations = self.package.relations(relation.target)
                for chart in tree.iter(f"{C}chart"):
                    drawn = relations.get(chart.get(f"{R}id", ""))
                    write_chart(self.writer, None if drawn is None else self.package.xml(drawn.target))
                for paragraph in tree.iter(f"{A}p"):
                    self.writer.text(paragraph_text(self.writer, paragraph))
                for picture in tree.iter(f"{XDR}pic", f"{PIC}pic"):
                    described = description_of(picture, f"{XDR}cNvPr")
                    self.writer.text(described)
                    self.writer.count("figure", "rendered" if described else "lost")


class _SheetRows:
    """Reads the rows of one sheet piece by piece, as far as they are needed."""

    def __init__(self, workbook: _Workbook, name: str, shape: SheetShape) -> None:
        self._workbook, self._name, self._shape = workbook, name, shape
        self._columns: set[int] = set()  # hidden
        self.hidden_columns: set[int] = set()  # that have text
        self.hidden_rows = self.unknown = 0

    def read(self) -> Iterator[SheetRow]:
        """Yield the rows that are shown and have text."""
        number = -1
        for node in pulled(self._workbook.package, self._name, f"{S}col", f"{S}row"):
            is_hidden = is_on(node.get("hidden"), absent=False)
            if node.tag == f"{S}col":
                first, last = small_int(node.get("min")) or 1, small_int(node.get("max")) or 1
                self._columns.update(range(first - 1, min(last, COLUMNS_MAX)) if is_hidden else ())
                continue
            number = (small_int(node.get("r")) or number + 2) - 1
            if number >= ROWS_MAX:
                return
            cells = dict(self._cells(node))
            if is_hidden:
                self._shape.hidden_rows.add(number)
                self.hidden_rows += bool(cells)
            elif cells:
                yield SheetRow(number, cells)

    def _cells(self, row: Element) -> Iterator[tuple[int, str]]:
        column = -1
        for cell in row.iterchildren(f"{S}c"):
            place = _PLACE.fullmatch(cell.get("r", ""))
            column = _column_number(place[1]) if place else column + 1
            if column >= COLUMNS_MAX:
                continue
            text = clean(self._workbook.text(cell))
            if text and self._workbook.is_struck(cell):
                continue
            if text and column in self._columns:
                self.hidden_columns.add(column)
            elif text:
                yield column, text
            elif cell.find(f"{S}f") is not None and not cell.findtext(f"{S}v") and cell.get("t") != "str":
                self.unknown += 1


def _merged(package: Package, name: str) -> Iterator[MergedCell]:
    """Yield the merged cells of a sheet, which follow its rows, without parsing those."""
    before = b""
    for chunk in package.chunks(name):
        piece = before + chunk
        for match in _MERGED.finditer(piece):
            first, _, last = match[1].decode().partition(":")
            begin, end = _PLACE.fullmatch(first), _PLACE.fullmatch(last or first)
            if match.end() > len(before) and begin and end:
                corners = ((int(place[2]) - 1, _column_number(place[1])) for place in (begin, end))
                yield MergedCell(*(side for corner in corners for side in corner))
        before = piece[-_OVERLAP:]


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
    if font is None:
        return ""
    if (strike := font.find(f"{S}strike")) is not None and is_on(strike.get("val")):
        return "struck"
    align = font.find(f"{S}vertAlign")
    return "" if align is None else SHIFTS.get(align.get("val", ""), "")


def _codes(styles: Element | None) -> list[str]:
    if styles is None:
        return []
    formats = styles.iterfind(f"{S}numFmts/{S}numFmt")
    own = {small_int(node.get("numFmtId")): node.get("formatCode", "") for node in formats}
    ids = [small_int(node.get("numFmtId")) or 0 for node in styles.iterfind(f"{S}cellXfs/{S}xf")]
    return [own.get(each, _BUILT_IN.get(each, "")) for each in ids]


def _struck(styles: Element | None) -> frozenset[int]:
    if styles is None:
        return frozenset()
    fonts = {place for place, font in enumerate(styles.iterfind(f"{S}fonts/{S}font")) if _mark(font) == "struck"}
    formats = enumerate(styles.iterfind(f"{S}cellXfs/{S}xf"))
    return frozenset(place for place, node in formats if small_int(node.get("fontId")) in fonts)


def shown(value: str, code: str, from_1904: bool = False) -> str:
    """Return a stored number as a format code shows it; as it is stored where the code is not understood."""
    try:
        number = Decimal(value)
    except InvalidOperation:
        return value
    if not number.is_finite() or abs(number) >= Decimal(10) ** 300:
        return value
    section, number = _section(code[:_CODE_MAX], number)
    tokens = _TOKEN.findall(section)
    if not tokens or "@" in tokens:
        return general(number)
    if any(token.lower() == "general" for token in tokens):
        return "".join(general(number) if token.lower() == "general" else _literal(token) or "" for token in tokens)
    if any(_DATE.fullmatch(token) for token in tokens):
        return _date(number, tokens, from_1904) or general(number)
    return _number(number, tokens)


def general(number: Decimal) -> str:
    """Return a number as a cell without a format shows it: at most eleven digits behind the point, no zeros last."""
    text = format(float(number), ".15g") if abs(number) < 10**15 else str(number)
    if "e" in text.lower():
        return text
    whole, point, decimals = text.partition(".")
    return whole + (point + decimals[:11]).rstrip("0").rstrip(".") if point else whole


def _section(code: str, number: Decimal) -> tuple[str, Decimal]:
    """Return the section of a code for a number, without its sign where the section is for negative ones."""
    sections = [""]
    for token in _TOKEN.findall(code):
        if token == ";":
            sections.append("")
        else:
            sections[-1] += token
    if number < 0 and len(sections) > 1:
        return sections[1], -number
    if number == 0 and len(sections) > 2:
        return sections[2], number
    return sections[0], number


def _literal(token: str) -> str | None:
    """Return the text of a token that is no placeholder; None for one that is."""
    if token[0] == '"':
        return token[1:-1]
    if token[0] == "\\":
        return token[1:]
    if token[0] in "_*" and len(token) == 2:
        return " " if token[0] == "_" and token[1] == " " else ""
    if token[0] == "[":
        match = _CURRENCY.fullmatch(token)
        return match[1] if match else ""
    return None if re.fullmatch(r"[0#?,.]+|E[+-]", token, re.IGNORECASE) else token


def _number(number: Decimal, tokens: list[str]) -> str:
    places = [place for place, token in enumerate(tokens) if _literal(token) is None]
    percent = tokens.count("%")
    if not places:
        return ("-" if number < 0 else "") + "".join(_literal(token) or "" for token in tokens)
    pattern = "".join(tokens[place] for place in places if tokens[place][0] in "0#?,.")
    scientific = any(token.upper() in ("E+", "E-") for token in tokens)
    if "/" in tokens:
        return general(number)
    before = "".join(_literal(token) or "" for token in tokens[: places[0]])
    after = "".join(_literal(token) or "" for token in tokens[places[-1] + 1 :])
    decimals = min(len(tokens[places[0]].partition(".")[2]), _DIGITS_MAX)
    digits = f"{float(number):.{decimals}E}" if scientific else _digits(abs(number) * 100**percent, pattern)
    sign = "-" if number < 0 and not scientific and digits.strip("0.,") else ""
    return f"{sign}{before}{digits}{after}".strip()


def _digits(number: Decimal, pattern: str) -> str:
    """Return digits by a pattern such as `#,##0.00`; commas at its end divide by thousand."""
    whole, _, decimals = pattern.partition(".")
    scale = len(pattern) - len(pattern.rstrip(","))
    number = number / 1000**scale
    decimals = decimals.rstrip(",").replace(",", "")[:_DIGITS_MAX]
    rounded = number.quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP) if number < 10**27 else number
    text = format(rounded, ",f" if "," in whole.rstrip(",") else "f")
    integer, _, fraction = text.partition(".")
    kept = len(decimals.rstrip("#?"))
    fraction = fraction[:kept] + fraction[kept:].rstrip("0")
    wanted = whole.replace(",", "").count("0")
    integer = integer if integer != "0" or wanted or not fraction else ""
    return integer.rjust(wanted, "0") + (f".{fraction}" if fraction else "")


def _date(number: Decimal, tokens: list[str], from_1904: bool) -> str:
    """Return the moment that a number counts days to; empty if it is before the first or after the last year."""
    try:
        seconds = (number * 86_400).quantize(Decimal("0.001"), ROUND_HALF_UP)
        days, rest = divmod(seconds, 86_400)
        if days < 0:
            return ""
        first = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30 if days >= 60 else 31)
        moment = first + timedelta(days=int(days), microseconds=int(rest * 1_000_000))
    except (OverflowError, ArithmeticError):
        return ""
    is_clock = any(token.upper() in ("AM/PM", "A/P") for token in tokens)
    return "".join(_date_part(tokens, place, moment, is_clock, seconds) for place in range(len(tokens))).strip()


def _date_part(tokens: list[str], place: int, moment: datetime, is_clock: bool, seconds: Decimal) -> str:
    token = tokens[place]
    kind = token[0].lower()
    if token.upper() in ("AM/PM", "A/P"):
        return "AM" if moment.hour < 12 else "PM"
    if re.fullmatch(r"\[[hms]+\]", token, re.IGNORECASE):
        unit = {"h": 3600, "m": 60, "s": 1}[token[1].lower()]
        return str(int(seconds // unit)).rjust(len(token) - 2, "0")
    if not _DATE.fullmatch(token):
        is_fraction = re.fullmatch(r"\.0+", token) and place and tokens[place - 1][0].lower() == "s"
        if is_fraction:
            return f".{moment.microsecond:06}"[: len(token)]
        return token if token in (".", ",") else _literal(token) or ""
    if kind == "m" and _is_minutes(tokens, place):
        return str(moment.minute).rjust(min(len(token), 2), "0")
    hour = (moment.hour % 12 or 12) if is_clock else moment.hour
    values = {"y": moment.year, "m": moment.month, "d": moment.day, "h": hour, "s": moment.second}
    if kind == "y":
        return f"{moment.year:04}" if len(token) > 2 else f"{moment.year % 100:02}"
    if kind in "md" and len(token) > 2:
        name = _MONTHS[moment.month - 1] if kind == "m" else _DAYS[moment.weekday()]
        return name[:1] if len(token) == 5 else name if len(token) > 3 else name[:3]
    return str(values[kind]).rjust(min(len(token), 2), "0")


def _is_minutes(tokens: list[str], place: int) -> bool:
    """Return whether an `m` follows hours or precedes seconds."""
    units = [(at, token.strip("[").lower()[:1]) for at, token in enumerate(tokens) if _DATE.fullmatch(token)]
    index = [at for at, _ in units].index(place)
    before = units[index - 1][1] if index else ""
    after = units[index + 1][1] if index + 1 < len(units) else ""
    return len(tokens[place]) < 3 and (before == "h" or after == "s")
