"""Words of scripts that run from right to left: they stand where the layout of a page, which goes from left to right,
reads them in order.

Belongs here: mirroring pages and runs of words, by the directions of their letters (words as in UAX #9, not letters:
PDFium has these in order). Does not belong here: where words stand on the file's page (`words`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rag_assets.steps.files.pdf.records import Word

RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_LETTER = re.compile(r"[^\W\d_]")
_DIGIT = re.compile(r"\d")
_RUNS = {True: re.compile("L(?:[LN.]*[LN])?"), False: re.compile("R(?:[RN.]*R)?")}
"""What runs against its line, by whether that goes from right to left: as it stands, from the left."""
_SPACE = 1.0  # of the height: the widest space within a line
_SAME_LINE = 0.4  # of the height: how far the middles of two words of one line are apart


def is_right_to_left(text: str) -> bool:
    """Return whether most letters of a text belong to scripts that run from right to left."""
    return not text.isascii() and 2 * len(RIGHT_TO_LEFT.findall(text)) > len(_LETTER.findall(text))


def in_reading_order(words: Sequence[Word], mirrored: bool) -> list[Word]:
    """Return words with those that run against the page set where they are read; the order is kept.

    `mirrored`: the page goes from right to left, and its words stand mirrored already.
    """
    if not mirrored and not any(RIGHT_TO_LEFT.search(word.text) for word in words if not word.text.isascii()):
        return list(words)
    placed = list(words)
    for line in _lines(words):
        seen = line[::-1] if mirrored else line
        kinds = "".join(_kind(words[at].text) for at in seen)
        backwards = mirrored if kinds.count("R") == kinds.count("L") else kinds.count("R") > kinds.count("L")
        if backwards != mirrored:
            _mirror(placed, seen)
        for run in _RUNS[backwards].finditer(kinds):
            _mirror(placed, seen[run.start() : run.end()])
    return placed


def _kind(text: str) -> str:
    if RIGHT_TO_LEFT.search(text):
        return "R"
    return "L" if _LETTER.search(text) else "N" if _DIGIT.search(text) else "."


def _lines(words: Sequence[Word]) -> Iterator[list[int]]:
    """Yield the places of words that stand beside each other, from left to right."""
    rows: list[list[int]] = []
    for at in sorted(range(len(words)), key=lambda at: words[at].y0 + words[at].y1):
        first = words[rows[-1][0]] if rows else words[at]
        apart = (words[at].y0 + words[at].y1 - first.y0 - first.y1) / 2
        if rows and apart < _SAME_LINE * max(first.height, words[at].height):
            rows[-1].append(at)
        else:
            rows.append([at])
    for row in rows:
        line: list[int] = []
        for at in sorted(row, key=lambda at: words[at].x0):
            if line and words[at].x0 - words[line[-1]].x1 > _SPACE * words[at].height:
                yield line
                line = []
            line.append(at)
        yield line


def _mirror(words: list[Word], places: Sequence[int]) -> None:
    """Set words that stand beside each other in the reverse order on the same space."""
    ends = min(words[at].x0 for at in places) + max(words[at].x1 for at in places)
    for at in places:
        words[at] = words[at]._replace(x0=ends - words[at].x1, x1=ends - words[at].x0)
