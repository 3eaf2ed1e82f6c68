"""How far a question is, on one line of the terminal.

Belongs here: the line. Does not belong here: what is printed of an answer (`cli.main`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rag_serving.escaping.targets import for_log
from rag_serving.tracing import Listen

_CLEAR = "\r\x1b[2K"


@contextmanager
def shown() -> Iterator[Listen | None]:
    """Yield a listener that keeps a line of standard error up to date, and clears it; None where that is no
    terminal."""
    if not sys.stderr.isatty():
        yield None
        return

    def listen(stage: str, detail: str) -> None:
        print(
            f"{_CLEAR}citelock: {for_log(stage)}{f', {for_log(detail)}' if detail else ''} ...",
            end="",
            file=sys.stderr,
            flush=True,
        )

    try:
        yield listen
    finally:
        print(_CLEAR, end="", file=sys.stderr, flush=True)
