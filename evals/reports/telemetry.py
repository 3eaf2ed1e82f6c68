"""A day's questions as a report: figures, times, feedback, questions without an answer, complaints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast, get_args

from evals.evaluation.metrics import percentiles
from evals.reports.report import Case, Cell, Figure, Report, Table, filled, milliseconds, percent, words
from evals.reports.retrieval import phase_tables
from rag_serving.records.answers import Outcome
from rag_serving.records.flags import FINDINGS

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]

VERSION = 5
"""Raised when the report of the same figures changes."""
FLOOR = 0.95
"""Citation precision below this is shown as bad."""


@dataclass(frozen=True)
class Day:
    """One tenant's questions on one day."""

    kpis: Kpis
    complaints: Sequence[Case] = ()
    questions: Sequence[Row] = ()  # rows of the telemetry table


def telemetry_report(tenant: str, date: str, day: Day, dedup: Sequence[Table] = ()) -> Report:
    """Return a tenant's day; `dedup` has the savings of removing duplicates."""
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
    """Return the answers that readers did not find helpful, with telemetry's record of them; the newest first."""
    asked = {row["receipt_id"]: row for row in questions if row["receipt_id"]}
    bad = [row for row in feedback if row["verdict"] != "helpful"]
    return [_complaint(row, asked.get(row["receipt_id"], {})) for row in reversed(bad)]


def dedup_table(tenant: str, chunks: int, dropped: int) -> Table:
    """Return how many of the chunks that were looked at were dropped as duplicates."""
    share = dropped / chunks if chunks else None
    row: Mapping[str, Cell] = {"tenant": tenant, "chunks": chunks, "dropped": dropped, "share": share}
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
            percent(precision),
            "neutral" if precision is None else "good" if precision >= FLOOR else "bad",
            "claims whose quote was verified",
        ),
        Figure("not found", percent(kpis.not_found_rate), note="of the questions"),
        Figure("closest shown", percent(kpis.closest_rate), note="of the questions: passages without confidence"),
        Figure(
            "degraded",
            percent(kpis.fallback_rate),
            "bad" if kpis.fallback_rate else "neutral",
            "something was down, and something else answered",
        ),
        Figure("p50", milliseconds(total.get("p50")), note="from question to answer, asked of a server"),
        Figure("p95", milliseconds(total.get("p95"))),
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
    stages = {
        "Time of each stage": kpis.latency_ms,
        "Time of each stage in a terminal, which opens model and pages first": kpis.terminal_latency_ms,
    }
    counts = {"Status": kpis.status, "Outcome": kpis.outcome, "Flags": kpis.flags, "Feedback": kpis.feedback}
    columns = {"Flags": "flag", "Feedback": "verdict"}
    return [
        *(
            Table.from_rows(
                title, ({"stage": stage, "p50 ms": ms["p50"], "p95 ms": ms["p95"]} for stage, ms in of_stage.items())
            )
            for title, of_stage in stages.items()
        ),
        *(
            Table.from_rows(
                title, ({columns.get(title, title.lower()): name, "count": number} for name, number in of.items())
            )
            for title, of in counts.items()
        ),
    ]


def _complaint(feedback: Row, asked: Row) -> Case:
    text = asked.get("question") or f"receipt {feedback['receipt_id']}"
    number = f" [{feedback['citation']:.0f}]" if feedback["citation"] else ""
    parts = [("reader", feedback["comment"] or "no comment"), ("receipt", feedback["receipt_id"])]
    if asked:
        confidence, threshold = asked.get("confidence"), asked.get("threshold")
        known = isinstance(confidence, float) and isinstance(threshold, float) and confidence == confidence
        parts += [
            ("status", asked["status"]),
            ("outcome", outcome_of(asked) + (f", confidence {confidence:.2f} of {threshold:.2f}" if known else "")),
            ("generation", asked["generation"]),
            ("passages", "\n".join(asked["locked"]) or "none"),
            ("verdicts", "\n".join(map("{outcome}: {reason}".format_map, asked["verdicts"])) or "none"),
            ("flags", ", ".join(asked["flags"]) or "none"),
        ]
    return Case(text, words(feedback["verdict"]) + number, "bad", parts)


@dataclass(frozen=True)
class Kpis:
    """Figures of some questions; a share is None if there is nothing to take it of."""

    questions: int
    searches: int
    users: int
    status: Mapping[str, int]
    outcome: Mapping[str, int]  # told, closest, none
    citation_precision: float | None  # verified claims over claims
    not_found_rate: float | None  # of the questions
    closest_rate: float | None  # of the questions: passages were shown without confidence
    fallback_rate: float | None  # share of questions and searches in which something was degraded
    flags: Mapping[str, int]
    latency_ms: Mapping[str, Mapping[str, float]]  # stage -> p50, p95; of a server's requests
    tokens_in: int
    tokens_out: int
    cost: float
    dropped: int  # rows that could not be recorded
    feedback: Mapping[str, int] = field(default_factory=dict)
    terminal_latency_ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # the same of a terminal

    def payload(self) -> dict[str, Any]:
        return asdict(self)


