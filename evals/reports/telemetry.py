"""A day's questions as a report: figures, times, feedback, the answers that readers complained of.

Belongs here: the figures of tenants as reports. Does not belong here: reading the telemetry database, drawing plots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evals.reports.report import Case, Cell, Figure, Report, Table, filled, words
from evals.reports.retrieval import phase_tables
from evals.reports.top_pages import top_pages
from evals.reports.unanswered import outcome_of, unanswered_table

if TYPE_CHECKING:
    from evals.reports.kpis import Kpis

Row = Mapping[str, Any]

VERSION = 5
"""Raised when the report of the same figures changes."""
FLOOR = 0.95
"""Citation precision below this is shown as bad."""


@dataclass(frozen=True)
class Day:
    """What one tenant was asked on one day."""

    kpis: Kpis
    complaints: Sequence[Case] = ()
    questions: Sequence[Row] = ()  # rows of the telemetry table


def telemetry_report(tenant: str, date: str, day: Day, dedup: Sequence[Table] = ()) -> Report:
    """Return a tenant's day; `dedup` says what removing duplicates saved."""
    kpis = day.kpis
    people = f" by {kpis.users} {'person' if kpis.users == 1 else 'people'}" if kpis.users else ""
    return Report(
        title=f"Questions of {tenant} on {date}",
        about=f"{kpis.questions} questions and {kpis.searches} searches{people}, {date} (UTC)",
        figures=_figures(kpis),
        tables=filled(
            unanswered_table(day.questions),
            top_pages(day.questions),
            *_tables(kpis),
            *phase_tables(day.questions),
            *dedup,
        ),
        cases=day.complaints,
        cases_title="Answers that readers complained of",
    )


def overview(kpis_of: Mapping[str, Kpis]) -> Table:
    """Return a row for each tenant."""
    rows = (
        {
            "tenant": tenant,
            "questions": kpis.questions,
            "searches": kpis.searches,
            "people": kpis.users,
            "citation precision": kpis.citation_precision,
            "not found": kpis.not_found_rate,
            "degraded": kpis.fallback_rate,
            "p50 ms": kpis.latency_ms.get("total", {}).get("p50"),
            "p95 ms": kpis.latency_ms.get("total", {}).get("p95"),
            "cost": kpis.cost,
            "complaints": _complaints(kpis),
        }
        for tenant, kpis in kpis_of.items()
    )
    return Table.from_rows("Tenants", rows)


def complaint_cases(feedback: Sequence[Row], questions: Sequence[Row]) -> list[Case]:
    """Return the answers that readers did not find helpful, with what telemetry kept of them; the newest first."""
    asked = {row["receipt_id"]: row for row in questions if row["receipt_id"]}
    bad = [row for row in feedback if row["verdict"] != "helpful"]
    return [_complaint(row, asked.get(row["receipt_id"], {})) for row in reversed(bad)]


def dedup_table(tenant: str, chunks: int, dropped: int) -> Table:
    """Return how many of the chunks that were looked at were dropped as duplicates."""
    row: Mapping[str, Cell] = {
        "tenant": tenant,
        "chunks": chunks,
        "dropped": dropped,
        "share": dropped / chunks if chunks else None,
    }
    return Table.from_rows("Near-duplicates that are not indexed", [row])


def _complaints(kpis: Kpis) -> int:
    return sum(count for verdict, count in kpis.feedback.items() if verdict != "helpful")


def _figures(kpis: Kpis) -> list[Figure]:
    total = kpis.latency_ms.get("total", {})
    complaints, precision = _complaints(kpis), kpis.citation_precision
    figures = [
        Figure("questions", f"{kpis.questions:,}"),
        Figure(
            "citation precision",
            _percent(precision),
            "neutral" if precision is None else "good" if precision >= FLOOR else "bad",
            "claims whose quote was verified",
        ),
        Figure("not found", _percent(kpis.not_found_rate), note="of the questions"),
        Figure("closest shown", _percent(kpis.closest_rate), note="of the questions: passages without confidence"),
        Figure(
            "degraded",
            _percent(kpis.fallback_rate),
            "bad" if kpis.fallback_rate else "neutral",
            "something was down, and something else answered",
        ),
        Figure("p50", _ms(total.get("p50")), note="from question to answer, asked of a server"),
        Figure("p95", _ms(total.get("p95"))),
        Figure(
            "complaints",
            f"{complaints:,}",
            "bad" if complaints else "neutral",
            f"helpful: {kpis.feedback.get('helpful', 0):,}",
        ),
        Figure("cost", f"{kpis.cost:,.2f}", note=f"{kpis.tokens_in:,} tokens read, {kpis.tokens_out:,} written"),
    ]
    if kpis.dropped:
        figures.append(Figure("not recorded", f"{kpis.dropped:,}", "bad", "the database was away or refused them"))
    return figures


def _tables(kpis: Kpis) -> list[Table]:
    return [
        _stages("Time of each stage", kpis.latency_ms),
        _stages("Time of each stage in a terminal, which opens model and pages first", kpis.terminal_latency_ms),
        _counts("Status", "status", kpis.status),
        _counts("Outcome", "outcome", kpis.outcome),
        _counts("Flags", "flag", kpis.flags),
        _counts("Feedback", "verdict", kpis.feedback),
    ]


def _stages(title: str, latency_ms: Mapping[str, Mapping[str, float]]) -> Table:
    rows: Iterable[Mapping[str, Cell]] = (
        {"stage": stage, "p50 ms": times["p50"], "p95 ms": times["p95"]} for stage, times in latency_ms.items()
    )
    return Table.from_rows(title, rows)


def _counts(title: str, column: str, counts: Mapping[str, int]) -> Table:
    rows: Iterable[Mapping[str, Cell]] = ({column: name, "count": count} for name, count in counts.items())
    return Table.from_rows(title, rows)


def _complaint(feedback: Row, asked: Row) -> Case:
    text = asked.get("question") or f"receipt {feedback['receipt_id']}"
    number = f" [{feedback['citation']:.0f}]" if feedback["citation"] else ""
    parts = [("reader", feedback["comment"] or "no comment"), ("receipt", feedback["receipt_id"])]
    if asked:
        parts += [
            ("status", asked["status"]),
            ("outcome", _outcome(asked)),
            ("generation", asked["generation"]),
            ("passages", "\n".join(asked["locked"]) or "none"),
            ("verdicts", "\n".join(map("{outcome}: {reason}".format_map, asked["verdicts"])) or "none"),
            ("flags", ", ".join(asked["flags"]) or "none"),
        ]
    return Case(text, words(feedback["verdict"]) + number, "bad", parts)


def _outcome(asked: Row) -> str:
    """Return the outcome of a question, with the confidence and the threshold that decided where they are known."""
    confidence, threshold = asked.get("confidence"), asked.get("threshold")
    known = isinstance(confidence, float) and isinstance(threshold, float) and confidence == confidence
    return outcome_of(asked) + (f", confidence {confidence:.2f} of {threshold:.2f}" if known else "")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} ms"
