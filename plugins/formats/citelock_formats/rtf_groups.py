"""Groups of RTF: what control words make of them.

Belongs here: destinations that are no text, what holds inside a group and ends with it.
Does not belong here: what is done with the text of a group (`rtf`).
"""

from __future__ import annotations

from dataclasses import dataclass

from rag_assets.steps.files.office.block_writer import Outcome
from rag_assets.steps.files.office.lines import Line
from rag_assets.steps.formats.text_marks import Mark

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
class Field:
    instruction: str = ""


@dataclass
class Shape:
    """A drawing: the property that is being read, whether it is a picture, and whether words describe it."""

    name: str = ""
    is_picture: bool = False
    described: bool = False


@dataclass
class State:
    """What holds inside a group, and ends with it."""

    where: str = "text"  # or skip, fonts, styles, instruction, marker, inner (a row's definition), name (a property's)
    starred: bool = False
    codec: str = "cp1252"
    skip: int = 1  # bytes that stand for a character of Unicode where a reader knows none
    hidden: str = ""  # why text is not kept
    struck: bool = False
    shift: Mark = ""
    style: int = 0
    outline: int | None = None
    in_table: bool = False
    nesting: int = 0
    list_level: int = 0
    field: Field | None = None
    note: Line | None = None  # the line that goes on after this note
    link: int | None = None  # where the result of a field began
    shape: Shape | None = None
    is_shape: bool = False  # whether the drawing ends with this group
