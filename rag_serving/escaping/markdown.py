"""Foreign text for Markdown (CommonMark and GitHub's): it brings no image, link or HTML of its own.

Belongs here: text inside a line, and answers of several paragraphs with code in them.
Does not belong here: other targets (`escaping.targets`), which text is shown (`answering.citations`,
`evals.reports.report`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag_serving.escaping.targets import printable

_MARKUP = re.compile(r"([\\`*~\[\]<>&|]|(?<!\w)_|_(?!\w))")
_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_SPECIAL = re.compile(r"\\.?|`+|~{3,}|<(?=[A-Za-z/!?])|\[(?!\d{1,3}\](?![(:]))|&(?=#?\w{1,40};)")
_TICKS = re.compile("`+")


def for_markdown(text: str) -> str:
    """Return the text on one line, shown as it is (CommonMark, 2.4 Backslash escapes)."""
    return _MARKUP.sub(r"\\\1", " ".join(printable(text).split()))


def markdown_text(text: str) -> str:
    """Return an answer as Markdown that keeps its paragraphs, lists, code and markers (`[1]`).

    Blocks of code that a fence at the border of the page opens stay to the letter, and are closed if they are not. In
    other lines HTML, images, links and definitions are shown as they are written. Fences elsewhere are, too: a fence in
    a list ends with the list, and what follows would be markup again.
    """
    return "\n".join(_lines(printable(text).split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    has_cells, fence = any(map(_is_under_heads, lines)), ""
    for line in lines:
        if fence:
            yield line
            fence = "" if _closes(line, fence) else fence
        elif opening := _FENCE.match(line):
            fence = opening[1] or opening[2]
            yield line
        else:
            yield _line(line, has_cells)
    if fence:
        yield fence


def _closes(line: str, fence: str) -> bool:
    inside = line.rstrip(" \t")
    marks = inside.lstrip(" ")
    return len(inside) - len(marks) <= 3 and len(marks) >= len(fence) and not marks.strip(fence[0])


def _is_under_heads(line: str) -> bool:
    return "-" in line and not line.strip(" \t>*+-.)|:0123456789")


def _line(line: str, has_cells: bool) -> str:
    """Return a line outside fences. Spans of code stay; a backtick without its partner in the line opens none."""
    ends = _ends(line)
    parts, position = [], 0
    while match := _SPECIAL.search(line, position):
        parts.append(line[position : match.start()])
        position = match.end()
        mark = match[0]
        if mark[0] == "`" and (end := _end_of_code(line, match, ends, has_cells)):
            parts.append(line[match.start() : end])
            position = end
        elif mark[0] == "\\":
            parts.append(mark)
        else:
            parts.append("".join(f"\\{character}" for character in mark))
    return "".join([*parts, line[position:]])


def _ends(line: str) -> dict[int, list[int]]:
    """Return where runs of so many backticks end, the last first."""
    ends: dict[int, list[int]] = {}
    for run in _TICKS.finditer(line):
        ends.setdefault(len(run[0]), []).append(run.end())
    return {length: positions[::-1] for length, positions in ends.items()}


def _end_of_code(line: str, opening: re.Match[str], ends: dict[int, list[int]], has_cells: bool) -> int | None:
    """Return the end of the code that these backticks open; None if they open none.

    Three and more may be taken for a fence, and a cell of a table (`has_cells`) ends at a bar even inside of code.
    """
    length = len(opening[0])
    left = ends.get(length, [])
    while left and left[-1] <= opening.end():
        left.pop()
    if length > 2 or not left:
        return None
    return None if has_cells and "|" in line[opening.end() : left[-1]] else left[-1]
