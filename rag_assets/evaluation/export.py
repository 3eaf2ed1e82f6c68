"""An evaluation as JSON and as CSV: its figures, and what became of each question.

Belongs here: the shapes. Does not belong here: what is measured (`evaluate`, `measures`), comparing runs (`compare`).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rag_assets.evaluation.evaluate import Evaluation, Judged, rank_pages
from rag_assets.evaluation.gold import GoldSet
from rag_assets.evaluation.measures import of_answers, of_rankings, summary
from rag_serving.escaping.targets import for_csv
from rag_serving.pipeline import Pipeline

_OF_CASES = ("id", "question", "answerable", "status", "fault", "answer")


def exported(evaluation: Evaluation, gold: GoldSet, pipeline: Pipeline) -> dict[str, Any]:
    """Return the figures of an evaluation with every measure by question; search is asked for its rankings as well."""
    rankings = rank_pages(pipeline, gold)
    pages = {each.id: each.pages for each in gold.questions if each.answerable}
    measures = {**of_answers(evaluation.judged), **of_rankings(rankings, pages)}
    generations = {each.answer.generation for each in evaluation.judged}
    return {
        **evaluation.payload(),
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "generation": ", ".join(sorted(generations)),
        "features": list(pipeline.config.features.enabled),
        "summary": summary(measures),
        "measures": measures,
        "cases": [_case(each) for each in evaluation.judged],
    }


def to_csv(payload: Mapping[str, Any]) -> str:
    """Return a row for each question of `exported`: what was answered, every measure, the milliseconds it took."""
    measures: Mapping[str, Mapping[str, float]] = payload["measures"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_OF_CASES, "cited", *measures, "total_ms"])
    for case in payload["cases"]:
        cells = [for_csv(case[name]) for name in _OF_CASES]
        values = [values.get(case["id"]) for values in measures.values()]
        writer.writerow([*cells, for_csv(" ".join(_cited(case))), *values, case["timings_ms"].get("total")])
    return text.getvalue()


def _case(judged: Judged) -> dict[str, Any]:
    cited = [{"url": citation.url, "quote": citation.quote} for citation in judged.answer.citations]
    return {**judged.payload(), "citations": cited}


def _cited(case: Mapping[str, Any]) -> Sequence[str]:
    return [citation["url"] for citation in case["citations"]]
