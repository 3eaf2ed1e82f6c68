"""A text that is checked, as claims: sentences, items and rows, each with its place and with what it hangs from.

Belongs here: cutting, and what is no claim. Does not belong here: what the pages say of a claim (`verdicts`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rag_serving.answering.selection.completion import kept_together
from rag_serving.answering.selection.layout import Layout
from rag_serving.records.passages import Chunk
from rag_serving.text.orders import is_order, orders_assistant
from rag_serving.text.small_talk import remark_of
from rag_serving.text.structure import Structure
from rag_serving.text.units import Unit, units, word_count

_FEWEST_WORDS = {"table": 2}
_MOST_UNITS = 80  # of a part that is laid out by itself, longer lists and tables aside
_LONGEST = 2_000
_HEADING = re.compile(r"[ \t]*(#{1,6})\s")
_OPINION = re.compile(
    r"\b(?:i|we) (?:\w+ly )?(?:think|believe|feel|guess|hope|suppose|reckon|love|like|prefer|wish|(?:am|are) sure)\b"
    r"|\b(?:in (?:my|our) (?:opinion|view|experience)|imho|personally|it seems to me|arguably|hopefully)\b"
    r"|\b(?:ich|wir) (?:glaube|denke|finde|meine|hoffe)n?\b|\bmeiner meinung nach\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class TextClaim:
    """A unit of a checked text. `start` and `end`: its offsets in the whole text."""

    unit: Unit
    chunk: Chunk  # the part of the text around it
    start: int
    end: int
    claims: bool  # whether it states anything

    @property
    def text(self) -> str:
        return self.unit.of(self.chunk.text)

    @cached_property
    def said(self) -> str:
        """Return what it says by itself: an item with its lead-in, the cells of a row with their columns."""
        return kept_together(Layout(self.chunk), self.unit.start, self.unit.end).text

    @cached_property
    def alone(self) -> str:
        """Return the same without the sentences around it; what hangs from others is not cut off."""
        return Layout(self.chunk).alone(self.unit).text


def claims_of(text: str) -> Iterator[TextClaim]:
    """Yield the units of a text in order, headings and questions too."""
    for start, chunk in _parts(text):
        for unit in chunk.parts.units:
            yield TextClaim(unit, chunk, start + unit.start, start + unit.end, _claims(chunk.text, unit))


def _claims(text: str, unit: Unit) -> bool:
    """Return whether a unit states something: no heading, question, greeting, opinion, order, code or lead-in."""
    said = unit.of(text)
    plain = said.strip(" *_`\"'“”")
    if unit.kind in ("heading", "header", "code") or not plain or plain[-1] in "?？:：" or len(said) > _LONGEST:
        return False
    if word_count(text, unit.start, unit.end) < _FEWEST_WORDS.get(unit.kind, 3):
        return False
    return not (remark_of(said) or _OPINION.search(said) or is_order(said) or orders_assistant(said))


def _parts(text: str) -> Iterator[tuple[int, Chunk]]:
    """Yield a text in parts, each with where it begins: a section, or a run of paragraphs of a long one."""
    found = units(text)
    headings, first = list[str](), 0
    for place, unit in enumerate(found):
        begins = unit.kind == "heading"
        if (begins or (place - first >= _MOST_UNITS and unit.kind == "sentence")) and place > first:
            yield _part(text, found[first:place], tuple(headings))
            first = place
        if begins:
            line = text[text.rfind("\n", 0, unit.start) + 1 : unit.start]
            level = _HEADING.match(line)
            headings[(len(level[1]) - 1 if level else 0) :] = [unit.of(text)]
    if found:
        yield _part(text, found[first:], tuple(headings))


def _part(text: str, found: Sequence[Unit], headings: tuple[str, ...]) -> tuple[int, Chunk]:
    start = found[0].begin
    end = text.find("\n", found[-1].end)
    end = len(text) if end < 0 else end
    moved = tuple(
        unit._replace(
            start=unit.start - start, end=unit.end - start, marked=unit.marked - start if unit.marked >= 0 else -1
        )
        for unit in found
    )
    title = headings[0] if headings else ""
    chunk = Chunk("", "", 0, 0, "", title, headings, "", "", text[start:end], start, end, "paragraph",
                  structure=Structure(moved).encode())  # fmt: skip
    return start, chunk
