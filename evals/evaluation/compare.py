"""Two evaluations of the same questions: paired differences and changed questions, also for a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from evals.evaluation.metrics import bootstrap_interval, paired_p_value
from rag_serving.artifacts.store import Store, StoreError, read_json, write_json
from rag_serving.escaping.targets import for_terminal_line

if TYPE_CHECKING:
    import pandas as pd


Run = Mapping[str, Any]
Change = Literal["now right", "now wrong", "judged otherwise", "another answer"]

_TIME = "total_ms"


class CompareError(Exception):
    """Two runs cannot be compared; the message says why."""


@dataclass(frozen=True)
class Difference:
    """One measure over the questions that both runs have a value of; `low` and `high` are of the mean difference."""

    measure: str
    questions: int
    before: float
    after: float
    difference: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Changed:
    """A question that was judged or answered otherwise."""

    id: str
    question: str
    change: Change
    before: str
    after: str


@dataclass(frozen=True)
class RunComparison:
    """The differences between two runs."""

    questions: int
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    differences: tuple[Difference, ...]
    changed: tuple[Changed, ...]

    def payload(self) -> dict[str, Any]:
        return asdict(self)


def read_run(path: Path) -> Run:
    """Read a file of `citelock evaluate --json`, or a generation's `eval_report.json`.

    Raises:
        CompareError: it cannot be read or is something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CompareError(f"{path} cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise CompareError(f"{path} is not JSON ({error})") from None
    if not is_run(content):
        raise CompareError(
            f"{path} has no measures by question; `citelock evaluate --json > FILE` writes what can be compared"
        )
    return dict(content)


def is_run(content: object) -> bool:
    """Return whether a value has the shape of a run."""
    if not isinstance(content, Mapping):
        return False
    measures, cases = content.get("measures"), content.get("cases")
    return (
        isinstance(measures, Mapping)
        and all(isinstance(values, Mapping) for values in measures.values())
        and isinstance(cases, list)
        and all(isinstance(case, Mapping) and {"id", "question", "status"} <= case.keys() for case in cases)
    )


def compare(before: Run, after: Run) -> RunComparison:
    """Compare two runs by the questions that have the same id and text in both.

    Raises:
        CompareError: there is none.
    """
    first, second = _cases(before), _cases(after)
    both = [key for key in first if key in second and first[key]["question"] == second[key]["question"]]
    if not both:
        raise CompareError("the two runs have no question in common")
    known = set(both)
    changed = [
        Changed(key, first[key]["question"], change, judgement(first[key]), judgement(second[key]))
        for key in both
        if (change := _change(first[key], second[key]))
    ]
    return RunComparison(
        questions=len(both),
        only_before=tuple(key for key in first if key not in known),
        only_after=tuple(key for key in second if key not in known),
        differences=tuple(_differences(_measures(before, both), _measures(after, both))),
        changed=tuple(sorted(changed, key=lambda each: _ORDER.index(each.change))),
    )


_ORDER: Sequence[Change] = ("now wrong", "now right", "judged otherwise", "another answer")


def _cases(run: Run) -> dict[str, Mapping[str, Any]]:
    return {str(case["id"]): case for case in run["cases"]}


def _measures(run: Run, questions: list[str]) -> pd.DataFrame:
    """Return every measure [questions, measures], with the milliseconds that each answer took."""
    import pandas as pd

    times = {key: (case.get("timings_ms") or {}).get("total") for key, case in _cases(run).items()}
    return pd.DataFrame({**run["measures"], _TIME: times}, index=questions, dtype="float64")


def _differences(before: pd.DataFrame, after: pd.DataFrame) -> Iterator[Difference]:
    """Yield every measure of both that has a value for the same questions."""
    for name in before.columns[before.columns.isin(after.columns)]:
        both = before[name].notna() & after[name].notna()
        if both.any():
            first, second = before[name][both].tolist(), after[name][both].tolist()
            interval = bootstrap_interval([b - a for a, b in zip(first, second, strict=True)])
            chance = paired_p_value(first, second)
            figures = fmean(first), fmean(second), interval.mean, interval.low, interval.high, chance
            yield Difference(name, len(first), *(round(value, 6) for value in figures))


def _change(before: Mapping[str, Any], after: Mapping[str, Any]) -> Change | None:
    if judgement(before) == judgement(after):
        return "another answer" if before.get("answer") != after.get("answer") else None
    if bool(before.get("fault")) == bool(after.get("fault")):
        return "judged otherwise"
    return "now wrong" if after.get("fault") else "now right"


def judgement(case: Mapping[str, Any]) -> str:
    """Return the fault of an answer, or the outcome of a right one."""
    return str(case.get("fault") or ("shown as the closest" if case.get("outcome") == "closest" else case["status"]))


FOLDER = "evaluations"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")


class RunNameError(ValueError):
    """A name cannot be that of a file; the message says which can."""


def save_run(store: Store, tenant: str, name: str, run: Mapping[str, Any]) -> Path:
    """Keep an evaluation under a name, in place of one that had it; return its file.

    Raises:
        RunNameError: the name has other characters than letters, digits, `.`, `_` and `-`.
    """
    path = run_path(store, tenant, name)
    write_json(path, dict(run))
    return path


def run_path(store: Store, tenant: str, name: str) -> Path:
    """Return the path of the evaluation of a name.

    Raises:
        RunNameError: see `save_run`.
    """
    if not _NAME.fullmatch(name):
        raise RunNameError(f"{name!r} cannot be a name: letters, digits, '.', '_' and '-', 61 at most")
    return store.tenant(tenant) / FOLDER / f"{name}.json"


def saved_runs(store: Store, tenant: str) -> dict[str, dict[str, Any]]:
    """Return the stored evaluations, by name, the oldest first; other files are left out."""
    found = {}
    for path in (store.tenant(tenant) / FOLDER).glob("*.json"):
        try:
            content = read_json(path)
        except (StoreError, OSError):
            continue
        if is_run(content):
            found[path.stem] = dict(content)
    return dict(sorted(found.items(), key=lambda pair: (str(pair[1].get("created_at", "")), pair[0])))


_LARGE = 10  # milliseconds, not shares
_HEADS = ("measure", "before", "after", "difference", "95 % interval", "p", "questions")


def lines_of(comparison: RunComparison) -> Iterator[str]:
    """Yield the measures with their differences, then the questions that changed."""
    yield f"{comparison.questions} questions in both runs{_left_out(comparison)}"
    rows = [_HEADS, *map(_cells, comparison.differences)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join([first.strip().ljust(widths[0]), *rest])
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


def _left_out(comparison: RunComparison) -> str:
    parts = [
        f"{len(ids)} only {where}"
        for ids, where in ((comparison.only_before, "before"), (comparison.only_after, "after"))
        if ids
    ]
    return f" ({', '.join(parts)})" if parts else ""
