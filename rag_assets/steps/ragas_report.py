"""What RAGAS says of an evaluation, for analysts.

Belongs here: its scores as a report, the worst questions first. Does not belong here: computing them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_assets.steps.report import Cell, Figure, Report, Table
from rag_serving.evaluation.measures import summary
from rag_serving.evaluation.ragas_scores import RagasScores


def ragas_report(tenant: str, generation: str, found: RagasScores, questions: Mapping[str, str]) -> Report:
    """The report of a generation; `questions` are their texts by id."""
    if found.problem:
        return Report(f"RAGAS of {tenant}", f"No scores of generation {generation}: {found.problem}")
    told = summary(found.scores)
    return Report(
        title=f"RAGAS of {tenant}",
        about=f"RAGAS' metrics of generation {generation} over {len(questions)} answered questions",
        figures=[
            Figure(
                name.replace("_", " "),
                f"{each['mean']:.3f}",
                note=f"{each['low']:.3f}–{each['high']:.3f} over {each['questions']}",
            )
            for name, each in told.items()
        ],
        tables=[_by_question(found, questions), *_faults(found.faults)],
    )


def _by_question(found: RagasScores, questions: Mapping[str, str]) -> Table:
    rows: list[Mapping[str, Cell]] = [
        {"question": text, **{metric: values.get(name) for metric, values in found.scores.items()}}
        for name, text in sorted(questions.items(), key=lambda pair: _mean(found, pair[0]))
    ]
    return Table("Questions, the worst first", ["question", *found.scores], rows)


def _mean(found: RagasScores, question: str) -> float:
    values = [scores[question] for scores in found.scores.values() if question in scores]
    return sum(values) / len(values) if values else 1.0


def _faults(faults: Mapping[str, str]) -> list[Table]:
    rows: list[Mapping[str, Any]] = [{"metric": name, "fault": fault} for name, fault in faults.items()]
    return [Table("Metrics that lack scores", ["metric", "fault"], rows)] if rows else []
