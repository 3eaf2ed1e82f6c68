"""Lines to paragraphs: what belongs together, and words that a line's end parts.

Belongs here: where a paragraph or list item begins, hyphens at line ends. Does not belong here: headings, tables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rag_assets.steps.files.pdf.footnotes import is_note
from rag_assets.steps.files.pdf.records import PageRows, Row
from rag_assets.steps.files.pdf.rows import is_bullet

_SIZES_ALIKE = 0.08
_MORE = 0.35  # of a line's height: how much wider than usual the gap before a paragraph is
_INDENT = 0.9  # of a line's height
_SHORT = 0.8  # of the column's width: a line that ends earlier may be a paragraph's last
_ORDERED = re.compile(r"\(?(?:\d{1,2}|[a-zA-Z]|[ivx]{1,5})[.)]\s")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+|[^\W\d_]{3,}")
_FIRST = re.compile(r"[^\W\d_]+")
_HYPHENS = "-\u00ad\u2010"


class Lines(NamedTuple):
    """The lines of one paragraph, list item or heading."""

    rows: tuple[Row, ...]
    is_item: bool = False


def usual_gap(pages: Iterable[PageRows]) -> float:
    """Return the gap between two lines of a paragraph that is most usual, as a share of their height."""
    gaps = Counter[float]()
    for page in pages:
        for before, row in pairwise(page.rows):
            if before.column == row.column and abs(before.size - row.size) < 0.5 and len(row.cells) == 1:
                gap = (row.y0 - before.y1) / max(row.size, 1.0)
                if -0.5 < gap < 1.5:
                    gaps[round(gap, 1)] += min(len(row.text), 120)
    return gaps.most_common(1)[0][0] if gaps else 0.1


def paragraphs_of(rows: Sequence[Row], usual: float) -> Iterator[Lines]:
    """Yield the paragraphs and list items of lines that follow each other on one page."""
    members: list[Row] = []
    is_item = False
    for row in rows:
        starts_item = _is_item(row)
        if members and (starts_item or _is_new(members, row, usual, is_item)):
            yield Lines(tuple(members), is_item)
            members = []
        if not members:
            is_item = starts_item
        members.append(row)
    if members:
        yield Lines(tuple(members), is_item)


def _is_item(row: Row) -> bool:
    text = row.text
    return is_bullet(text[:1]) and text[1:2] == " " and len(text) > 3 and (text[0] not in "-–—" or text[2].isalpha())


def _is_new(members: Sequence[Row], row: Row, usual: float, is_item: bool) -> bool:
    """Return whether a line begins a paragraph of its own."""
    before = members[-1]
    if abs(row.size - before.size) > _SIZES_ALIKE * max(row.size, before.size) or row.bold != before.bold:
        return True
    if row.column != before.column:
        return ends_sentence(before.text) or not row.text[:1].islower()
    gap = (row.y0 - before.y1) / max(row.size, 1.0)
    if gap > usual + _MORE or gap < -1.5:
        return True
    if _ORDERED.match(row.text) and (ends_sentence(before.text) or _ORDERED.match(members[0].text)):
        return True
    if is_note(row.text) and is_note(members[0].text) and row.x0 <= members[0].x0 + 1:
        return True
    width = max(row.right - row.left, 1.0)
    is_short = (before.x1 - row.left) / width < _SHORT
    ends = ends_sentence(before.text)
    if is_item:
        return row.x0 < members[0].x0 - 1 or (ends and is_short and row.x0 <= members[0].x0 + 1)
    if row.x0 - before.x0 > _INDENT * row.size and ends:
        return True
    return ends and is_short and (before.x1 - row.left) / width < 0.7 and row.text[:1].isupper()


def ends_sentence(text: str) -> bool:
    """Return whether a text ends with a mark that ends a sentence or leads in what follows."""
    return text.rstrip("\"'”’)]")[-1:] in tuple(".!?:;")


def _last_letters(text: str) -> str:
    start = len(text)
    while start and text[start - 1].isalpha():
        start -= 1
    return text[start:]


class Vocabulary:
    """The words of a document that no line's end parts; they tell which hyphens at line ends are a part of the word."""

    def __init__(self, pages: Iterable[PageRows]) -> None:
        self._words = {word for page in pages for row in page.rows for word in _WORD.findall(row.text.casefold())}

    def joined(self, texts: Sequence[str]) -> str:
        """Return lines as one text, a word that a line's end parts mended."""
        if not texts:
            return ""
        parts = [texts[0]]
        for text in texts[1:]:
            parts[-1], gap = self._end(parts[-1], text)
            parts += [gap, text]
        return "".join(parts)

    def _end(self, before: str, after: str) -> tuple[str, str]:
        """Return a line's text as the next one goes on with it, and what stands between."""
        if len(before) < 2 or before[-1] not in _HYPHENS or not before[-2].isalnum():
            return before, " "
        head, tail = _last_letters(before[:-1]), _FIRST.match(after)
        if not head or tail is None:
            return f"{before[:-1]}-", ""
        first, second = head.casefold(), tail[0].casefold()
        if first + second in self._words:
            return before[:-1], ""
        is_compound = f"{first}-{second}" in self._words or not tail[0][0].islower()
        return (f"{before[:-1]}-" if is_compound else before[:-1]), ""
