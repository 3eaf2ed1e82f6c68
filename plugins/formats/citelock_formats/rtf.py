"""RTF files: what a rich text says, in blocks."""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rag_assets.steps.files.composed import Composed
from rag_assets.steps.files.office.block_writer import BlockWriter, Line, Outcome, cell_text
from rag_assets.steps.files.office.docx import field_address, is_generated
from rag_assets.steps.files.office.parts import heading_level, is_code
from rag_assets.steps.files.records import FileError, FileText, PagesDone
from rag_assets.steps.formats.blocks import Block, Cell, Mark

DEPTH_MAX = 2_000  # groups in groups
_SKIPPED = (
    *("colortbl", "info", "nonshppict", "shprslt", "nonesttables", "xe", "tc", "rxe", "bkmkstart", "bkmkend"),
    *("pntxta", "pntxtb", "upr", "filetbl", "revtbl", "listtable", "listoverridetable", "rsidtbl", "generator"),
    *("themedata", "datastore", "latentstyles", "objdata", "atnid", "atnauthor", "ftnsep", "ftnsepc", "aftnsep"),
)
_DESTINATIONS = {
    **dict.fromkeys(_SKIPPED, "skip"),
    **{"fonttbl": "fonts", "stylesheet": "styles", "fldinst": "instruction", "nesttableprops": "inner"},
    **dict.fromkeys(("listtext", "pntext"), "marker"),
}
_KEPT_THOUGH_STARRED = frozenset({"shpinst", "footnote", "fldinst", "shppict", "listtext", "ud", "nesttableprops"})
_HEADERS = ("header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf")
_COUNTED: dict[str, tuple[str, Outcome]] = {
    "annotation": ("comment", "hidden"),
    "pict": ("figure", "lost"),
    "mmath": ("equation", "lost"),
    **dict.fromkeys(_HEADERS, ("page header or footer", "navigation")),
}
_CHARACTERS = {
    "tab": "\t", "emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
    "bullet": "•", "emspace": " ", "enspace": " ", "qmspace": " ", "column": " ", "page": " ",
}  # fmt: skip
_SYMBOLS = {"~": "\u00a0", "_": "-", "\\": "\\", "{": "{", "}": "}", "\t": "\t"}


@dataclass
class RtfShape:
    """A drawing: the property that is being read, whether it is a picture, and whether words describe it."""

    name: str = ""
    is_picture: bool = False
    described: bool = False


@dataclass
class GroupState:
    """Formatting that ends with its group."""

    where: str = "text"  # or skip, fonts, styles, instruction, marker, inner (a row's definition), name (a property's)
    starred: bool = False
    codec: str = "cp1252"
    skip: int = 1  # bytes that replace a Unicode character for readers without Unicode
    hidden: str = ""  # why text is not kept
    struck: bool = False
    shift: Mark = ""
    style: int = 0
    outline: int | None = None
    in_table: bool = False
    nesting: int = 0
    list_level: int = 0
    instruction: list[str] | None = None  # of the field, in parts
    note: Line | None = None  # the line that goes on after this note
    link: int | None = None  # where the result of a field began
    shape: RtfShape | None = None
    is_shape: bool = False  # whether the drawing ends with this group


_DEPTH_MAX = 30


@dataclass
class _RtfStyle:
    outline: int | None = None
    below: int | None = None
    name: str = ""


@dataclass
class RtfHead:
    """Fonts and styles of one file, gathered as their tables are read."""

    codecs: dict[int, str] = field(default_factory=dict)
    _styles: dict[int, _RtfStyle] = field(default_factory=dict)
    _font: int = 0
    _style: _RtfStyle = field(default_factory=_RtfStyle)

    def font(self, word: str, number: int | None) -> None:
        """Take a control word of the table of fonts."""
        if word == "f":
            self._font = number or 0
        elif word == "fcharset" and number in _CHARSETS:
            self.codecs[self._font] = _CHARSETS[number]

    def style(self, word: str, number: int | None) -> None:
        """Take a control word of the table of styles."""
        if word == "s":
            self._style = self._styles[number or 0] = _RtfStyle()
        elif word in ("cs", "ts", "ds"):
            self._style = _RtfStyle()
        elif word == "outlinelevel":
            self._style.outline = number
        elif word == "sbasedon":
            self._style.below = number

    def style_name(self, text: str) -> None:
        """Take text of the table of styles."""
        self._style.name += text

    def level(self, style: int, outline: int | None) -> int:
        """Return the level of a heading; 0 for anything else."""
        chain = self._chain(style)
        outlines = (outline, *(each.outline for each in chain))
        found = next((each for each in outlines if each is not None and 0 <= each <= 9), None)
        return heading_level(found, [each.name.strip(" ;") for each in chain])

    def is_code(self, style: int) -> bool:
        """Return whether paragraphs of a style are code."""
        return is_code([each.name.strip(" ;") for each in self._chain(style)])

    def _chain(self, style: int) -> list[_RtfStyle]:
        chain: list[_RtfStyle] = []
        number: int | None = style
        while number is not None and (found := self._styles.get(number)) is not None and len(chain) < _DEPTH_MAX:
            chain.append(found)
            number = found.below
        return chain


