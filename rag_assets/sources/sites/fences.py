"""Which lines of a Markdown text are code.

Belongs here: fences. Does not belong here: Markdown as elements (`markdown_page`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def fences(lines: Sequence[str]) -> Iterator[tuple[int, str, str | None]]:
    """Yield (index, line, fence) of lines; the fence is None outside of code, else the run that opened it."""
    open_run: str | None = None
    for index, line in enumerate(lines):
        stripped = line.lstrip(" ")
        run = _run(stripped)
        if open_run is None:
            is_fence = bool(run) and not (run[0] == "`" and "`" in stripped[len(run) :])
            open_run = run if is_fence else None
            yield index, line, open_run
            continue
        yield index, line, open_run
        if run and run[0] == open_run[0] and len(run) >= len(open_run) and not stripped[len(run) :].strip():
            open_run = None


def _run(stripped: str) -> str:
    """Return the run of backticks or tildes that a line begins with, three or more."""
    if not stripped.startswith(("```", "~~~")):
        return ""
    return stripped[: len(stripped) - len(stripped.lstrip(stripped[0]))]
