"""Questions without a confident answer, as a list: what pages are missing, or not found.

Belongs here: rows of the telemetry tables as a table of a report. Does not belong here: reading the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast, get_args

from evals.reports.report import Cell, Table, words
from rag_serving.records.answers import Outcome

Row = Mapping[str, Any]

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
    """Return rows of QUESTIONS without a confident answer, those of the same question together, the most asked first.

    A question that was answered when it was asked the last time is left out; passages shown as the closest are none.
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
    """Return a line for each question that was not answered when it was last asked, the most asked first."""
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
    """Return the gate that decided, with what it decided by."""
    refusal = row.get("refusal")
    if not isinstance(refusal, Mapping):
        return ""
    gate = str(refusal.get("gate", ""))
    why = _WHY.get(gate, words(gate))
    value, threshold = refusal.get("value"), refusal.get("threshold")
    if isinstance(value, int | float) and isinstance(threshold, int | float):
        return f"{why} ({value:.2f} of {threshold:.2f})"
    return why
