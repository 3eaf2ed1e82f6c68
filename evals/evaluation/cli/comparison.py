"""Two evaluations side by side, as lines of a terminal.

Belongs here: how a comparison looks. Does not belong here: comparing (`evals.evaluation.compare`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evals.evaluation.compare import Comparison, Difference
from rag_serving.escaping.targets import for_terminal_line

_LARGE = 10  # milliseconds, not shares
_HEADS = ("measure", "before", "after", "difference", "95 % interval", "p", "questions")


def lines_of(comparison: Comparison) -> Iterator[str]:
    """Yield the measures with their differences, then the questions that changed."""
    yield f"{comparison.questions} questions in both runs{_left_out(comparison)}"
    yield from _table([_HEADS, *map(_cells, comparison.differences)])
    yield "p: how likely chance alone makes a difference as large (paired randomization test)."
    for changed in comparison.changed:
        if changed.change == "another answer":
            yield f"  {changed.change}: {changed.id}: {for_terminal_line(changed.question)}"
        else:
            judgements = f"{changed.before} → {changed.after}"
            yield f"  {changed.change}: {changed.id}: {judgements}: {for_terminal_line(changed.question)}"


def _cells(measured: Difference) -> tuple[str, ...]:
    return (
        measured.measure.replace("_", " "),
        _number(measured.before),
        _number(measured.after),
        f"{measured.difference:+.4f}" if abs(measured.difference) < _LARGE else f"{measured.difference:+.1f}",
        f"{_number(measured.low)} … {_number(measured.high)}",
        f"{measured.p:.3f}",
        str(measured.questions),
    )


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < _LARGE else f"{value:.1f}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join([first.strip().ljust(widths[0]), *rest])


def _left_out(comparison: Comparison) -> str:
    parts = [
        f"{len(ids)} only {where}"
        for ids, where in ((comparison.only_before, "before"), (comparison.only_after, "after"))
        if ids
    ]
    return f" ({', '.join(parts)})" if parts else ""
