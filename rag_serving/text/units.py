"""The units of a text: its sentences, list items, table rows and code lines, as character ranges."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from rag_serving.text.normalization import OMISSION

Kind = Literal["sentence", "list", "table", "code", "heading", "header"]
"""`header`: the row of a table that names its columns."""
Block = tuple[str, int, int]  # a block of a section as ingest knows it: its kind, and where it begins and ends

_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+")
_ITEM = re.compile(r"(\s*)(?:[-*+]|(\d{1,3})[.)])\s+(?:\[[ xX]\]\s+)?")
_ROW = re.compile(r"\s*\|")
_RULE = re.compile(r"[\s|:=_*-]*$")
_BAR = re.compile(r"(?<!\\)\|")
_QUOTED = re.compile(r"\s*(?:>\s?)+")
_END = re.compile(r"(?:(?<![.!?…])[.!?…]+[\"'”’»)\]*_`]*(?=\s+[^\sa-z])|[。！？]+[」』”]?)")
# Marks that come in pairs; a straight quotation mark opens before a word and closes behind one (5" is a length).
_PAIRED = re.compile(r"[()\[\]“”„«»]|(?<![^\s(\[])\"(?=\S)|(?<=[^\s\d])\"(?![^\s.,;:!?)\]])")
_CLOSING = {"(": ")", "[": "]", "“": "”", "„": "“", "«": "»", '"': '"'}
_CLOSED_QUOTE = re.compile(r"(?<=\S)\"(?![^\s.,;:!?)\]])")
_LONGEST_INSIDE = 300
_WORD = re.compile(r"\w")
_PIECE = re.compile(r"\S+")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_ABBREVIATED = """
e.g i.e etc vs cf no nos fig figs eq sec ch approx ca resp incl excl dr mr mrs ms prof st inc ltd co corp jr sr al
u.s u.k a.m p.m v vol pp ed
"""
_ABBREVIATIONS = frozenset(_ABBREVIATED.split())


class Unit(NamedTuple):
    """A self-contained range of a text, and its place in the whole."""

    start: int
    end: int
    kind: Kind
    block: int = 0  # number of its paragraph, item, table or block of code
    marked: int = -1  # where its line's marker, its row's bar or the fence above it begins; -1: it follows none
    list_number: int = -1  # of the list that it is in; -1: none
    item: int = -1  # number of its item in that list, nested items being of the one above
    depth: int = 0  # of a nested item
    number: int = -1  # that an item of an ordered list begins with; -1: none

    def of(self, text: str) -> str:
        return text[self.start : self.end]

    @property
    def begin(self) -> int:
        """Its start including marker, bar or fence."""
        return self.start if self.marked < 0 else self.marked

    def leads(self, text: str) -> bool:
        """Return whether it ends with a colon."""
        return text[self.end - 1] in ":："


def units(text: str, blocks: Sequence[Block] = ()) -> list[Unit]:
    """Return the units of a Markdown text in order; white space, markers and rules between them belong to none.
    `blocks` are those of a section: with them no code and no table has to be guessed."""
    splitter = _Splitter(text)
    for kind, start, end in blocks or [("", 0, len(text))]:
        splitter.read(kind, start, end)
    splitter.close()
    return _with_lists(text, splitter)


def clipped(text: str, found: Sequence[Unit], start: int, end: int) -> list[Unit]:
    """Return the units of a text within a range, with offsets from its start. A unit cut by the range is reduced to the
    part inside, without a marker if its beginning is cut off."""
    inside = []
    for unit in found[bisect_right(found, start, key=lambda unit: unit.end) :]:
        if unit.start >= end:
            break
        for part in _trimmed(text, max(unit.start, start), min(unit.end, end), unit.kind):
            is_whole = part.start == unit.start and unit.begin >= start
            marked, number = (unit.marked - start, unit.number) if is_whole and unit.marked >= 0 else (-1, -1)
            inside.append(unit._replace(start=part.start - start, end=part.end - start, marked=marked, number=number))
    return inside


def words(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Return the ranges of the words in `text[start:end]`: runs between white space with a letter or digit."""
    return [span for span in pieces(text, start, end) if _WORD.search(text, *span)]


