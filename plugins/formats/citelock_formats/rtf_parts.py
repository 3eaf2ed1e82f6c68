"""Parts of RTF: tokens, group state, fonts and styles, tables whose cells end at an edge."""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from rag_assets.steps.files.office.block_writer import Line, Outcome
from rag_assets.steps.files.office.parts import heading_level, is_code
from rag_assets.steps.formats.blocks import Cell, Mark

SKIPPED = frozenset(
    (
        *("colortbl", "info", "nonshppict", "shprslt", "nonesttables", "xe", "tc", "rxe", "bkmkstart", "bkmkend"),
        *("pntxta", "pntxtb", "upr", "filetbl", "revtbl", "listtable", "listoverridetable", "rsidtbl", "generator"),
        *("themedata", "datastore", "latentstyles", "objdata", "atnid", "atnauthor", "ftnsep", "ftnsepc", "aftnsep"),
    )
)
KEPT_THOUGH_STARRED = frozenset({"shpinst", "footnote", "fldinst", "shppict", "listtext", "ud", "nesttableprops"})
HEADERS = frozenset(["header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf"])
COUNTED: dict[str, tuple[str, Outcome]] = {
    "annotation": ("comment", "hidden"),
    "pict": ("figure", "lost"),
    "mmath": ("equation", "lost"),
}
CHARACTERS = {
    "tab": "\t", "emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
    "bullet": "•", "emspace": " ", "enspace": " ", "qmspace": " ", "column": " ", "page": " ",
}  # fmt: skip
SYMBOLS = {"~": "\u00a0", "_": "-", "\\": "\\", "{": "{", "}": "}", "\t": "\t"}


@dataclass
class RtfField:
    instruction: str = ""


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
    field: RtfField | None = None
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
        elif word == "fcharset" and (codec := charset(number)) is not None:
            self.codecs[self._font] = codec

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
_CHARSETS = {
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
    return _known(f"cp{number}") if number else "cp1252"


def charset(number: int | None) -> str | None:
    """Return the codec of a font's character set; None if it is that of the document."""
    return _CHARSETS.get(number or 0) if number not in (None, 1, 2) else None


def _known(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"
