"""The page that lists a tenant's reports.

Belongs here: what its template shows. Does not belong here: which reports there are, who may see them (`reports`), its
markup and style (`templates/`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rag_serving.escaping.templates import html_template
from rag_serving.indexes.reports import HEADINGS, ReportFile, route_of

_MEASURES = {
    "citation_precision": "citation precision",
    "answerability": "rightly answered or declined",
    "recall@10": "recall@10",
}


@dataclass(frozen=True)
class _Row:
    """One report; `means` and `failed` gates are those of an evaluation, None where it has none."""

    report: ReportFile
    url: str
    means: Sequence[str]
    failed: Sequence[str] | None
    published: bool


def index_page(
    tenant: str, reports: Sequence[ReportFile], evaluations: Mapping[str, Mapping[str, Any]], current: str | None
) -> str:
    """Return the page; evaluations show their key measures, the published one is marked."""

    def row(report: ReportFile) -> _Row:
        facts = evaluations.get(report.generation or "", {})
        means = [_mean(facts, name) for name in _MEASURES]
        return _Row(report, route_of(report.name, tenant), means, _failed(facts), report.generation == current)

    by_kind = groupby(reports, key=lambda report: report.kind)
    return html_template(__package__, "report_index.html.j2").render(
        tenant=tenant,
        measures=list(_MEASURES.values()),
        sections=[(HEADINGS[kind], kind == "evaluation", list(map(row, group))) for kind, group in by_kind],
    )


def _mean(facts: Mapping[str, Any], measure: str) -> str:
    try:
        return f"{facts['summary'][measure]['mean']:.3f}"
    except (KeyError, TypeError, ValueError):
        return "–"


def _failed(facts: Mapping[str, Any]) -> list[str] | None:
    """Return the names of the gates that failed; None where the file names no gates."""
    try:
        return [str(gate["gate"]) for gate in facts["gates"] if not gate["passed"]]
    except (KeyError, TypeError):
        return None
