"""What a day's questions add up to.

Belongs here: figures over rows of the telemetry tables. Does not belong here: reading the rows
(`evaluation.telemetry_rows`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pandas as pd

from evals.evaluation.tables import percentiles
from evals.reports.unanswered import outcome_of
from rag_serving.records.flags import FINDINGS


@dataclass(frozen=True)
class Kpis:
    """Figures of some questions; a share is None where there is nothing to take it of."""

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
    latency_ms: Mapping[str, Mapping[str, float]]  # stage -> p50, p95; of what a server was asked
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
