"""The table of the pages that answers were made from."""

from __future__ import annotations

from typing import Any

from evals.reports.telemetry import top_pages


def row(*locked: str, outcome: str | None = "told", kind: str = "ask", status: str = "answered") -> dict[str, Any]:
    return {"kind": kind, "outcome": outcome, "status": status, "locked": list(locked)}


def test_pages_are_counted_once_for_each_confident_answer_and_the_most_used_come_first() -> None:
    questions = [
        row("a:1:0", "a:1:1", "ops.b:x:2:0"),
        row("ops.b:x:3:1"),
        row("c:1:0", outcome="closest"),
        row("d:1:0", outcome=None, kind="search"),
        row("e:1:0", outcome=None),
        row(outcome="none", status="not_found"),
    ]
    table = top_pages(questions)
    assert [(line["page"], line["answers"]) for line in table.rows] == [("ops.b:x", 2), ("a", 1), ("e", 1)]
    assert table.rows[0]["share"] == 2 / 3
    assert len(top_pages(questions, 1).rows) == 1


def test_a_day_without_answers_has_no_such_table() -> None:
    assert top_pages([row("a:1:0", outcome="closest")]).rows == []
