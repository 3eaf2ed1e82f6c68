"""RTF files: what a rich text says, in blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from citelock_formats.rtf_parts import (
    CHARACTERS,
    COUNTED,
    HEADERS,
    KEPT_THOUGH_STARRED,
    SKIPPED,
    SYMBOLS,
    CellShape,
    GroupState,
    RtfField,
    RtfHead,
    RtfRow,
    RtfShape,
    RtfTable,
    RtfToken,
    code_page,
    tokens,
)
from rag_assets.steps.files.composed import Composed
from rag_assets.steps.files.office.block_writer import BlockWriter, Line, cell_text
from rag_assets.steps.files.office.docx import field_address, is_generated
from rag_assets.steps.files.records import FileError, FileText, PagesDone
from rag_assets.steps.formats.blocks import Block

DEPTH_MAX = 2_000  # groups in groups


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
            "trowd": lambda _: self._begin_row(),
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
        if ended.link is not None and ended.field is not None:
            self._line.link(ended.link, field_address(ended.field.instruction))

    def _word(self, token: RtfToken) -> None:
        word, number, state = token.word, token.number, self._state
        self._flush(keep=word == "u")
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
        elif word in CHARACTERS:
            self._write(CHARACTERS[word])

    def _destination(self, word: str) -> bool:
        """Return whether a control word sets its group's destination, and set it."""
        state = self._state
        starred, state.starred = state.starred, False
        if word in COUNTED:
            name, outcome = COUNTED[word]
            self._writer.count(name, outcome)
            state.where = "skip"
        elif word in SKIPPED:
            state.where = "skip"
        elif word in HEADERS:
            self._writer.count("page header or footer", "navigation")
            state.where = "skip"
        elif word in ("fonttbl", "stylesheet", "fldinst", "listtext", "pntext"):
            where = {"fonttbl": "fonts", "stylesheet": "styles", "fldinst": "instruction"}
            state.where = where.get(word, "marker")
        elif word == "footnote":
            self._noted += 1
            self._line.write(f"[{self._noted}]")
            self._state.note, self._line = self._line, Line()
            self._writer.count("footnote", "rendered")
        elif word == "shp":
            state.shape, state.is_shape = RtfShape(), True
        elif word in ("sn", "sv") and state.shape is not None:
            self._property(word, state.shape)
        elif word == "nesttableprops":
            state.where = "inner"
        elif word == "field":
            state.field = RtfField()
        elif word == "fldrslt":
            self._begin_result()
        elif starred and word not in KEPT_THOUGH_STARRED:
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

    def _begin_result(self) -> None:
        current = self._state.field
        if current is not None and is_generated(current.instruction):
            self._writer.count("table of contents", "navigation")
            self._state.where = "skip"
        else:
            self._state.link = self._line.mark()

    def _symbol(self, symbol: str) -> None:
        self._flush()
        if self._skipping:
            self._skipping -= 1
        elif symbol == "*":
            self._state.starred = True
        elif symbol in "\r\n":
            self._word(RtfToken("word", "par"))
        elif symbol in SYMBOLS:
            self._write(SYMBOLS[symbol])

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

    def _flush(self, keep: bool = False) -> None:
        """Write the bytes so far as text of the code page."""
        if self._bytes:
            raw, self._bytes = self._bytes, b""
            self._write(raw.decode(self._state.codec, "replace"))
        if keep:
            self._skipping = 0

    def _write(self, text: str) -> None:
        state = self._state
        if state.where == "styles":
            self._head.style_name(text)
        elif state.where == "instruction" and state.field is not None:
            state.field.instruction += text
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
        line, self._line = self._line, Line()
        marker, self._marker = self._marker, None
        if self._state.in_table:
            self._in_cell(line, marker)
            return
        self._end_table()
        if not line.empty():
            self._paragraph(line, marker)

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

    def _in_cell(self, line: Line, marker: str | None) -> None:
        line.mend()
        blocks = self._inner if self._state.nesting > 1 else self._blocks
        blocks += [Block("paragraph" if marker is None else "list", text) for text in line.paragraphs()]

    def _end_cell(self) -> None:
        self._in_cell(self._line, self._marker)
        self._line, self._marker = Line(), None
        self._row.texts.append(cell_text(self._blocks))
        self._blocks = []

    def _end_inner_cell(self) -> None:
        self._state.nesting = max(self._state.nesting, 2)
        self._in_cell(self._line, self._marker)
        self._line, self._marker = Line(), None
        self._inner_row.append(cell_text(self._inner))
        self._inner = []

    def _end_inner_row(self) -> None:
        words = ", ".join(filter(None, self._inner_row))
        self._inner_row = []
        if words:
            self._blocks.append(Block("list", words))

    def _begin_row(self) -> None:
        self._row = RtfRow(texts=self._row.texts)

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
