"""An evaluation as JSON and as CSV: its figures, and what became of each question.

Belongs here: the shapes. Does not belong here: what is measured (`evaluate`, `measures`), comparing runs (`compare`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from evals.evaluation import tables
from evals.evaluation.evaluate import Evaluation, Judged, rank_pages
from evals.evaluation.gold import GoldSet
from evals.evaluation.measures import of_answers, of_rankings, summary
from rag_serving.ask import Pipeline

_OF_CASES = ("id", "question", "answerable", "status", "outcome", "confidence", "fault", "answer")


def exported(evaluation: Evaluation, gold: GoldSet, pipeline: Pipeline) -> dict[str, Any]:
    """Return the figures of an evaluation with every measure by question; search is asked for its rankings as well."""
    rankings = rank_pages(pipeline, gold)
    pages = {question.id: question.pages for question in gold.questions if question.answerable}
    measures = {**of_answers(evaluation.judged), **of_rankings(rankings, pages)}
    generations = {case.answer.generation for case in evaluation.judged}
    return {
        **evaluation.payload(),
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "generation": ", ".join(sorted(generations)),
        "features": list(pipeline.config.features.enabled),
        "summary": summary(measures),
        "measures": measures,
        "cases": [_case(case) for case in evaluation.judged],
    }


def to_csv(payload: Mapping[str, Any]) -> str:
    """Return a row for each question of `exported`: what was answered, every measure, the milliseconds it took."""
    return tables.to_csv([_row(case, payload["measures"]) for case in payload["cases"]])


def _row(case: Mapping[str, Any], measures: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    return {
        **{name: case[name] for name in _OF_CASES},
        "cited": " ".join(citation["url"] for citation in case["citations"]),
        **{name: values.get(case["id"]) for name, values in measures.items()},
        "total_ms": case["timings_ms"].get("total"),
    }


def _case(judged: Judged) -> dict[str, Any]:
    cited = [{"url": citation.url, "quote": citation.quote} for citation in judged.answer.citations]
    return {**judged.payload(), "citations": cited}
