"""Styles of OpenDocument files: which are headings, code, hidden; how lists and headings are numbered."""

from __future__ import annotations

from dataclasses import dataclass, field

from rag_assets.steps.files.office.parts import number_text, small_int
from rag_assets.steps.formats.blocks import Mark
from rag_assets.steps.formats.element_tree import Element

_NAMESPACE = "urn:oasis:names:tc:opendocument:xmlns:{}:1.0"
OFFICE, STYLE, TEXT, TABLE, DRAW, PRESENTATION = (
    f"{{{_NAMESPACE.format(name)}}}" for name in ("office", "style", "text", "table", "drawing", "presentation")
)
SVG = f"{{{_NAMESPACE.format('svg-compatible')}}}"
XLINK = "{http://www.w3.org/1999/xlink}"
_DEPTH_MAX = 30  # styles based on styles
_FORMS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_CODE = frozenset({"Preformatted_20_Text", "Preformatted Text", "Source_20_Code", "Code"})


@dataclass(frozen=True)
class ListLevel:
    """The numbering of one level of a list or of headings."""

    form: str = ""  # empty: no number
    prefix: str = ""
    suffix: str = ""
    shown: int = 1  # how many levels a number shows
    start: int = 1
    bullet: bool = False


@dataclass
class _OpenStyle:
    parent: str
    hidden: bool
    unseen: bool  # a sheet that is not displayed, a slide that is not shown
    mark: Mark | None  # None: it says nothing of that


@dataclass
class OpenStyles:
    """The styles of one file."""

    outline: dict[int, ListLevel] = field(default_factory=dict)
    lists: dict[str, dict[int, ListLevel]] = field(default_factory=dict)
    _styles: dict[tuple[str, str], _OpenStyle] = field(default_factory=dict)

    def read(self, tree: Element | None) -> None:
        """Add the styles of a part."""
        if tree is None:
            return
        for node in tree.iter(f"{STYLE}style"):
            self._styles[node.get(f"{STYLE}family", ""), node.get(f"{STYLE}name", "")] = _style(node)
        for node in tree.iter(f"{TEXT}list-style"):
            self.lists[node.get(f"{STYLE}name", "")] = _levels(node)
        for node in tree.iter(f"{TEXT}outline-style"):
            self.outline = _levels(node)

    def is_code(self, name: str) -> bool:
        """Return whether paragraphs of a style are code."""
        return not _CODE.isdisjoint(self._names("paragraph", name))

    def is_title(self, name: str) -> bool:
        """Return whether a paragraph of a style is the title of the document."""
        return "Title" in self._names("paragraph", name)

    def is_hidden(self, family: str, name: str) -> bool:
        """Return whether text of a style is hidden."""
        return any(self._styles[family, each].hidden for each in self._names(family, name))

    def mark(self, family: str, name: str) -> Mark:
        """Return how a style marks text."""
        marks = (self._styles[family, each].mark for each in self._names(family, name))
        return next((mark for mark in marks if mark is not None), "")

    def is_unseen(self, family: str, name: str) -> bool:
        """Return whether a sheet, a section or a slide of a style is not displayed."""
        style = self._styles.get((family, name))
        return style is not None and style.unseen

    def _names(self, family: str, name: str) -> list[str]:
        names: list[str] = []
        while (style := self._styles.get((family, name))) is not None and len(names) < _DEPTH_MAX:
            names.append(name)
            name = style.parent
        return names


@dataclass
class HeadingNumbers:
    """Counts the headings of a document."""

    outline: dict[int, ListLevel]
    _counts: list[int] = field(default_factory=list)

    def label(self, level: int) -> str:
        """Count a heading and return its number as shown; empty if its level has none."""
        definition = self.outline.get(level, ListLevel())
        counts = self._counts
        counts[level:] = []
        while len(counts) < level - 1:  # levels that are left out count as begun
            counts.append(self.outline.get(len(counts) + 1, ListLevel()).start)
        if len(counts) < level:
            counts.append(definition.start - 1)
        counts[level - 1] += 1
        return label_of(definition, counts, self.outline) if definition.form else ""


def label_of(definition: ListLevel, counts: list[int], levels: dict[int, ListLevel]) -> str:
    """Return the number of the last of the counts as shown, with those of the levels above it where they are shown."""
    first = max(len(counts) - definition.shown, 0)
    numbers = []
    for place in range(first, len(counts)):
        form = levels.get(place + 1, definition).form or ("" if place < len(counts) - 1 else definition.form)
        if form:
            numbers.append(number_text(counts[place], form))
    return f"{definition.prefix}{'.'.join(numbers)}{definition.suffix}".strip()


def _style(node: Element) -> _OpenStyle:
    hidden = any(each.get(f"{TEXT}display") == "none" for each in node.iterchildren(f"{STYLE}text-properties"))
    unseen = any(each.get(f"{TABLE}display") == "false" for each in node.iterchildren(f"{STYLE}table-properties"))
    unseen |= any(each.get(f"{PRESENTATION}visibility") == "hidden" for each in node)
    unseen |= any(each.get(f"{TEXT}display") == "none" for each in node.iterchildren(f"{STYLE}section-properties"))
    return _OpenStyle(node.get(f"{STYLE}parent-style-name", ""), hidden, unseen, _mark(node))


def _mark(node: Element) -> Mark | None:
    mark: Mark | None = None
    for properties in node.iterchildren(f"{STYLE}text-properties"):
        lines = [properties.get(f"{STYLE}text-line-through-{part}") for part in ("style", "type")]
        place = (properties.get(f"{STYLE}text-position") or "").split(" ")[0]
        if any(line not in (None, "none") for line in lines):
            return "struck"
        if place:
            mark = "lowered" if place == "sub" or place[:1] == "-" else "" if not place.strip("0%.") else "raised"
        elif any(lines):
            mark = mark or ""
    return mark


def _levels(node: Element) -> dict[int, ListLevel]:
    levels = {}
    for each in node:
        place = small_int(each.get(f"{TEXT}level")) or 1
        levels[place] = ListLevel(
            _FORMS.get(each.get(f"{STYLE}num-format", ""), ""),
            each.get(f"{STYLE}num-prefix", ""),
            each.get(f"{STYLE}num-suffix", ""),
            small_int(each.get(f"{TEXT}display-levels")) or 1,
            1 if (start := small_int(each.get(f"{TEXT}start-value"))) is None else start,
            each.tag != f"{TEXT}list-level-style-number" and each.tag != f"{TEXT}outline-level-style",
        )
    return levels
