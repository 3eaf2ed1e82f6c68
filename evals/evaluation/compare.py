"""Two evaluations of the same questions: paired differences, and the questions that changed.

Belongs here: pairing what `evaluate --json` or an `eval_report.json` says by question. Does not belong here: how a
difference is told from chance (`significance`), whether one is bad enough to stop a candidate (gates).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from evals.evaluation.significance import bootstrap_interval, paired_p_value

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
class Comparison:
    """What two runs differ by."""

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


def compare(before: Run, after: Run) -> Comparison:
    """Compare two runs by the questions that have the same id and text in both.

    Raises:
        CompareError: there is none.
    """
    first, second = _cases(before), _cases(after)
    both = [key for key in first if key in second and first[key]["question"] == second[key]["question"]]
    if not both:
        raise CompareError("the two runs have no question in common")
    known = set(both)
    return Comparison(
        questions=len(both),
        only_before=tuple(key for key in first if key not in known),
        only_after=tuple(key for key in second if key not in known),
        differences=tuple(_differences(_measures(before, both), _measures(after, both))),
        changed=tuple(sorted(_changed(first, second, both), key=lambda each: _ORDER.index(each.change))),
    )


_ORDER: Sequence[Change] = ("now wrong", "now right", "judged otherwise", "another answer")


def _cases(run: Run) -> dict[str, Mapping[str, Any]]:
    return {str(case["id"]): case for case in run["cases"]}


def _measures(run: Run, questions: list[str]) -> pd.DataFrame:
    """Return every measure [questions, measures], with the milliseconds that each answer took."""
    import pandas as pd

    times = {key: (case.get("timings_ms") or {}).get("total") for key, case in _cases(run).items()}
    return pd.DataFrame({**run["measures"], _TIME: times}, index=questions, dtype="float64")


def _differences(before: pd.DataFrame, after: pd.DataFrame) -> list[Difference]:
    """Return every measure of both that has a value for the same questions."""
    found = []
    for name in before.columns[before.columns.isin(after.columns)]:
        both = before[name].notna() & after[name].notna()
        if both.any():
            found.append(_difference(name, before[name][both].tolist(), after[name][both].tolist()))
    return found


def _difference(name: str, first: Sequence[float], second: Sequence[float]) -> Difference:
    interval = bootstrap_interval([b - a for a, b in zip(first, second, strict=True)])
    figures = fmean(first), fmean(second), interval.mean, interval.low, interval.high, paired_p_value(first, second)
    return Difference(name, len(first), *(round(value, 6) for value in figures))


def _changed(
    before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]], both: Sequence[str]
) -> list[Changed]:
    found = []
    for key in both:
        first, second = before[key], after[key]
        if change := _change(first, second):
            found.append(Changed(key, first["question"], change, judgement(first), judgement(second)))
    return found


def _change(before: Mapping[str, Any], after: Mapping[str, Any]) -> Change | None:
    if judgement(before) == judgement(after):
        return "another answer" if before.get("answer") != after.get("answer") else None
    if bool(before.get("fault")) == bool(after.get("fault")):
        return "judged otherwise"
    return "now wrong" if after.get("fault") else "now right"


def judgement(case: Mapping[str, Any]) -> str:
    """Return what is wrong with an answer, or what came of the question where nothing is."""
    return str(case.get("fault") or ("shown as the closest" if case.get("outcome") == "closest" else case["status"]))
