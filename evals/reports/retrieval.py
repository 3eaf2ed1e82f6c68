"""The results of retrieval, phase by phase, and triggers for another phase.

The measures and the thresholds are those of the plan of the phases: match rate, fallback rate, latency, readers'
feedback. Without `telemetry.store_questions` questions with "How do I …" are unknown: that line stays empty.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals.reports.report import Cell, Figure, Report, Table, filled, milliseconds, percent
from rag_serving.degradation.controller import P50, P95, percentile
from rag_serving.records.flags import CACHED, CACHED_OLDER, PHASE_FAILED, PHASE_LOWERED

Row = Mapping[str, Any]

VERSION = 1
"""Raised when the report of the same rows changes."""
DAYS = 7
LEAST_MATCH_RATE, MOST_FALLBACKS, MOST_TYPO_FAILURES, MOST_COMPLAINTS, MOST_P95_MS = 0.7, 0.3, 0.2, 0.2, 500.0
SAMPLE = 10
"""Answers that are shown for a person to compare with their passages."""
_TURNED_AWAY = frozenset({"clarify", "no_match"})
_NATURAL = re.compile(r"(?:how|where|why|when|can|could|should|may|do|does|is|are)\b", re.IGNORECASE)
_NOT_MEANT = ("not what i meant", "not what i asked", "that is not what i", "that's not what i", "i meant something")


@dataclass(frozen=True)
class Measures:
    """Figures of some questions; a share is None if there is nothing to take it of."""

    questions: int
    match_rate: float | None  # there are results
    clarified_rate: float | None
    no_match_rate: float | None
    typo_rate: float | None  # a word was read as another one
    typo_failures: float | None  # of those, turned away
    natural_failures: float | None  # of questions as "How do I …", turned away
    complaint_rate: float | None  # of verdicts
    not_meant: int  # comments that say "not what I meant"
    p50_ms: float | None  # from the question to its passages
    p95_ms: float | None


def measures_of(questions: Sequence[Row], feedback: Sequence[Row] = ()) -> Measures:
    """Return the figures of rows of QUESTIONS, and of the verdicts on them."""
    asked = [row for row in questions if row.get("action") and row["kind"] == "ask"]
    searched = [row for row in questions if row.get("matched") is not None]
    corrected = [row for row in asked if row.get("corrected")]
    natural = [row for row in asked if row.get("question") and _NATURAL.match(row["question"])]
    of_servers = (row for row in questions if row.get("origin") != "terminal")
    times = sorted(row["retrieval_ms"] for row in of_servers if row.get("retrieval_ms") is not None)
    return Measures(
        questions=len(asked),
        match_rate=_share(row["matched"] > 0 for row in searched),
        clarified_rate=_share(row["action"] == "clarify" for row in asked),
        no_match_rate=_share(row["action"] == "no_match" for row in asked),
        typo_rate=_share(bool(row.get("corrected")) for row in asked),
        typo_failures=_share(row["action"] in _TURNED_AWAY for row in corrected),
        natural_failures=_share(row["action"] in _TURNED_AWAY for row in natural),
        complaint_rate=_share(row["verdict"] != "helpful" for row in feedback),
        not_meant=sum(_is_not_meant(row.get("comment") or "") for row in feedback),
        p50_ms=percentile(times, P50) if times else None,
        p95_ms=percentile(times, P95) if times else None,
    )


def retrieval_report(tenant: str, last: str, questions: Sequence[Row], feedback: Sequence[Row]) -> Report:
    """Return the report of the days up to `last`."""
    found = measures_of(questions, feedback)
    return Report(
        title=f"Retrieval phases of {tenant}",
        about=f"{found.questions} questions of {DAYS} days up to {last} (UTC)",
        figures=_figures(found),
        tables=filled(triggers(found), *phase_tables(questions), _sample(questions)),
    )


def phase_tables(questions: Sequence[Row]) -> list[Table]:
    """Return how each phase did, and how often it was passed by."""
    phases = sorted({int(row["phase"]) for row in questions if row.get("phase") is not None}, reverse=True)
    rows = [_phase(phase, [row for row in questions if row.get("phase") == phase]) for phase in phases]
    flags = Counter(flag for row in questions for flag in row["flags"])
    told = {
        **{f"phase {phase} failed, the next one was asked": flags[flag] for phase, flag in PHASE_FAILED.items()},
        "a simpler phase was in force": flags[PHASE_LOWERED],
        "an earlier answer was shown": flags[CACHED],
        "an earlier answer of other pages was shown": flags[CACHED_OLDER],
        "no answer could be given": sum(row.get("action") == "unavailable" for row in questions),
    }
    passed: list[Mapping[str, Cell]] = [{"what": what, "questions": count} for what, count in told.items() if count]
    return filled(Table.from_rows("Retrieval phases", rows), Table.from_rows("Passed by", passed))


def triggers(found: Measures) -> Table:
    """Return the triggers of another phase, each measure beside its threshold."""
    rows = [
        _trigger("phase 2", "match rate", found.match_rate, LEAST_MATCH_RATE, is_least=True),
        _trigger("phase 2", "misspelt questions that are turned away", found.typo_failures, MOST_TYPO_FAILURES),
        _trigger("phase 2", "verdicts that are complaints", found.complaint_rate, MOST_COMPLAINTS),
        _trigger("phase 3", "“How do I …” that is turned away", found.natural_failures, MOST_FALLBACKS),
        _trigger("phase 3", "questions without a match", found.no_match_rate, MOST_FALLBACKS),
        _trigger("one phase down", "p95 in ms, from the question to its passages", found.p95_ms, MOST_P95_MS),
    ]  # fmt: skip
    return Table.from_rows("What asks for another phase", rows, "Empty: there is nothing to measure it by.")


def _figures(found: Measures) -> list[Figure]:
    return [
        Figure("match rate", percent(found.match_rate), note="of the questions something was found for"),
        Figure("asked back", percent(found.clarified_rate)),
        Figure("no match", percent(found.no_match_rate)),
        Figure("misspelt", percent(found.typo_rate), note="a word was read as another one"),
        Figure("complaints", percent(found.complaint_rate), note=f"“not what I meant”: {found.not_meant}"),
        Figure("p50", milliseconds(found.p50_ms), note="from the question to its passages"),
        Figure("p95", milliseconds(found.p95_ms), "bad" if (found.p95_ms or 0) > MOST_P95_MS else "neutral"),
    ]


def _phase(phase: int, rows: Sequence[Row]) -> Mapping[str, Cell]:
    found = measures_of(rows)
    return {
        "phase": phase,
        "questions and searches": len(rows),
        "match rate": found.match_rate,
        "asked back": found.clarified_rate,
        "no match": found.no_match_rate,
        "p50 ms": found.p50_ms,
        "p95 ms": found.p95_ms,
    }


def _trigger(
    towards: str, what: str, value: float | None, threshold: float, is_least: bool = False
) -> Mapping[str, Cell]:
    fires = None if value is None else (value < threshold if is_least else value > threshold)
    return {"towards": towards, "measure": what, "value": value, "threshold": threshold, "asks for it": fires}


def _sample(questions: Sequence[Row]) -> Table:
    """Return some answers for a person to compare with their passages: those of the lowest digests, so that nobody
    chooses them."""
    answered = [row for row in questions if row.get("action") == "answer" and row.get("receipt_id")]
    drawn = sorted(answered, key=lambda row: hashlib.sha256(row["receipt_id"].encode()).digest())[:SAMPLE]
    rows: list[Mapping[str, Cell]] = [
        {"receipt": row["receipt_id"], "phase": row.get("phase"), "question": row.get("question") or ""}
        for row in drawn
    ]
    return Table.from_rows("Answers to be reviewed by a person", rows, "`citelock receipt show ID` has the passages.")


def _is_not_meant(comment: str) -> bool:
    text = " ".join(comment.casefold().replace("’", "'").split())
    return any(words in text for words in _NOT_MEANT)


def _share(marks: Iterable[bool]) -> float | None:
    known = [*marks]
    return sum(known) / len(known) if known else None
