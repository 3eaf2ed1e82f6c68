"""What the questions of today add up to since the server started, for those who watch it.

Belongs here: counts that every question adds to, the last times of each stage, adding up those of several processes.
Does not belong here: the figures of whole days (`kpis`), Prometheus' text format (`monitoring`).
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rag_serving.telemetry.recorder import TableName

LAST = 1_000
"""Times of each stage that percentiles are taken of."""
PARTS = (50, 95)


@dataclass
class Sums:
    """What one process counted on one day."""

    day: str = ""
    status: Counter[str] = field(default_factory=Counter)
    searches: int = 0
    claims: int = 0
    verified: int = 0
    degraded: int = 0
    cost: float = 0.0
    feedback: Counter[str] = field(default_factory=Counter)
    times: dict[str, deque[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Today:
    """Figures of a day; a share is None where there is nothing to take it of."""

    questions: int
    searches: int
    status: Mapping[str, int]
    citation_precision: float | None  # verified claims over claims
    not_found_rate: float | None  # of the questions
    fallback_rate: float | None  # share of questions and searches in which something was degraded
    cost: float
    feedback: Mapping[str, int]
    latency_ms: Mapping[str, Mapping[int, float]]  # stage -> 50, 95 -> milliseconds


_MAX_VERDICTS = 10_000


class Live:
    """Sums of the rows of today (UTC). Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums = Sums()
        self._verdicts: dict[str, str] = {}  # of today, by row

    def add(self, table: TableName, row: Mapping[str, Any]) -> None:
        """Count a row of `events`; with the first one of another day the count begins anew."""
        with self._lock:
            if row["day"] != self._sums.day:
                self._sums = Sums(row["day"])
                self._verdicts.clear()
            if table == "feedback":
                self._add_verdict(row)
            else:
                self._add_question(row)

    def sums(self, day: str) -> Sums:
        """Return what was counted on this day (2026-01-31); zeros where nothing was asked yet."""
        with self._lock:
            return deepcopy(self._sums) if self._sums.day == day else Sums(day)

    def _add_verdict(self, row: Mapping[str, Any]) -> None:
        """Count a verdict; the one that it takes the place of counts no more."""
        sums = self._sums
        if (replaced := self._verdicts.pop(row["id"], None)) is not None:
            sums.feedback[replaced] -= 1
        sums.feedback[row["verdict"]] += 1
        self._verdicts[row["id"]] = row["verdict"]
        if len(self._verdicts) > _MAX_VERDICTS:
            del self._verdicts[next(iter(self._verdicts))]

    def _add_question(self, row: Mapping[str, Any]) -> None:
        sums = self._sums
        if row["kind"] == "search":
            sums.searches += 1
        else:
            sums.status[row["status"]] += 1
        sums.claims += row["claims"]
        sums.verified += row["verified"]
        sums.degraded += bool(row["flags"])
        sums.cost += row["cost"]
        for stage, value in row["timings_ms"].items():
            sums.times.setdefault(stage, deque(maxlen=LAST)).append(value)


def figures(parts: Iterable[Sums]) -> Today:
    """Return the figures of all processes together; shares and percentiles are those of all questions."""
    whole = Sums()
    for part in parts:
        whole.status += part.status
        whole.feedback += part.feedback
        whole.searches += part.searches
        whole.claims += part.claims
        whole.verified += part.verified
        whole.degraded += part.degraded
        whole.cost += part.cost
        for stage, values in part.times.items():
            whole.times.setdefault(stage, deque()).extend(values)
    questions = sum(whole.status.values())
    return Today(
        questions=questions,
        searches=whole.searches,
        status=dict(whole.status),
        citation_precision=_share(whole.verified, whole.claims),
        not_found_rate=_share(whole.status["not_found"], questions),
        fallback_rate=_share(whole.degraded, questions + whole.searches),
        cost=whole.cost,
        feedback=dict(whole.feedback),
        latency_ms={
            stage: dict(zip(PARTS, np.percentile(values, PARTS).tolist(), strict=True))
            for stage, values in whole.times.items()
        },
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
