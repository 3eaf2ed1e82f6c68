"""Footnotes: read beside what they are about, not at the end of the page.

Belongs here: which paragraphs of a page are notes, and which part of it has their mark.
Does not belong here: paragraphs (`paragraphs`), a table's cells (`tables`).

A note begins with its mark, in letters no larger than those of the text; the mark stands glued to a word or a cell
above it, as no spaces are set before superscripts. A note whose mark is nowhere above stays where it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_NOTE = re.compile(r"(?P<mark>\(\d{1,2}\)|\([a-z]\)|\d{1,2}|[⁰¹²³⁴-⁹]{1,2}|[*†‡§]{1,3})\s?(?=[^\W\d_a-z]|[\"“(])")
_FIGURES, _RAISED = "0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"


class Part(NamedTuple):
    """A paragraph or a table of a page, in reading order. `size`: of its letters; 0: of a table."""

    text: str
    size: float


def is_note(text: str) -> bool:
    """Return whether a text begins with the mark of a note."""
    return _NOTE.match(text) is not None


def beside_marks(parts: Sequence[Part]) -> list[int]:
    """Return the places of the parts of a page in the order in which they are read: each note after the part that has
    its mark."""
    after: dict[int, list[int]] = {}
    moved: set[int] = set()
    for at, part in enumerate(parts):
        match = _NOTE.match(part.text) if part.size else None
        if match is None:
            continue
        marked = _marked(parts, at, match["mark"])
        if marked is not None:
            after.setdefault(marked, []).append(at)
            moved.add(at)
    order: list[int] = []
    for at in range(len(parts)):
        if at not in moved:
            order += [at, *after.get(at, ())]
    return order


def _marked(parts: Sequence[Part], note: int, mark: str) -> int | None:
    """Return the place of the last part above a note that has its mark; None where none has."""
    marks = {mark, mark.translate(str.maketrans(_FIGURES, _RAISED)), mark.translate(str.maketrans(_RAISED, _FIGURES))}
    for at in range(note - 1, -1, -1):
        part = parts[at]
        if not is_note(part.text) and _fits(part, parts[note]) and any(_has_glued(part.text, one) for one in marks):
            return at
    return None


def _has_glued(text: str, mark: str) -> bool:
    """Return whether a mark stands in a text behind a word, and is no part of another number or word."""
    at = text.find(mark, 1)
    while at > 0:
        before, after = text[max(at - 2, 0) : at], text[at + len(mark) : at + len(mark) + 2]
        is_number = after[:1].isalnum() or after[:1] == "%" or (after[:1] in (".", ",") and after[1:].isdigit())
        if not is_number and (mark[0] == "(" or mark[0] in _RAISED or _ends_word(before)):
            return True
        at = text.find(mark, at + 1)
    return False


def _ends_word(end: str) -> bool:
    return end[-1:].isalpha() or (end[-1:] in '.,)”"' and end[:1].isalpha())


def _fits(part: Part, note: Part) -> bool:
    return not part.size or note.size <= part.size