def word_count(text: str, start: int = 0, end: int | None = None) -> int:
    """Return how many words `text[start:end]` has; of a script without spaces two characters count as one."""
    end = len(text) if end is None else end
    unspaced = len(_UNSPACED.findall(text, start, end))
    return len(words(text, start, end)) + unspaced // 2


def pieces(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Return the ranges of the pieces between white space in `text[start:end]`: words, and isolated signs."""
    return [match.span() for match in _PIECE.finditer(text, start, len(text) if end is None else end)]


def is_whole(text: str) -> bool:
    """Return whether a text is complete; an incomplete one must be neither quoted nor verified."""
    return OMISSION not in text


def cells_of(row: str) -> list[str]:
    """Return the cells of a row of a table, with or without the bars around it."""
    inner = row.strip().removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in _BAR.split(inner)]


class _Splitter:
    """Reads a text block by block, or as one where its blocks are not known."""

    def __init__(self, text: str) -> None:
        self.found: list[Unit] = []
        self.indents: dict[int, int] = {}  # of items, by their place among the units
        self._text = text
        self._block = -1
        self._end = 0  # of the block that was read last
        self._paragraph: list[tuple[int, int]] = []
        self._item: tuple[int, int, int] | None = None  # the position of a paragraph's marker, its indent and number

    def read(self, kind: str, start: int, end: int) -> None:
        """Read one block of a kind that ingest knows; "" is any. A paragraph directly below continues the item above
        it. The indentation before a block is part of its line."""
        if kind in ("code", "table", "heading") or "\n\n" in self._text[self._end : start]:
            self._flush()
        self._end = end
        while start and self._text[start - 1] in " \t":
            start -= 1
        lines = list(_lines(self._text, start, end))
        if kind == "code":
            self._read_code(lines)
        elif kind == "table" and lines:
            self._read_row(*lines[0])
            self._read_lines(lines[1:], has_fences=False)
        else:
            self._read_lines(lines, has_fences=not kind)

    def close(self) -> None:
        """Close the last part as a paragraph of its own."""
        self._flush()

    def _read_lines(self, lines: Sequence[tuple[int, int]], has_fences: bool) -> None:
        fenced: list[tuple[int, int]] = []
        for start, end in lines:
            is_fence = _FENCE.match(self._text, start, end)
            if fenced or (is_fence and has_fences):
                self._flush()
                fenced.append((start, end))
                if is_fence and len(fenced) > 1:
                    self._read_code(fenced)
                    fenced = []
            elif is_fence:
                self._flush()
            else:
                self._read_line(start, end)
        if fenced:
            self._flush()
            self._read_code(fenced)

    def _read_line(self, start: int, end: int) -> None:
        line = self._text[start:end]
        if _RULE.match(line):
            self._flush()
            if "|" in line and self.found and self.found[-1].kind == "table":
                self.found[-1] = self.found[-1]._replace(kind="header")
        elif heading := _HEADING.match(line):
            self._flush()
            self._block += 1
            self.found += (
                unit._replace(block=self._block) for unit in _trimmed(self._text, start + heading.end(), end, "heading")
            )
        elif _ROW.match(line):
            self._flush()
            self._read_row(start, end)
        elif item := _ITEM.match(line):
            self._flush()
            self._item = start + item.end(1), item.end(1), int(item[2] or -1)
            self._paragraph.append((start + item.end(), end))
        else:
            quoted = _QUOTED.match(line)
            self._paragraph.append((start + (quoted.end() if quoted and not self._paragraph else 0), end))

    def _read_row(self, start: int, end: int) -> None:
        """A row goes on with the table above it unless an empty line parts them."""
        above = self.found[-1] if self.found and self.found[-1].kind in ("table", "header") else None
        row = next(_trimmed(self._text, start, end, "table"), None)
        if row:
            self._block += not above or "\n\n" in self._text[above.end : start]
            bar = self._text.index("|", start) if "|" in self._text[start : row.start] else -1
            self.found.append(row._replace(block=self._block, marked=bar))

    def _read_code(self, lines: Sequence[tuple[int, int]]) -> None:
        """Read each line of a block of code as a unit; the first follows the fence, if there is one."""
        if not lines:
            return
        self._block += 1
        marked = -1
        if _FENCE.match(self._text, *lines[0]):
            marked = lines[0][0]
            lines = lines[1:-1] if _FENCE.match(self._text, *lines[-1]) else lines[1:]
        for start, end in lines:
            for unit in _trimmed(self._text, start, end, "code"):
                self.found.append(unit._replace(block=self._block, marked=marked))
                marked = -1

    def _flush(self) -> None:
        if not self._paragraph:
            return
        start, end = self._paragraph[0][0], self._paragraph[-1][1]
        self._block += 1
        for unit in _sentences(self._text, start, end, "list" if self._item else "sentence"):
            unit = unit._replace(block=self._block)
            if self._item:
                marked, indent, number = self._item
                self.indents[len(self.found)] = indent
                unit, self._item = unit._replace(marked=marked, number=number), (-1, -1, -1)
            self.found.append(unit)
        self._paragraph.clear()
        self._item = None


def _with_lists(text: str, read: _Splitter) -> list[Unit]:
    """Return the units with the number of their list, item and depth. A list is a run without a sentence between: its
    items, and code in them; code behind the last item belongs to it only if that leads it in."""
    found, place, lists = read.found, 0, 0
    while place < len(found):
        if found[place].kind != "list":
            place += 1
            continue
        last = end = place
        while end < len(found) and found[end].kind in ("list", "code"):
            last = end if found[end].kind == "list" else last
            end += 1
        stop = end if found[last].leads(text) else last + 1
        indents = {at: read.indents[at] for at in range(place, stop) if read.indents.get(at, -1) >= 0}
        found[place:stop] = _numbered(found[place:stop], lists, {at - place: indents[at] for at in indents})
        lists, place = lists + 1, end
    return found


def _numbered(members: Sequence[Unit], list_number: int, indents: Mapping[int, int]) -> Iterator[Unit]:
    """Yield the units of one list with their places in it; `indents` are those of its items."""
    outermost, item = min(indents.values(), default=0), -1
    open_indents: list[int] = []
    for place, unit in enumerate(members):
        if (indent := indents.get(place)) is not None:
            item += indent == outermost or item < 0
            while open_indents and open_indents[-1] >= indent:
                open_indents.pop()
            open_indents.append(indent)
        yield unit._replace(list_number=list_number, item=item, depth=max(len(open_indents) - 1, 0))


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for line in text[start:end].splitlines(keepends=True):
        yield start, start + len(line)
        start += len(line)


def _sentences(text: str, start: int, end: int, kind: Kind) -> Iterator[Unit]:
    begin = start
    for stop in _END.finditer(text, start, end):
        before = text[begin : stop.start()]
        last = re.split(r"[\s(\[]", before)[-1].lower()
        if not (
            last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()) or not before.strip("0123456789 \n\t")
        ) and not _is_inside(text, begin, stop.end(), end):
            yield from _trimmed(text, begin, stop.end(), kind)
            begin = stop.end()
    yield from _trimmed(text, begin, end, kind)


def _is_inside(text: str, begin: int, stop: int, end: int) -> bool:
    """Return whether brackets or quotation marks opened since `begin` are closed after this full stop. Their content is
    part of the sentence around it: `It restarts (never by hand. Ask first.) at night.`"""
    if stop - begin > _LONGEST_INSIDE:
        return False
    opened: list[str] = []
    for mark in _PAIRED.finditer(text, begin, stop):
        if opened and mark[0] == opened[-1]:
            opened.pop()
        elif closing := _CLOSING.get(mark[0]):
            opened.append(closing)
    if not opened:
        return False
    rest = text[stop : min(end, stop + _LONGEST_INSIDE)]
    return any(closing in rest for closing in opened) if '"' not in opened else bool(_CLOSED_QUOTE.search(rest))


def _trimmed(text: str, start: int, end: int, kind: Kind) -> Iterator[Unit]:
    """Yield the range without outer white space, and of a row its outer bars; nothing if nothing is left."""
    strip = "|" if kind in ("table", "header") else ""
    while start < end and (text[start].isspace() or text[start] in strip):
        start += 1
    while end > start and (text[end - 1].isspace() or text[end - 1] in strip):
        end -= 1
    if start < end:
        yield Unit(start, end, kind)
