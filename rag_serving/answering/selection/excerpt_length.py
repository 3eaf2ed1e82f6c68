"""How much of a long block an answer tells: its beginning, and that it goes on.

Belongs here: where what is told is cut. Does not belong here: what is told (`completion`), links
(`answering.citations`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_CHARS, MOST_LINES = 4_000, 80
CONTINUES = "… continues on the page"

_FENCE = re.compile(r"^[ \t]*(```|~~~)")


def excerpt(text: str) -> str:
    """Return the text, or of a long one its first lines and that it goes on; code is closed as it was opened."""
    if len(text) <= MOST_CHARS and text.count("\n") < MOST_LINES:
        return "\n".join([text, *_closing(text.split("\n"))])
    lines = text[:MOST_CHARS].split("\n")
    if len(text) > MOST_CHARS:
        lines[-1] = lines[-1].rpartition(" ")[0] if len(lines) == 1 and " " in lines[-1] else lines[-1]
        lines = lines[:-1] or lines
    lines = lines[:MOST_LINES]
    return "\n".join([*lines, *_closing(lines), CONTINUES])


def _closing(lines: Sequence[str]) -> list[str]:
    """Return the fence that these lines leave open."""
    fences = [found[1] for line in lines if (found := _FENCE.match(line))]
    return fences[-1:] if len(fences) % 2 else []