_NEAR = 30  # twips: edges that are nearer to each other than half a millimetre are one


@dataclass
class CellShape:
    """A cell as its row defines it: right edge in twips, and whether the cell continues another one."""

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
        """Add a row; undefined cells have no edge and come last."""
        last = shapes[-1].edge if shapes else 0
        more = [CellShape(last + 1000 * number) for number in range(1, len(texts) - len(shapes) + 1)]
        self.headers += is_header and self.headers == len(self._rows)
        self._rows.append([*zip([*shapes, *more], texts, strict=False)])

    def rows(self) -> list[list[Cell]]:
        """Return the cells with their spans."""
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


_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?[0-9]{1,10})? ?"  # a control word with its number
    rb"|\\'([0-9a-fA-F]{2})"  # a byte of the code page
    rb"|\\([^a-zA-Z'])"  # a control symbol
    rb"|([{}])"
    rb"|([^\\{}\r\n]{1,65536})"
    rb"|[\r\n]{1,65536}|\\"
)
_CHARSETS: dict[int | None, str] = {  # of fonts; the others have that of the document
    0: "cp1252", 77: "mac-roman", 128: "cp932", 129: "cp949", 134: "gbk", 136: "big5", 161: "cp1253", 162: "cp1254",
    163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip


class RtfToken(NamedTuple):
    """One token: `{`, `}`, a control word (its number None without one), `text`, or `byte`."""

    kind: str
    word: str = ""
    number: int | None = None
    raw: bytes = b""


def tokens(content: bytes) -> Iterator[RtfToken]:
    """Yield the tokens of an RTF file; pictures and other data between them are skipped by their length (`bin`)."""
    position = 0
    while position < len(content):
        match = _TOKEN.match(content, position)
        if match is None:
            return
        position = match.end()
        word, number, byte, symbol, brace, text = match.groups()
        if word is not None:
            value = None if number is None else int(number)
            if word == b"bin":
                position += min(max(value or 0, 0), len(content))
            else:
                yield RtfToken("word", word.decode("ascii"), value)
        elif byte is not None:
            yield RtfToken("byte", raw=bytes([int(byte, 16)]))
        elif symbol is not None:
            yield RtfToken("symbol", symbol.decode("latin-1"))
        elif brace is not None:
            yield RtfToken(brace.decode("ascii"))
        elif text is not None:
            yield RtfToken("byte", raw=text)


def code_page(number: int | None) -> str:
    """Return the codec of a Windows code page; that of Western Europe if it is not known."""
    try:
        return codecs.lookup(f"cp{number}").name
    except LookupError:
        return "cp1252"


def rtf_text(content: bytes, composed: Composed, _pages_done: PagesDone | None = None) -> FileText:
    """Return the blocks of a rich text. Raises FileError if it is none."""
    if not content.lstrip().startswith(b"{\\rtf"):
        raise FileError("it is not a readable rich text")
    writer = BlockWriter(composed.budget)
    return writer.file_text(lambda: _RtfReader(writer).read(content))


class _RtfReader:
    def __init__(self, writer: BlockWriter) -> None:
        self._writer = writer
        self._head = RtfHead()
        self._state = GroupState()
        self._stack: list[GroupState] = []
        self._default = "cp1252"
        self._line = Line()
        self._marker: str | None = None  # of the paragraph, if it is in a list
        self._bytes = b""
        self._skipping = 0  # bytes
        self._table, self._row = RtfTable(), RtfRow()
        self._blocks: list[Block] = []  # of the cell
        self._inner: list[Block] = []  # of the cell of a table in the cell
        self._inner_row: list[str] = []
        self._notes: list[tuple[int, Line]] = []
        self._noted = 0
        self._words: Mapping[str, Callable[[int | None], None]] = {
            "par": lambda _: self._end_paragraph(),
            "sect": lambda _: self._end_paragraph(),
            "line": lambda _: self._line.line_break(),
            "cell": lambda _: self._end_cell(),
            "row": lambda _: self._end_row(),
            "nestcell": lambda _: self._end_inner_cell(),
            "nestrow": lambda _: self._end_inner_row(),
            "pard": lambda _: self._plain_paragraph(),
            "plain": lambda _: self._set(hidden="", struck=False, shift=""),
            **dict.fromkeys(("strike", "striked"), lambda number: self._set(struck=number != 0)),
            **dict.fromkeys(("super", "up"), lambda number: self._set(shift="" if number == 0 else "raised")),
            **dict.fromkeys(("sub", "dn"), lambda number: self._set(shift="" if number == 0 else "lowered")),
            "nosupersub": lambda _: self._set(shift=""),
            "v": lambda number: self._set(hidden="" if number == 0 else "hidden text"),
            "deleted": lambda number: self._set(hidden="" if number == 0 else "deleted text"),
            "u": self._unicode,
            "uc": lambda number: self._set(skip=max(number or 0, 0)),
            "f": lambda number: self._set(codec=self._head.codecs.get(number or 0, self._default)),
            "ansicpg": self._code_page,
            "mac": lambda _: self._set(codec="mac-roman"),
            "s": lambda number: self._set(style=number or 0),
            "outlinelevel": lambda number: self._set(outline=number),
            "intbl": lambda _: self._set(in_table=True),
            "itap": lambda number: self._set(nesting=number or 0, in_table=bool(number)),
            "ilvl": lambda number: self._set(list_level=min(max(number or 0, 0), 8)),
            "trowd": lambda _: setattr(self, "_row", RtfRow(texts=self._row.texts)),
            "trhdr": lambda _: setattr(self._row, "is_header", True),
            "clvmrg": lambda _: setattr(self._row.shape, "below", True),
            "clmrg": lambda _: setattr(self._row.shape, "beside", True),
            "cellx": self._shape,
        }

    def read(self, content: bytes) -> None:
        """Write all blocks. Raises FileError if groups are nested too deep."""
        for token in tokens(content):
            if token.kind == "byte":
                self._take(token.raw)
            elif token.kind == "{":
                self._begin_group()
            elif token.kind == "}":
                self._end_group()
            elif token.kind == "symbol":
                self._symbol(token.word)
            else:
                self._word(token)
        self._end_paragraph()
        self._end_table()

    def _begin_group(self) -> None:
        self._flush()
        self._skipping = 0
        if len(self._stack) >= DEPTH_MAX:
            raise FileError(f"its groups are nested more than {DEPTH_MAX} deep")
        self._stack.append(self._state)
        self._state = replace(self._state, starred=False, note=None, link=None, is_shape=False)

    def _end_group(self) -> None:
        self._flush()
        self._skipping = 0
        if not self._stack:
            return
        ended, self._state = self._state, self._stack.pop()
        if ended.note is not None:
            self._notes.append((self._noted, self._line))
            self._line = ended.note
        if ended.is_shape and ended.shape is not None and ended.shape.described:
            self._line.write(" ")
        if ended.is_shape and ended.shape is not None and ended.shape.is_picture:
            self._writer.count("figure", "rendered" if ended.shape.described else "lost")
        if ended.link is not None and ended.instruction is not None:
            self._line.link(ended.link, field_address("".join(ended.instruction)))

    def _word(self, token: RtfToken) -> None:
        word, number, state = token.word, token.number, self._state
        self._flush()
        if word == "u":
            self._skipping = 0
        if self._skipping:
            self._skipping -= 1
            return
        if state.where == "skip":
            return
        if self._destination(word):
            return
        if state.where == "fonts":
            self._head.font(word, number)
        elif state.where == "styles":
            self._head.style(word, number)
        elif state.where == "inner":
            if word == "nestrow":
                self._end_inner_row()
        elif (rule := self._words.get(word)) is not None and (state.where == "text" or word in ("u", "uc", "f")):
            rule(number)
        elif word in _CHARACTERS:
            self._write(_CHARACTERS[word])

    def _destination(self, word: str) -> bool:
        """Return whether a control word sets its group's destination, and set it."""
        state = self._state
        starred, state.starred = state.starred, False
        if word in _COUNTED:
            self._writer.count(*_COUNTED[word])
            state.where = "skip"
        elif word in _DESTINATIONS:
            state.where = _DESTINATIONS[word]
        elif word == "footnote":
            self._noted += 1
            self._line.write(f"[{self._noted}]")
            self._state.note, self._line = self._line, Line()
            self._writer.count("footnote", "rendered")
        elif word == "shp":
            state.shape, state.is_shape = RtfShape(), True
        elif word in ("sn", "sv") and state.shape is not None:
            self._property(word, state.shape)
        elif word == "field":
            state.instruction = []
        elif word == "fldrslt":
            if state.instruction is not None and is_generated("".join(state.instruction)):
                self._writer.count("table of contents", "navigation")
                state.where = "skip"
            else:
                state.link = self._line.mark()
        elif starred and word not in _KEPT_THOUGH_STARRED:
            state.where = "skip" if state.where != "styles" else "styles"
            return state.where == "skip"
        else:
            return False
        return True

    def _property(self, word: str, shape: RtfShape) -> None:
        """Begin the name or the value of a property; of values only the description is text."""
        if word == "sn":
            self._state.where, shape.name = "name", ""
            return
        name = shape.name.strip()
        shape.is_picture |= name == "pib"
        shape.described |= name == "wzDescription"
        self._state.where = "text" if name == "wzDescription" else "skip"
        if name == "wzDescription":
            self._line.write(" ")

    def _symbol(self, symbol: str) -> None:
        self._flush()
        if self._skipping:
            self._skipping -= 1
        elif symbol == "*":
            self._state.starred = True
        elif symbol in "\r\n":
            self._word(RtfToken("word", "par"))
        elif symbol in _SYMBOLS:
            self._write(_SYMBOLS[symbol])

    def _take(self, raw: bytes) -> None:
        if self._skipping:
            skipped = min(self._skipping, len(raw))
            self._skipping -= skipped
            raw = raw[skipped:]
        if self._state.where != "skip":
            self._bytes += raw

    def _unicode(self, number: int | None) -> None:
        self._write(chr((number or 0) & 0xFFFF))
        self._skipping = self._state.skip

    def _flush(self) -> None:
        """Write the bytes so far as text of the code page."""
        if self._bytes:
            raw, self._bytes = self._bytes, b""
            self._write(raw.decode(self._state.codec, "replace"))

    def _write(self, text: str) -> None:
        state = self._state
        if state.where == "styles":
            self._head.style_name(text)
        elif state.where == "instruction" and state.instruction is not None:
            state.instruction.append(text)
        elif state.where == "name" and state.shape is not None:
            state.shape.name += text
        elif state.where == "marker":
            self._marker = (self._marker or "") + text
        elif state.where == "text" and not state.hidden:
            self._writer.write(self._line, text, "struck" if state.struck else state.shift)
        elif state.where == "text" and text.strip():
            self._writer.count(state.hidden, "hidden")

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            setattr(self._state, name, value)

    def _code_page(self, number: int | None) -> None:
        self._default = self._state.codec = code_page(number)

    def _plain_paragraph(self) -> None:
        self._set(style=0, outline=None, in_table=False, nesting=0, list_level=0)
        if self._line.empty():
            self._marker = None

    def _end_paragraph(self) -> None:
        if self._state.note is not None or any(state.note is not None for state in self._stack[-3:]):
            self._line.line_break()
            return
        if self._state.in_table:
            self._end_paragraph_of_cell()
            return
        line, marker = self._taken()
        self._end_table()
        if not line.empty():
            self._paragraph(line, marker)

    def _taken(self) -> tuple[Line, str | None]:
        """Return the paragraph so far and its marker; another one begins."""
        taken = self._line, self._marker
        self._line, self._marker = Line(), None
        return taken

    def _paragraph(self, line: Line, marker: str | None) -> None:
        state = self._state
        line.mend()
        mark = " ".join((marker or "").split())
        label = mark if any(each.isalnum() for each in mark) else ""
        if level := self._head.level(state.style, state.outline):
            self._write_notes()
            self._writer.heading(line, level, label)
        elif self._head.is_code(state.style):
            self._writer.code_line(line.verbatim())
        elif marker is not None:
            self._writer.item(line, label or "-", state.list_level)
        else:
            self._writer.paragraph(line)
            self._write_notes()

    def _write_notes(self) -> None:
        notes, self._notes = self._notes, []
        for number, line in notes:
            line.begin(f"[{number}] ")
            line.mend()
            self._writer.paragraph(line)

    def _end_paragraph_of_cell(self) -> None:
        line, marker = self._taken()
        line.mend()
        blocks = self._inner if self._state.nesting > 1 else self._blocks
        blocks += [Block("paragraph" if marker is None else "list", text) for text in line.paragraphs()]

    def _end_cell(self) -> None:
        self._end_paragraph_of_cell()
        self._row.texts.append(cell_text(self._blocks))
        self._blocks = []

    def _end_inner_cell(self) -> None:
        self._state.nesting = max(self._state.nesting, 2)
        self._end_paragraph_of_cell()
        self._inner_row.append(cell_text(self._inner))
        self._inner = []

    def _end_inner_row(self) -> None:
        words = ", ".join(filter(None, self._inner_row))
        self._inner_row = []
        if words:
            self._blocks.append(Block("list", words))

    def _shape(self, number: int | None) -> None:
        self._row.shapes.append(replace(self._row.shape, edge=number or 0))
        self._row.shape = CellShape()

    def _end_row(self) -> None:
        self._table.add(self._row.shapes, self._row.texts, self._row.is_header)
        self._row = replace(self._row, texts=[])

    def _end_table(self) -> None:
        if self._table:
            table, self._table = self._table, RtfTable()
            self._writer.table(table.rows(), table.headers or "unknown")
            self._write_notes()