def kpis(questions: pd.DataFrame, feedback: pd.DataFrame, losses: pd.DataFrame) -> Kpis:
    """Return the figures of rows of QUESTIONS, of FEEDBACK, and of LOSSES."""
    asked = questions[questions["kind"] != "search"]
    claims = int(asked["claims"].sum())
    in_terminal = questions["origin"] == "terminal"
    flags = Counter(flag for row in questions["flags"] for flag in row)
    outcomes = asked[["status", "outcome"]].apply(outcome_of, axis=1) if len(asked) else asked["status"]
    return Kpis(
        questions=len(asked),
        searches=len(questions) - len(asked),
        users=int(questions["user_hash"].nunique()),
        status=_counted(asked["status"]),
        outcome=_counted(outcomes),
        citation_precision=float(asked["verified"].sum() / claims) if claims else None,
        not_found_rate=_share(asked["status"] == "not_found"),
        closest_rate=_share(outcomes == "closest"),
        fallback_rate=_share(questions["flags"].map(lambda row: bool(set(row) - FINDINGS))),
        flags=dict(sorted(flags.items())),
        latency_ms=latencies(questions[~in_terminal]),
        tokens_in=int(questions["tokens_in"].sum()),
        tokens_out=int(questions["tokens_out"].sum()),
        cost=float(questions["cost"].sum()),
        dropped=int(losses["rows"].sum()),
        feedback=_counted(feedback["verdict"]),
        terminal_latency_ms=latencies(questions[in_terminal]),
    )


def latencies(questions: pd.DataFrame) -> dict[str, dict[str, float]]:
    """p50 and p95 of every stage, in milliseconds, over the questions in which it ran; the longest stage first."""
    found = percentiles(questions["timings_ms"])
    return dict(sorted(found.items(), key=lambda pair: -pair[1]["p50"]))


def _share(marks: pd.Series[Any]) -> float | None:
    return float(marks.astype(bool).mean()) if len(marks) else None


def _counted(values: pd.Series[Any]) -> dict[str, int]:
    return {str(value): int(count) for value, count in values.value_counts().sort_index().items()}


_COLUMNS = ("question", "times", "people", "status", "why", "last asked (UTC)")
_WHY = {
    "passages": "no passage was found",
    "similarity": "no passage is near enough",
    "coverage": "no passage has enough of its words",
    "confidence": "no sentence is certain enough",
    "declined": "the model found no answer",
    "no_sentence": "no sentence can answer",
    "verification": "nothing that was written stands in the pages",
    "order": "gives orders instead of asking",
    "empty": "has no words",
    "pointer": "does not say what it is about",
    "remark": "asks nothing",
}


def unanswered(questions: Sequence[Row]) -> list[list[Row]]:
    """Return rows of QUESTIONS without a confident answer, grouped by question, the most frequent first.

    A question answered the last time is left out; passages shown as the closest are no answer.
    """
    asked: dict[str, list[Row]] = {}
    for row in sorted(questions, key=lambda row: float(row["at"])):
        if row["kind"] == "ask":
            asked.setdefault(str(row["question_hash"]), []).append(row)
    still_open = (rows for rows in asked.values() if outcome_of(rows[-1]) != "told")
    groups = [[row for row in rows if outcome_of(row) != "told"] for rows in still_open]
    return sorted(groups, key=lambda rows: (-len(rows), -float(rows[-1]["at"])))


def outcome_of(row: Row) -> Outcome:
    """Return the outcome of a question; rows of older versions have only a status."""
    if (outcome := row.get("outcome")) in get_args(Outcome):
        return cast(Outcome, outcome)
    return "told" if row["status"] == "answered" else "none"


def unanswered_table(questions: Sequence[Row], title: str = "Questions without an answer") -> Table:
    """Return a line for each question whose last asking had no answer, the most frequent first."""
    rows = [_line(group) for group in unanswered(questions)]
    without_text = rows and not any(row["question"] for row in questions)
    note = "Their text is not kept: `telemetry.store_questions: true` keeps it from then on." if without_text else ""
    return Table(title, _COLUMNS, rows, note)


def _line(group: Sequence[Row]) -> Mapping[str, Cell]:
    last = group[-1]
    return {
        "question": str(last["question"] or f"… {last['question_hash'][:8]}"),
        "times": len(group),
        "people": len({row["user_hash"] for row in group if row["user_hash"]}) or None,
        "status": "closest shown" if outcome_of(last) == "closest" else words(str(last["status"])),
        "why": _why(last),
        "last asked (UTC)": f"{datetime.fromtimestamp(float(last['at']), UTC):%Y-%m-%d %H:%M}",
    }


def _why(row: Row) -> str:
    refusal = row.get("refusal")
    if not isinstance(refusal, Mapping):
        return ""
    gate = str(refusal.get("gate", ""))
    why = _WHY.get(gate, words(gate))
    value, threshold = refusal.get("value"), refusal.get("threshold")
    if isinstance(value, int | float) and isinstance(threshold, int | float):
        return f"{why} ({value:.2f} of {threshold:.2f})"
    return why


MOST_PAGES = 20


def top_pages(questions: Sequence[Mapping[str, Any]], most: int = MOST_PAGES) -> Table:
    """Return the pages whose passages were in the most confident answers; a page counts once for each answer."""
    answers = [row for row in questions if row["kind"] == "ask" and outcome_of(row) == "told"]
    counts = Counter(page for row in answers for page in {chunk.rsplit(":", 2)[0] for chunk in row["locked"]})
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rows: list[Mapping[str, Cell]] = [
        {"page": page, "answers": count, "share": count / len(answers)} for page, count in ranked[:most]
    ]
    note = "Pages whose passages an answer was made from; ids as in links and receipts." if rows else ""
    return Table.from_rows("Pages most used in answers", rows, note)
