"""Styles of a Word document: what a paragraph is by its own properties and those of its style and the styles below it.

Belongs here: levels of headings, hidden and struck text, lists of styles, paragraphs of a table of contents, of code.
Does not belong here: numbers of lists (`word_numbering`), text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from rag_assets.steps.formats.element_tree import Element
from rag_assets.steps.formats.text_marks import STRUCK, Mark

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_DEPTH_MAX = 30  # styles based on styles
_LEFT_OUT = {"vanish": "hidden text", "strike": STRUCK, "dstrike": STRUCK}
_SHIFTS: dict[str, Mark] = {"superscript": "raised", "subscript": "lowered"}

_HEADING_NAME = re.compile(  # programs that write no outline level name styles in the language they run in
    r"(?:heading|überschrift|titre|título|titolo|kop|rubrik|overskrift|otsikko|nagłówek|nadpis|başlık|заголовок|"
    r"标题|標題|見出し|제목)\s?([1-9])",
    re.IGNORECASE,
)
_TITLES = frozenset({"title", "titel", "titre", "título", "titolo"})
_TOC_NAME = re.compile(r"(?:toc|contents|index|table of figures|verzeichnis) ?(?:heading|\d)?", re.IGNORECASE)
_CODE_NAME = re.compile(
    r"(?:html preformatted|preformatted text|source code|code|code block|macro|listing)", re.IGNORECASE
)


class ParagraphKind(NamedTuple):
    """What a paragraph is: a heading's level (0: none), its list, why it is left out, whether it is generated, code."""

    level: int = 0
    list_id: str = ""  # "" or "0": in no list
    list_level: int = 0
    left_out: str = ""
    contents: bool = False
    code: bool = False


@dataclass
class _Style:
    name: str
    based_on: str
    outline: int | None = None  # 0: level 1; 9: body text
    list_id: str | None = None
    list_level: int | None = None
    switches: dict[str, bool] = field(default_factory=dict)  # by the reason that they are
    shift: str = ""


class Styles:
    """The styles of one document; without a part of styles there is none, which is no fault."""

    def __init__(self, tree: Element | None) -> None:
        self._styles: dict[str, _Style] = {}
        self._default = ""
        for node in () if tree is None else tree.iterchildren(f"{W}style"):
            name = node.get(f"{W}styleId", "")
            self._styles[name] = _style(node)
            if node.get(f"{W}type") == "paragraph" and is_on(node.get(f"{W}default"), absent=False):
                self._default = name

    def paragraph(self, properties: Element | None) -> ParagraphKind:
        """Return what a paragraph of these properties (`w:pPr`) is."""
        own = _Style("", "")
        style_id = self._default
        if properties is not None:
            _properties(own, properties)
            style_id = value_of(properties, "pStyle") or style_id
        chain = [own, *self._chain(style_id)]
        outline = next((style.outline for style in chain if style.outline is not None), None)
        names = [style.name for style in chain if style.name]
        list_id = next((style.list_id for style in chain if style.list_id is not None), "")
        list_level = next((style.list_level for style in chain if style.list_level is not None), 0)
        left_out = _left_out(chain[1:], "")
        contents = bool(names) and bool(_TOC_NAME.fullmatch(names[0]))
        code = is_code(names)
        return ParagraphKind(heading_level(outline, names), list_id, list_level, left_out, contents, code)

    def left_out(self, run: Element | None, around: str) -> str:
        """Return why a run of these properties (`w:rPr`) is left out: as it says, as its style says, or the paragraph's
        style (`around`)."""
        return around if run is None else _left_out(self._looks(run), around)

    def mark(self, run: Element | None) -> Mark:
        """Return whether a run is raised or lowered."""
        shifts = () if run is None else (style.shift for style in self._looks(run))
        return _SHIFTS.get(next(filter(None, shifts), ""), "")

    def _looks(self, run: Element) -> list[_Style]:
        return [_look(_Style("", ""), run), *self._chain(value_of(run, "rStyle"))]

    def _chain(self, style_id: str) -> list[_Style]:
        """Return a style and those below it; a ring of styles ends where it begins."""
        chain: list[_Style] = []
        while (style := self._styles.get(style_id)) is not None and len(chain) < _DEPTH_MAX:
            chain.append(style)
            style_id = style.based_on
        return chain


def value_of(element: Element, name: str) -> str:
    """Return the value of a property: of the child of this name."""
    node = element.find(f"{W}{name}")
    return "" if node is None else node.get(f"{W}val", "")


def is_on(value: str | None, absent: bool = True) -> bool:
    """Return whether a switch is on; a property without a value is."""
    return absent if value is None else value not in ("0", "false", "off", "none")


def small_int(value: str | None) -> int | None:
    """Return a whole number of at most nine digits; None for all else."""
    return int(value) if value and len(value) < 10 and value.isascii() and value.isdigit() else None


def is_code(names: list[str]) -> bool:
    """Return whether paragraphs of a style of these names are code."""
    return any(_CODE_NAME.fullmatch(name) for name in names)


def _style(node: Element) -> _Style:
    style = _Style(value_of(node, "name").strip(), value_of(node, "basedOn"))
    if (properties := node.find(f"{W}pPr")) is not None:
        _properties(style, properties)
    return style if (run := node.find(f"{W}rPr")) is None else _look(style, run)


def _look(style: _Style, run: Element) -> _Style:
    """Take what the properties of a run say of its look."""
    for name, reason in _LEFT_OUT.items():
        if (switch := run.find(f"{W}{name}")) is not None:
            style.switches[reason] = style.switches.get(reason, False) or is_on(switch.get(f"{W}val"))
    style.shift = value_of(run, "vertAlign")
    return style


def _left_out(chain: list[_Style], around: str) -> str:
    """Return why text of these styles, the nearest first, is left out; where none says so, as the text around it."""
    for reason in ("hidden text", STRUCK):
        found = next((style.switches[reason] for style in chain if reason in style.switches), None)
        if found or (found is None and around == reason):
            return reason
    return ""


def _properties(style: _Style, properties: Element) -> None:
    style.outline = small_int(value_of(properties, "outlineLvl"))
    numbering = properties.find(f"{W}numPr")
    if numbering is not None:
        style.list_id = value_of(numbering, "numId") or None
        style.list_level = small_int(value_of(numbering, "ilvl"))


def heading_level(outline: int | None, names: list[str]) -> int:
    """Return the level of a heading by its outline level, else by the name of its style."""
    if outline is not None:
        return outline + 1 if outline < 9 else 0
    for name in names:
        if match := _HEADING_NAME.fullmatch(name):
            return int(match[1])
        if name.lower() in _TITLES:
            return 1
    return 0
