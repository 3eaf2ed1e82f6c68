"""The page that lists a tenant's reports.

Belongs here: its markup and style. Does not belong here: which reports there are, who may see them (`reports`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rag_serving.api.report_style import REPORT_STYLE
from rag_serving.escaping.targets import for_html
from rag_serving.indexes.reports import Kind, ReportFile, route_of

_STYLE = (
    REPORT_STYLE
    + """\
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
p { color: var(--soft); margin: .3rem 0 0; } a { color: var(--accent); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; }
th, td { padding: .45rem .7rem; text-align: left; border-bottom: 1px solid var(--line); }
th { background: var(--card); } tr:last-child td { border-bottom: 0; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.good { color: var(--good); } .bad { color: var(--bad); }
"""
)
_HEADINGS: Mapping[Kind, str] = {
    "quality": "Over time",
    "evaluation": "Generations, as they were evaluated",
    "questions": "What was asked, day by day",
    "dedup": "Near-duplicates",
    "ablation": "What each stage brings",
    "ragas": "RAGAS",
    "other": "Others",
}
_MEASURES = {
    "citation_precision": "citation precision",
    "answerability": "answered or declined rightly",
    "recall@10": "recall@10",
}


def index_page(
    tenant: str, reports: Sequence[ReportFile], evaluations: Mapping[str, Mapping[str, Any]], current: str | None
) -> str:
    """Return the page; evaluations show their key measures, the published one is marked."""
    return "".join(_parts(tenant, reports, evaluations, current))


def _parts(
    tenant: str, reports: Sequence[ReportFile], evaluations: Mapping[str, Mapping[str, Any]], current: str | None
) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Reports of {for_html(tenant)}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>Reports of {for_html(tenant)}</h1>"
    if not reports:
        yield "<p>There is no report yet: `citelock build` evaluates what it publishes, Dagster makes the others.</p>"
    for kind, group in groupby(reports, key=lambda each: each.kind):
        yield f"<h2>{_HEADINGS[kind]}</h2>"
        members = list(group)
        if kind == "evaluation":
            heads = [*_MEASURES.values(), "gates"]
            yield _table(heads, [_evaluation(each, evaluations, current) for each in members], tenant)
        else:
            yield _table([], [(each, []) for each in members], tenant)
    yield "</body></html>\n"


def _evaluation(
    report: ReportFile, evaluations: Mapping[str, Mapping[str, Any]], current: str | None
) -> tuple[ReportFile, list[str]]:
    """Return a report on a generation with its key measures, as cells of HTML."""
    facts = evaluations.get(report.generation or "", {})
    cells = [_mean(facts, name) for name in _MEASURES]
    published = " · <b>published</b>" if report.generation == current else ""
    return report, [*cells, _gates(facts) + published]


def _mean(facts: Mapping[str, Any], measure: str) -> str:
    try:
        return f"{facts['summary'][measure]['mean']:.3f}"
    except (KeyError, TypeError, ValueError):
        return "–"


def _gates(facts: Mapping[str, Any]) -> str:
    try:
        failed = [str(gate["gate"]) for gate in facts["gates"] if not gate["passed"]]
    except (KeyError, TypeError):
        return "–"
    if failed:
        return f'<span class="bad">failed: {for_html(", ".join(failed))}</span>'
    return '<span class="good">passed</span>'


def _table(heads: Sequence[str], rows: Sequence[tuple[ReportFile, Sequence[str]]], tenant: str) -> str:
    kinds = ["" if head == "gates" else ' class="number"' for head in heads]
    named = "".join(f"<th{kind}>{for_html(name)}</th>" for kind, name in zip(kinds, heads, strict=True))
    body = "".join(_row(report, kinds, cells, tenant) for report, cells in rows)
    head = f"<thead><tr><th>report</th>{named}<th>made (UTC)</th></tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>'


def _row(report: ReportFile, kinds: Sequence[str], cells: Sequence[str], tenant: str) -> str:
    link = f'<a href="{for_html(route_of(report.name, tenant))}">{for_html(report.title)}</a>'
    told = "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, cells, strict=True))
    return f"<tr><td>{link}</td>{told}<td>{report.created_at:%Y-%m-%d %H:%M}</td></tr>"
