"""What RAGAS says of an evaluation, for analysts.

Belongs here: its scores as a report, the worst questions first, beside those of another generation.
Does not belong here: computing them, drawing plots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_assets.evaluation.measures import summary
from rag_assets.evaluation.ragas_scores import RagasScores
from rag_assets.reports.report import Case, Cell, Figure, Plot, Report, Table, Tone

VERSION = 1
"""Raised when the report of the same figures changes."""
FLOOR = 0.5
"""A question whose mean is below this is told as bad."""


def ragas_report(
    tenant: str,
    generation: str,
    found: RagasScores,
    samples: Mapping[str, Mapping[str, Any]],
    before: RagasScores | None = None,
    plots: Sequence[Plot] = (),
) -> Report:
    """Return the report of a generation; `samples` are what was judged, by question id, `before` what another one
    got."""
    if found.problem:
        return Report(f"RAGAS of {tenant}", f"No scores of generation {generation}: {found.problem}")
    worst = sorted(samples, key=lambda name: (_mean(found, name), name))
    return Report(
        title=f"RAGAS of {tenant}",
        about=f"RAGAS' metrics of generation {generation} over {len(samples)} answered questions",
        figures=_figures(found, before),
        tables=[*_faults(found.faults), _by_question(found, samples, worst)],
        plots=plots,
        cases=[_case(samples[name], found, name) for name in worst],
        cases_title="Questions, the worst first",
    )


def means(found: RagasScores, before: RagasScores | None) -> dict[str, list[float]]:
    """Return the mean of each metric, with that of another generation that has them all: what a plot shows."""
    now, other = summary(found.scores), summary(before.scores) if before else {}
    columns = [now, other] if now.keys() <= other.keys() else [now]
    return {_words(name): [told[name]["mean"] for told in columns] for name in now}


def _figures(found: RagasScores, before: RagasScores | None) -> list[Figure]:
    other = summary(before.scores) if before else {}
    return [
        Figure(
            _words(name),
            f"{each['mean']:.3f}",
            note=(f"was {other[name]['mean']:.3f}, " if name in other else "")
            + f"{each['low']:.3f}–{each['high']:.3f} over {each['questions']}",
        )
        for name, each in summary(found.scores).items()
    ]


def _by_question(found: RagasScores, samples: Mapping[str, Mapping[str, Any]], worst: Sequence[str]) -> Table:
    rows: list[Mapping[str, Cell]] = [
        {
            "question": samples[name]["user_input"],
            **{_words(metric): values.get(name) for metric, values in found.scores.items()},
        }
        for name in worst
    ]
    return Table("Questions, the worst first", ["question", *map(_words, found.scores)], rows)


def _case(sample: Mapping[str, Any], found: RagasScores, name: str) -> Case:
    mean = _mean(found, name)
    scores = [f"{_words(metric)} {values[name]:.3f}" for metric, values in found.scores.items() if name in values]
    parts = [("answer", sample["response"]), ("reference", sample["reference"]), ("scores", "\n".join(scores))]
    passages = [(f"passage [{number}]", text) for number, text in enumerate(sample["retrieved_contexts"], start=1)]
    tone: Tone = "bad" if mean < FLOOR else "neutral"
    return Case(f"{name}: {sample['user_input']}", f"mean {mean:.3f}", tone, parts, evidence=passages)


def _mean(found: RagasScores, question: str) -> float:
    values = [scores[question] for scores in found.scores.values() if question in scores]
    return sum(values) / len(values) if values else 1.0


def _faults(faults: Mapping[str, str]) -> list[Table]:
    rows: list[Mapping[str, Any]] = [{"metric": _words(name), "fault": fault} for name, fault in faults.items()]
    return [Table("Metrics that lack scores", ["metric", "fault"], rows)] if rows else []


def _words(metric: str) -> str:
    return metric.replace("_", " ")
