"""Numbers of lists and headings in a Word document, as it shows them.

Belongs here: definitions of lists, counters, the text of a number. Does not belong here: which paragraph is in a list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rag_assets.steps.files.office.word_styles import W, small_int, value_of
from rag_assets.steps.formats.element_tree import Element

LEVELS = 9
_PLACE = re.compile(r"%([1-9])")
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"))
_ROMAN_ONES = ((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))


@dataclass
class _Level:
    form: str = "decimal"
    text: str = ""
    start: int = 1
    restart: int | None = None  # the level (from 1) below which it begins anew; 0: never; None: every lower one


@dataclass
class _List:
    """A list's levels, and the counters that all its instances go on with."""

    levels: dict[int, _Level]
    counts: dict[int, int] = field(default_factory=dict)


class Numbering:
    """Counts the numbered paragraphs of one document in its order."""

    def __init__(self, tree: Element | None) -> None:
        self._lists: dict[str, _List] = {}
        self._overrides: dict[str, dict[int, int]] = {}
        self._started: set[tuple[str, int]] = set()
        if tree is not None:
            self._read(tree)

    def _read(self, tree: Element) -> None:
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
        levels: dict[int, _Level] = {}
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

        None where there is no such list.
        """
        numbers = self._lists.get(list_id)
        if numbers is None:
            return None
        level = min(level, LEVELS - 1)
        definition = numbers.levels.get(level, _Level(form="bullet"))
        self._step(list_id, numbers, level, definition)
        if definition.form in ("bullet", "none") or not _PLACE.search(definition.text):
            return definition.text if definition.form == "none" else "-", definition.form != "none"
        return _PLACE.sub(lambda place: self._shown(numbers, int(place[1]) - 1, level), definition.text).strip(), False

    def _step(self, list_id: str, numbers: _List, level: int, definition: _Level) -> None:
        first = (list_id, level) not in self._started
        self._started.add((list_id, level))
        override = self._overrides.get(list_id, {}).get(level)
        if first and override is not None:
            numbers.counts[level] = override
        else:
            numbers.counts[level] = numbers.counts.get(level, definition.start - 1) + 1
        for lower in range(level + 1, LEVELS):
            restart = numbers.levels.get(lower, _Level()).restart
            if restart is None or (restart and level < restart):
                numbers.counts.pop(lower, None)

    def _shown(self, numbers: _List, place: int, level: int) -> str:
        definition = numbers.levels.get(place, _Level())
        count = numbers.counts.get(place)
        if count is None:
            count = numbers.counts[place] = definition.start
        legal = place < level and numbers.levels.get(level, definition).form == "decimal" and definition.form == "none"
        return number_text(count, "decimal" if legal else definition.form)


def _level(node: Element) -> tuple[int, _Level]:
    start, restart = small_int(value_of(node, "start")), small_int(value_of(node, "lvlRestart"))
    form = value_of(node, "numFmt") or "decimal"
    definition = _Level(form, value_of(node, "lvlText"), 1 if start is None else start, restart)
    return small_int(node.get(f"{W}ilvl")) or 0, definition


def number_text(count: int, form: str) -> str:
    """Return a number in a form: decimal, letters or Roman; other forms as decimal."""
    if form == "decimalZero":
        return f"{count:02}"
    if count < 1 or count > 3999:
        return str(count)
    if form in ("lowerLetter", "upperLetter"):
        letters = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1)
        return letters if form == "lowerLetter" else letters.upper()
    if form in ("lowerRoman", "upperRoman"):
        return _roman(count) if form == "lowerRoman" else _roman(count).upper()
    return str(count)


def _roman(count: int) -> str:
    digits = ""
    for value, letters in (*_ROMAN, *_ROMAN_ONES):
        digits += letters * (count // value)
        count %= value
    return digits
