"""Styles and numbers of a Word document: what a paragraph is by its own properties, its style and those below it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from rag_assets.steps.formats.element_tree import Element
from rag_assets.steps.formats.text_marks import STRUCK, Mark

LEVELS = 9
_PLACE = re.compile(r"%([1-9])")
_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl")),
    *((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)

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
    """The kind of a paragraph: a heading's level (0: none), its list, the reason to leave it out, whether it is
    generated, code."""

    level: int = 0
    list_id: str = ""  # "" or "0": in no list
    list_level: int = 0
    left_out: str = ""
    contents: bool = False
    code: bool = False


@dataclass
class _WordStyle:
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
        self._styles: dict[str, _WordStyle] = {}
        self._default = ""
        for node in () if tree is None else tree.iterchildren(f"{W}style"):
            name = node.get(f"{W}styleId", "")
            style = _WordStyle(value_of(node, "name").strip(), value_of(node, "basedOn"))
            if (properties := node.find(f"{W}pPr")) is not None:
                _properties(style, properties)
            self._styles[name] = style if (run := node.find(f"{W}rPr")) is None else _look(style, run)
            if node.get(f"{W}type") == "paragraph" and is_on(node.get(f"{W}default"), absent=False):
                self._default = name

    def paragraph(self, properties: Element | None) -> ParagraphKind:
        """Return the kind of a paragraph with these properties (`w:pPr`)."""
        own = _WordStyle("", "")
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

    def _looks(self, run: Element) -> list[_WordStyle]:
        return [_look(_WordStyle("", ""), run), *self._chain(value_of(run, "rStyle"))]

    def _chain(self, style_id: str) -> list[_WordStyle]:
        """Return a style and those below it; a ring of styles ends where it begins."""
        chain: list[_WordStyle] = []
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


def _look(style: _WordStyle, run: Element) -> _WordStyle:
    for name, reason in _LEFT_OUT.items():
        if (switch := run.find(f"{W}{name}")) is not None:
            style.switches[reason] = style.switches.get(reason, False) or is_on(switch.get(f"{W}val"))
    style.shift = value_of(run, "vertAlign")
    return style


def _left_out(chain: list[_WordStyle], around: str) -> str:
    """Return why text of these styles, the nearest first, is left out; if none says so, as the text around it."""
    for reason in ("hidden text", STRUCK):
        found = next((style.switches[reason] for style in chain if reason in style.switches), None)
        if found or (found is None and around == reason):
            return reason
    return ""


def _properties(style: _WordStyle, properties: Element) -> None:
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


@dataclass
class _NumberLevel:
    form: str = "decimal"
    text: str = ""
    start: int = 1
    restart: int | None = None  # the level (from 1) below which it begins anew; 0: never; None: every lower one


@dataclass
class _List:
    """A list's levels, and the counters that all its instances go on with."""

    levels: dict[int, _NumberLevel]
    counts: dict[int, int] = field(default_factory=dict)


class Numbering:
    """Counts the numbered paragraphs of one document in its order."""

    def __init__(self, tree: Element | None) -> None:
        self._lists: dict[str, _List] = {}
        self._overrides: dict[str, dict[int, int]] = {}
        self._started: set[tuple[str, int]] = set()
        if tree is not None:
            abstract: dict[str, _List] = {}
            styled: dict[str, _List] = {}
            links: dict[str, str] = {}
            for node in tree.iterchildren(f"{W}abstractNum"):
                name = node.get(f"{W}abstractNumId", "")
                abstract[name] = _List(dict(map(_level, node.iterchildren(f"{W}lvl"))))
                if style := value_of(node, "styleLink"):
                    styled[style] = abstract[name]
                if style := value_of(node, "numStyleLink"):
                    links[name] = style
            for node in tree.iterchildren(f"{W}num"):
                name, base = node.get(f"{W}numId", ""), value_of(node, "abstractNumId")
                found = styled.get(links[base]) if base in links else abstract.get(base)
                if found is not None:
                    self._lists[name] = self._with_overrides(name, node, found)

    def _with_overrides(self, name: str, node: Element, base: _List) -> _List:
        """Return the list of an instance: the shared one, unless it defines levels of its own."""
        levels: dict[int, _NumberLevel] = {}
        for override in node.iterchildren(f"{W}lvlOverride"):
            place = small_int(override.get(f"{W}ilvl")) or 0
            if (own := override.find(f"{W}lvl")) is not None:
                levels[place] = _level(own)[1]
            start = small_int(value_of(override, "startOverride"))
            if start is not None:
                self._overrides.setdefault(name, {})[place] = start
        return _List({**base.levels, **levels}, base.counts) if levels else base

    def label(self, list_id: str, level: int) -> tuple[str, bool] | None:
        """Count a paragraph of a list; return its number as shown and whether it is only a bullet.

        None if there is no such list.
        """
        numbers = self._lists.get(list_id)
        if numbers is None:
            return None
        level = min(level, LEVELS - 1)
        definition = numbers.levels.get(level, _NumberLevel(form="bullet"))
        first = (list_id, level) not in self._started
        self._started.add((list_id, level))
        override = self._overrides.get(list_id, {}).get(level)
        if first and override is not None:
            numbers.counts[level] = override
        else:
            numbers.counts[level] = numbers.counts.get(level, definition.start - 1) + 1
        for lower in range(level + 1, LEVELS):
            restart = numbers.levels.get(lower, _NumberLevel()).restart
            if restart is None or (restart and level < restart):
                numbers.counts.pop(lower, None)
        if definition.form in ("bullet", "none") or not _PLACE.search(definition.text):
            return definition.text if definition.form == "none" else "-", definition.form != "none"
        return _PLACE.sub(lambda place: self._shown(numbers, int(place[1]) - 1, level), definition.text).strip(), False

    def _shown(self, numbers: _List, place: int, level: int) -> str:
        definition = numbers.levels.get(place, _NumberLevel())
        count = numbers.counts.get(place)
        if count is None:
            count = numbers.counts[place] = definition.start
        legal = place < level and numbers.levels.get(level, definition).form == "decimal" and definition.form == "none"
        return number_text(count, "decimal" if legal else definition.form)


def _level(node: Element) -> tuple[int, _NumberLevel]:
    start, restart = small_int(value_of(node, "start")), small_int(value_of(node, "lvlRestart"))
    form = value_of(node, "numFmt") or "decimal"
    definition = _NumberLevel(form, value_of(node, "lvlText"), 1 if start is None else start, restart)
    return small_int(node.get(f"{W}ilvl")) or 0, definition


def number_text(count: int, form: str) -> str:
    """Return a number in a form: decimal, letters or Roman; other forms as decimal."""
    if form == "decimalZero":
        return f"{count:02}"
    text = ""
    if 1 <= count <= 3999 and form in ("lowerLetter", "upperLetter"):
        text = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1)
    elif 1 <= count <= 3999 and form in ("lowerRoman", "upperRoman"):
        left = count
        for value, letters in _ROMAN:
            text += letters * (left // value)
            left %= value
    return (text.upper() if form.startswith("upper") else text) or str(count)
