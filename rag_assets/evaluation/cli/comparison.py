"""Two evaluations side by side, as lines of a terminal.

Belongs here: how a comparison looks. Does not belong here: comparing (`rag_assets.evaluation.compare`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rag_assets.evaluation.compare import Comparison, Difference
from rag_serving.escaping.targets import for_terminal_line

_LARGE = 10  # milliseconds, not shares
_HEADS = ("measure", "before", "after", "difference", "95 % interval", "p", "questions")


def lines_of(found: Comparison) -> Iterator[str]:
    """Yield the measures with their differences, then the questions that changed."""
    yield f"{found.questions} questions in both runs{_left_out(found)}"
    yield from _table([_HEADS, *map(_cells, found.differences)])
    yield "p: how likely chance alone makes a difference as large (paired randomization test)."
    for each in found.changed:
        if each.change == "another answer":
            yield f"  {each.change}: {each.id}: {for_terminal_line(each.question)}"
        else:
            yield f"  {each.change}: {each.id}: {each.before} → {each.after}: {for_terminal_line(each.question)}"


def _cells(each: Difference) -> tuple[str, ...]:
    return (
        each.measure.replace("_", " "),
        _number(each.before),
        _number(each.after),
        f"{each.difference:+.4f}" if abs(each.difference) < _LARGE else f"{each.difference:+.1f}",
        f"{_number(each.low)} … {_number(each.high)}",
        f"{each.p:.3f}",
        str(each.questions),
    )


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < _LARGE else f"{value:.1f}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join([first.strip().ljust(widths[0]), *rest])


def _left_out(found: Comparison) -> str:
    parts = [
        f"{len(ids)} only {where}" for ids, where in ((found.only_before, "before"), (found.only_after, "after")) if ids
    ]
    return f" ({', '.join(parts)})" if parts else ""
