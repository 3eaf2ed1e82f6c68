"""Windows over what is too long for one chunk, such as a log of thousands of lines in a block of code.

Each window begins with the last lines of the one before, so that what stands across a border can be found and quoted.

Belongs here: where windows begin and end. Does not belong here: cutting prose, which chunks there are (`chunking`).
"""

from __future__ import annotations

MAX_BLOCK_CHARS = 12_000
"""A block of code up to here stays in one chunk, however many tokens it has: it is told to the letter or not at all."""

WINDOW_CHARS = 4_000
OVERLAP_LINES, OVERLAP_CHARS = 3, 400


def window_cuts(text: str, start: int, end: int) -> list[int]:
    """Return where a stretch beyond `MAX_BLOCK_CHARS` is cut: at line ends, inside of a line that is longer itself."""
    cuts: list[int] = []
    if end - start <= MAX_BLOCK_CHARS:
        return cuts
    place = start
    while end - place > WINDOW_CHARS:
        line_end = text.rfind("\n", place, place + WINDOW_CHARS)
        place = line_end + 1 if line_end > place else place + WINDOW_CHARS
        cuts.append(place)
    return cuts


def overlapping(text: str, start: int, least: int) -> int:
    """Return where a window that was cut at `start` begins: some lines earlier, never before `least`."""
    begins = start
    for _ in range(OVERLAP_LINES):
        line = text.rfind("\n", least, max(begins - 1, least)) + 1 or least
        if start - line > OVERLAP_CHARS:
            break
        begins = line
    return begins
