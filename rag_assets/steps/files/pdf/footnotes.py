"""Footnotes: read beside what they are about, not at the end of the page.

Belongs here: which paragraphs of a page are notes, and which part of it has their mark.
Does not belong here: paragraphs (`paragraphs`), a table's cells (`tables`).

A note begins with its mark, in letters no larger than those of the text; the mark stands glued to a word or a cell above
it, as no spaces are set before superscripts. A note whose mark is nowhere above stays where it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_NOTE = re.compile(r"(?P<mark>\(\d{1,2}\)|\([a-z]\)|\d{1,2}|[¹²³⁴-⁹]|[*†‡§]{1,3})\s?(?=[^\W\d_a-z]|[\"“(])")
_SUPERSCRIPT = str.maketrans("123456789", "¹²³⁴⁵⁶⁷⁸⁹")


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
    signs = {re.escape(mark), re.escape(mark.translate(_SUPERSCRIPT))}
    before = r"(?:(?<=[^\W\d_])|(?<=[^\W\d_][.,)”\"]))" if mark[0] != "(" else r"(?<=\S)\s?"
    glued = re.compile(rf"{before}(?:{'|'.join(sorted(signs))})(?![\w%]|[.,]\d)")
    for at in range(note - 1, -1, -1):
        part = parts[at]
        if not is_note(part.text) and part.size >= 0 and _fits(part, parts[note]) and glued.search(part.text):
            return at
    return None


def _fits(part: Part, note: Part) -> bool:
    return not part.size or note.size <= part.size
