"""Report contradictions and neglect in a tenant's pages, for those who look after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from evals.reports.report import Case, Cell, Figure, Report, Table, filled
from rag_assets.steps.contradictions.findings import HEADINGS, Kind, LintFinding

VERSION = 1
"""Raised when the report of the same findings changes."""
MOST_CASES, MOST_ROWS = 300, 2_000
_QUOTED: tuple[Kind, ...] = ("contradiction", "drifting_copy")


def contradictions_report(
    tenant: str, generation: str, findings: Sequence[LintFinding], acknowledged: int, facts: Mapping[str, str]
) -> Report:
    """Return the report of a tenant; `findings` are those that nobody acknowledged, in their order."""
    counts = Counter(finding.kind for finding in findings)
    cases = [finding for kind in _QUOTED for finding in findings if finding.kind == kind]
    return Report(
        title=f"Contradictions of {tenant}",
        about=f"{len(findings):,} to look at in generation {generation}, {acknowledged:,} acknowledged",
        figures=[
            Figure(heading.lower(), f"{counts[kind]:,}", "bad" if counts[kind] else "good")
            for kind, heading in HEADINGS.items()
        ],
        tables=filled(_by_space(findings), *(_listed(kind, findings) for kind in HEADINGS if kind not in _QUOTED)),
        cases=[_case(finding) for finding in cases[:MOST_CASES]],
        cases_title="Statements that differ, by space, the most asked about first",
        facts=facts,
    )


def _by_space(findings: Sequence[LintFinding]) -> Table:
    spaces: dict[str, Counter[Kind]] = {}
    for finding in findings:
        spaces.setdefault(finding.space, Counter())[finding.kind] += 1
    rows: list[dict[str, Cell]] = [
        {"space": space, **{HEADINGS[kind].lower(): counts[kind] for kind in HEADINGS}}
        for space, counts in sorted(spaces.items(), key=lambda pair: (-pair[1].total(), pair[0]))
    ]
    return Table.from_rows("By space", rows)


def _listed(kind: Kind, findings: Sequence[LintFinding]) -> Table:
    rows = [
        {
            "id": finding.id,
            "space": finding.space,
            "page": finding.quotes[0].title,
            "about": finding.about,
            "text": finding.quotes[0].text,
            "address": finding.quotes[0].url,
        }
        for finding in findings
        if finding.kind == kind
    ]
    more = len(rows) - MOST_ROWS
    return Table.from_rows(HEADINGS[kind], rows[:MOST_ROWS], f"{more:,} more are left out." if more > 0 else "")


def _case(finding: LintFinding) -> Case:
    parts = [(quote.title, f"{quote.text}\n{quote.url}") for quote in finding.quotes]
    asked = f", asked {finding.asked} times" if finding.asked else ""
    title = f"{finding.space}: {finding.about}"
    return Case(title, f"{HEADINGS[finding.kind].lower()}{asked}", "bad", [*parts, ("id", finding.id)])
