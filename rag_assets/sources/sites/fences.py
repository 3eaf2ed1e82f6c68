"""Fenced code of Markdown files: what stands behind the fence.

Belongs here: language, title and marks of an opening fence, where a fence ends.
Does not belong here: Markdown (`markdown_page`), what a generator does with other blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_TITLE = re.compile(r"\b(?:title|filename|file)=(?:\"([^\"\n]{0,500})\"|'([^'\n]{0,500})')")
_CLASS = re.compile(r"\{\s*\.([\w+#-]{1,60})")
_LANGUAGE = re.compile(r"[\w+#.-]{1,60}")


def fence_run(stripped: str) -> str:
    """Return the run of three or more backticks or tildes that a line without indentation begins a fence with."""
    if not stripped.startswith(("```", "~~~")):
        return ""
    run = stripped[: len(stripped) - len(stripped.lstrip(stripped[0]))]
    return "" if run[0] == "`" and "`" in stripped[len(run) :] else run


def is_end(stripped: str, run: str) -> bool:
    """Return whether a line ends the code that `run` opened."""
    return stripped.startswith(run) and not stripped.strip().strip(run[0])


def end_of(lines: Sequence[str], begin: int) -> int:
    """Return the index of the line that ends the fence opened at `begin`; that after the last where none does."""
    run = fence_run(lines[begin].lstrip(" "))
    for index in range(begin + 1, len(lines)):
        if is_end(lines[index].lstrip(" "), run):
            return index
    return len(lines)


def opening(line: str) -> tuple[str, str | None, str]:
    """Return an opening fence with nothing but its language, the title that it gives its code, and all it says."""
    stripped = line.lstrip(" ")
    indent, run = line[: len(line) - len(stripped)], fence_run(stripped)
    info = stripped[len(run) :].strip()
    title = _TITLE.search(info)
    named = _CLASS.match(info) or _LANGUAGE.match(info)
    language = named[1] if named and named.re is _CLASS else named[0] if named else ""
    return f"{indent}{run}{language}", (title[1] or title[2]) if title else None, info


def outside(lines: Sequence[str]) -> Iterator[tuple[int, int, bool]]:
    """Yield (begin, end, is code) of the runs of lines: fences with both of their ends, and what is between."""
    begin, index = 0, 0
    while index < len(lines):
        if fence_run(lines[index].lstrip(" ")):
            if begin < index:
                yield begin, index, False
            begin, index = index, min(end_of(lines, index) + 1, len(lines))
            yield begin, index, True
            begin = index
        else:
            index += 1
    if begin < index:
        yield begin, index, False
