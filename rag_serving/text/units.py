"""What can be quoted from a passage: its sentences, list items, table rows and code lines, as character ranges.

Belongs here: splitting Markdown text into units and words without changing a character.
Does not belong here: which unit answers a question (`answering.writing.generator`), or how a quote is shown
(`answering.citations`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

Kind = Literal["sentence", "list", "table", "code", "heading"]

_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_ROW = re.compile(r"\s*\|")
_RULE = re.compile(r"[\s|:=_*-]*$")
_QUOTED = re.compile(r"\s*(?:>\s?)+")
_END = re.compile(r"(?:(?<![.!?…])[.!?…]+[\"'”’»)\]*_`]*(?=\s+[^\sa-z])|[。！？]+[」』”]?)")
# Marks that come in pairs; a straight quotation mark opens before a word and closes behind one (5" is a length).
_PAIRED = re.compile(r"[()\[\]“”„«»]|(?<![^\s(\[])\"(?=\S)|(?<=[^\s\d])\"(?![^\s.,;:!?)\]])")
_CLOSING = {"(": ")", "[": "]", "“": "”", "„": "“", "«": "»", '"': '"'}
_CLOSED_QUOTE = re.compile(r"(?<=\S)\"(?![^\s.,;:!?)\]])")
_LONGEST_INSIDE = 300
_WORD = re.compile(r"\w")
_PIECE = re.compile(r"\S+")
_ABBREVIATED = """
e.g i.e etc vs cf no nos fig figs eq sec ch approx ca resp incl excl dr mr mrs ms prof st inc ltd co corp jr sr al
u.s u.k a.m p.m v vol pp ed
"""
_ABBREVIATIONS = frozenset(_ABBREVIATED.split())


@dataclass(frozen=True)
class Unit:
    """A range of a passage's text that stands on its own."""

    start: int
    end: int
    kind: Kind

    def of(self, text: str) -> str:
        return text[self.start : self.end]


def units(text: str) -> list[Unit]:
    """Return the units of a Markdown passage in order; white space, markers and rules between them belong to none."""
    parsed: list[Unit] = []
    paragraph: list[tuple[int, int]] = []
    kind: Kind = "sentence"
    fenced = False

    def flush() -> None:
        if paragraph:
            parsed.extend(_sentences(text, paragraph[0][0], paragraph[-1][1], kind))
            paragraph.clear()

    for start, end in _lines(text):
        line = text[start:end]
        if _FENCE.match(line):
            flush()
            fenced = not fenced
        elif fenced:
            parsed.extend(_trimmed(text, start, end, "code"))
        elif _RULE.match(line):
            flush()
            if "|" in line and parsed and parsed[-1].kind == "table":
                parsed[-1] = replace(parsed[-1], kind="heading")
        elif heading := _HEADING.match(line):
            flush()
            parsed.extend(_trimmed(text, start + heading.end(), end, "heading"))
        elif _ROW.match(line):
            flush()
            parsed.extend(_trimmed(text, start, end, "table", " \t|"))
        elif item := _ITEM.match(line):
            flush()
            kind = "list"
            paragraph.append((start + item.end(), end))
        else:
            if not paragraph:
                kind = "sentence"
            quoted = _QUOTED.match(line)
            paragraph.append((start + (quoted.end() if quoted and not paragraph else 0), end))
    flush()
    return parsed


def words(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Return the ranges of the words in `text[start:end]`: what white space parts and has a letter or digit."""
    return [span for span in pieces(text, start, end) if _WORD.search(text, *span)]


def pieces(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Return the ranges of what white space parts in `text[start:end]`: words, and signs that stand alone."""
    return [match.span() for match in _PIECE.finditer(text, start, len(text) if end is None else end)]


def unit_at(text: str, position: int) -> Unit | None:
    """Return the unit that holds this character, or None between units."""
    parsed, starts = _known_units(text)
    place = bisect_right(starts, position) - 1
    return parsed[place] if place >= 0 and position < parsed[place].end else None


@lru_cache(maxsize=16)
def _known_units(text: str) -> tuple[list[Unit], list[int]]:
    """Return the units of a text and where they begin: verification asks for those of one passage again and again."""
    parsed = units(text)
    return parsed, [unit.start for unit in parsed]


def lead_in(text: str, unit: Unit) -> Unit | None:
    """Return the sentence or heading that introduces the list, table or code this unit is of: it ends with a colon."""
    lead: Unit | None = None
    for other in units(text) if unit.kind in ("list", "table", "code") else ():
        if other.start >= unit.start:
            break
        if other.kind != unit.kind and not is_table_head(text, other):
            lead = other if other.of(text).rstrip("*_ ").endswith(":") else None
    return lead


def is_table_head(text: str, unit: Unit) -> bool:
    """Return whether a unit is the row that names a table's columns."""
    return unit.kind == "heading" and "|" in text[text.rfind("\n", 0, unit.start) + 1 : unit.start]


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line in text.splitlines(keepends=True):
        yield start, start + len(line)
        start += len(line)


def _sentences(text: str, start: int, end: int, kind: Kind) -> Iterator[Unit]:
    begin = start
    for stop in _END.finditer(text, start, end):
        if not _is_abbreviation(text[begin : stop.start()]) and not _is_inside(text, begin, stop.end(), end):
            yield from _trimmed(text, begin, stop.end(), kind)
            begin = stop.end()
    yield from _trimmed(text, begin, end, kind)


def _is_inside(text: str, begin: int, stop: int, end: int) -> bool:
    """Return whether brackets or quotation marks that were opened since `begin` are closed behind this full stop.

    What stands between is a part of the sentence around it: `It restarts (never by hand. Ask first.) at night.`
    """
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


def _is_abbreviation(before: str) -> bool:
    """Return whether the full stop after these words ends no sentence: `e.g.`, `Fig.`, an initial, a list number."""
    last = re.split(r"[\s(\[]", before)[-1].lower()
    return last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()) or not before.strip("0123456789 \n\t")


def _trimmed(text: str, start: int, end: int, kind: Kind, strip: str = "") -> Iterator[Unit]:
    """Yield the range without outer white space (or `strip`); nothing where nothing is left."""
    while start < end and (text[start].isspace() or text[start] in strip):
        start += 1
    while end > start and (text[end - 1].isspace() or text[end - 1] in strip):
        end -= 1
    if start < end:
        yield Unit(start, end, kind)
