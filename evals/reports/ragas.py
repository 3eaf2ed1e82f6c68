"""The scores that RAGAS gives an evaluation, as a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from evals.evaluation.measures import summary
from evals.evaluation.ragas_scores import RagasScores
from evals.reports.report import Case, Figure, Report, Table, filled, words

VERSION = 1
"""Raised when the report of the same figures changes."""
FLOOR = 0.5
"""A question whose mean is below this is shown as bad."""


def ragas_report(
    tenant: str,
    generation: str,
    scores: RagasScores,
    samples: Mapping[str, Mapping[str, Any]],
    before: RagasScores | None = None,
) -> Report:
    """Return the report of a generation; `samples` are the judged ones, by question id, `before` are the scores of
    another one."""
    if scores.problem:
        return Report(f"RAGAS of {tenant}", f"No scores of generation {generation}: {scores.problem}")
    worst = sorted(samples, key=lambda question: (_mean(scores, question), question))
    faults = ({"metric": words(name), "fault": fault} for name, fault in scores.faults.items())
    return Report(
        title=f"RAGAS of {tenant}",
        about=f"RAGAS' metrics of generation {generation} over {len(samples)} answered questions",
        figures=_figures(scores, before),
        tables=filled(Table.from_rows("Metrics that lack scores", faults), _by_question(scores, samples, worst)),
        cases=[_case(samples[question], scores, question) for question in worst],
        cases_title="Questions, the worst first",
    )


def means(scores: RagasScores, before: RagasScores | None) -> dict[str, list[float]]:
    """Return the mean of each metric, with that of another generation that has them all, for a plot."""
    now, other = summary(scores.scores), summary(before.scores) if before else {}
    columns = [now, other] if now.keys() <= other.keys() else [now]
    return {words(metric): [column[metric]["mean"] for column in columns] for metric in now}


def _figures(scores: RagasScores, before: RagasScores | None) -> list[Figure]:
    other = summary(before.scores) if before else {}
    return [
        Figure(
            words(metric),
            f"{measure['mean']:.3f}",
            note=(f"was {other[metric]['mean']:.3f}, " if metric in other else "")
            + "{low:.3f}–{high:.3f} over {questions}".format_map(measure),
        )
        for metric, measure in summary(scores.scores).items()
    ]


def _by_question(scores: RagasScores, samples: Mapping[str, Mapping[str, Any]], worst: Sequence[str]) -> Table:
    rows = (
        {
            "question": samples[question]["user_input"],
            **{words(metric): values.get(question) for metric, values in scores.scores.items()},
        }
        for question in worst
    )
    return Table.from_rows("Questions, the worst first", rows)


def _case(sample: Mapping[str, Any], scores: RagasScores, question: str) -> Case:
    mean = _mean(scores, question)
    by_metric = [
        f"{words(name)} {values[question]:.3f}" for name, values in scores.scores.items() if question in values
    ]
    return Case(
        title=f"{question}: {sample['user_input']}",
        status=f"mean {mean:.3f}",
        tone="bad" if mean < FLOOR else "neutral",
        parts=[("answer", sample["response"]), ("reference", sample["reference"]), ("scores", "\n".join(by_metric))],
        evidence=[(f"passage [{number}]", text) for number, text in enumerate(sample["retrieved_contexts"], start=1)],
    )


def _mean(scores: RagasScores, question: str) -> float:
    """Return the mean of a question's scores; 1 if it has none, so that it is not among the worst."""
    return fmean([values[question] for values in scores.scores.values() if question in values] or [1.0])
