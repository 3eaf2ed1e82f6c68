"""What a day's questions tell analysts: figures, times, what readers said, the answers they complained of.

Belongs here: the figures of tenants as reports. Does not belong here: reading the telemetry database, drawing plots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rag_assets.reports.report import Case, Cell, Figure, Plot, Report, Table

if TYPE_CHECKING:
    from rag_assets.reports.kpis import Kpis

Row = Mapping[str, Any]

VERSION = 3
"""Raised when the report of the same figures changes."""
FLOOR = 0.95
"""Citation precision below this is told as bad."""


def telemetry_report(
    tenant: str,
    day: str,
    found: Kpis,
    complaints: Sequence[Case],
    plots: Sequence[Plot],
    dedup: Sequence[Table],
    unanswered: Sequence[Table] = (),
) -> Report:
    """Return a tenant's day."""
    return Report(
        title=f"Questions of {tenant} on {day}",
        about=f"{found.questions} questions and {found.searches} searches{_people(found.users)}, {day} (UTC)",
        figures=_figures(found),
        tables=[*(table for table in unanswered if table.rows), *_tables(found), *dedup],
        plots=plots,
        cases=complaints,
        cases_title="Answers that readers complained of",
    )


def overview(found: Mapping[str, Kpis]) -> Table:
    """Return a row for each tenant."""
    rows: list[Mapping[str, Cell]] = [
        {
            "tenant": tenant,
            "questions": each.questions,
            "searches": each.searches,
            "people": each.users,
            "citation precision": each.citation_precision,
            "not found": each.not_found_rate,
            "degraded": each.fallback_rate,
            "p50 ms": each.latency_ms.get("total", {}).get("p50"),
            "p95 ms": each.latency_ms.get("total", {}).get("p95"),
            "cost": each.cost,
            "complaints": sum(count for verdict, count in each.feedback.items() if verdict != "helpful"),
        }
        for tenant, each in found.items()
    ]
    return Table("Tenants", list(rows[0]) if rows else ["tenant"], rows)


def complaint_cases(feedback: Sequence[Row], questions: Sequence[Row]) -> list[Case]:
    """Return the answers that readers did not find helpful, with what telemetry may tell of them; the newest first."""
    asked = {row["receipt_id"]: row for row in questions if row["receipt_id"]}
    bad = [row for row in feedback if row["verdict"] != "helpful"]
    return [_complaint(row, asked.get(row["receipt_id"], {})) for row in reversed(bad)]


def dedup_table(counts: Mapping[str, tuple[int, int]]) -> Table:
    """Return what removing duplicates saved: (chunks looked at, chunks dropped) of each tenant."""
    rows: list[Mapping[str, Cell]] = [
        {"tenant": tenant, "chunks": total, "dropped": dropped, "share": dropped / total if total else None}
        for tenant, (total, dropped) in counts.items()
    ]
    return Table("Near-duplicates that are not indexed", ["tenant", "chunks", "dropped", "share"], rows)


def _figures(found: Kpis) -> list[Figure]:
    total = found.latency_ms.get("total", {})
    complaints = sum(count for verdict, count in found.feedback.items() if verdict != "helpful")
    precision = found.citation_precision
    return [
        Figure("questions", f"{found.questions:,}"),
        Figure(
            "citation precision",
            _percent(precision),
            "neutral" if precision is None else "good" if precision >= FLOOR else "bad",
            "claims whose quote was verified",
        ),
        Figure("not found", _percent(found.not_found_rate), note="of the questions"),
        Figure(
            "degraded",
            _percent(found.fallback_rate),
            "bad" if found.fallback_rate else "neutral",
            "something was down, and something else answered",
        ),
        Figure("p50", _ms(total.get("p50")), note="from question to answer, asked of a server"),
        Figure("p95", _ms(total.get("p95"))),
        Figure("complaints", f"{complaints:,}", "bad" if complaints else "neutral", f"helpful: {_helpful(found)}"),
        Figure("cost", f"{found.cost:,.2f}", note=f"{found.tokens_in:,} tokens read, {found.tokens_out:,} written"),
        *_dropped(found.dropped),
    ]


def _dropped(rows: int) -> list[Figure]:
    return [Figure("not recorded", f"{rows:,}", "bad", "the database was away or refused them")] if rows else []


def _tables(found: Kpis) -> list[Table]:
    tables = [
        *_stages("Time of each stage", found.latency_ms),
        *_stages("Time of each stage in a terminal, which opens model and pages first", found.terminal_latency_ms),
    ]
    named = {
        "Status": ("status", found.status),
        "Flags": ("flag", found.flags),
        "Feedback": ("verdict", found.feedback),
    }
    for title, (column, counts) in named.items():
        rows: list[Mapping[str, Cell]] = [{column: name, "count": count} for name, count in counts.items()]
        if rows:
            tables.append(Table(title, [column, "count"], rows))
    return tables


def _stages(title: str, latency_ms: Mapping[str, Mapping[str, float]]) -> list[Table]:
    rows: list[Mapping[str, Cell]] = [
        {"stage": stage, "p50 ms": times["p50"], "p95 ms": times["p95"]} for stage, times in latency_ms.items()
    ]
    return [Table(title, ["stage", "p50 ms", "p95 ms"], rows)] if rows else []


def _complaint(feedback: Row, asked: Row) -> Case:
    text = asked.get("question") or f"receipt {feedback['receipt_id']}"
    number = f" [{feedback['citation']:.0f}]" if feedback["citation"] else ""
    said = f"{feedback['verdict'].replace('_', ' ')}{number}"
    parts = [("reader", feedback["comment"] or "no comment"), ("receipt", feedback["receipt_id"])]
    if asked:
        parts += [
            ("status", asked["status"]),
            ("generation", asked["generation"]),
            ("passages", "\n".join(asked["locked"]) or "none"),
            ("verdicts", "\n".join(f"{each['outcome']}: {each['reason']}" for each in asked["verdicts"]) or "none"),
            ("flags", ", ".join(asked["flags"]) or "none"),
        ]
    return Case(text, said, "bad", parts)


def _people(users: int) -> str:
    """Return who asked, where callers say who they are."""
    return f" by {users} {'person' if users == 1 else 'people'}" if users else ""


def _helpful(found: Kpis) -> str:
    return f"{found.feedback.get('helpful', 0):,}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} ms"
