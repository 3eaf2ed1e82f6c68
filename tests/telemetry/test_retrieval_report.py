"""Whether the questions of some days ask for another phase of retrieval."""

from __future__ import annotations

from typing import Any

import pytest

from evals.reports.report import Report, Table, html, markdown
from evals.reports.retrieval import Measures, measures_of, phase_tables, retrieval_report, triggers

ROW: dict[str, Any] = {
    "kind": "ask",
    "origin": "server",
    "question": None,
    "flags": [],
    "receipt_id": "r",
    "phase": 3,
    "retrieval_ms": 20.0,
    "matched": 5,
    "corrected": 0,
    "action": "answer",
}
SEARCH = {**ROW, "kind": "search", "action": None, "receipt_id": None}
LOST = {**ROW, "phase": None, "retrieval_ms": None, "matched": None, "corrected": None, "action": "unavailable"}
OLD = {**dict.fromkeys(ROW), "kind": "ask", "flags": []}


def of(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{**ROW, **more, "receipt_id": f"r{number}"} for number in range(count)]


def fired(found: Measures) -> dict[str, Any]:
    return {str(row["measure"]): row["asks for it"] for row in triggers(found).rows}


def table(report: Report, title: str) -> Table:
    (found,) = [table for table in report.tables if table.title == title]
    return found


def test_shares_and_times_are_of_what_they_are_shares_of() -> None:
    rows = [*of(6), *of(2, action="no_match", matched=0), *of(1, action="clarify", corrected=1), SEARCH, LOST, OLD]
    found = measures_of(rows, [{"verdict": "helpful", "comment": None}, {"verdict": "missing", "comment": "x"}])
    assert found.questions == 10
    assert found.match_rate == pytest.approx(8 / 10)
    assert (found.no_match_rate, found.clarified_rate) == (pytest.approx(0.2), pytest.approx(0.1))
    assert (found.typo_failures, found.complaint_rate) == (1.0, 0.5)
    assert (found.p50_ms, found.p95_ms) == (20.0, 20.0)


def test_nothing_asked_gives_nothing_to_measure() -> None:
    found = measures_of([OLD])
    assert (found.questions, found.match_rate, found.p95_ms) == (0, None, None)
    assert set(fired(found).values()) == {None}
    assert html(retrieval_report("acme", "2026-03-02", [], []))


@pytest.mark.parametrize(("matched", "fires"), [(69, True), (70, False)])
def test_a_match_rate_below_seventy_percent_asks_for_phase_two(matched: int, fires: bool) -> None:
    rows = [*of(matched, phase=1), *of(100 - matched, phase=1, matched=0, action="no_match")]
    assert fired(measures_of(rows))["match rate"] is fires


def test_questions_in_natural_words_that_are_turned_away_ask_for_phase_three() -> None:
    rows = [*of(5, question="How do I find my notes?", action="clarify"), *of(95, question="notes")]
    found = measures_of(rows)
    assert found.natural_failures == 1.0
    assert fired(found)["“How do I …” that is turned away"] is True
    assert measures_of(of(5)).natural_failures is None


def test_who_says_that_something_else_was_meant_is_counted() -> None:
    comments = ["That’s NOT  what I meant!", "not what i asked", "fine", None]
    assert measures_of([], [{"verdict": "not_helpful", "comment": comment} for comment in comments]).not_meant == 2


def test_times_of_a_terminal_are_left_out() -> None:
    found = measures_of([*of(3), *of(9, origin="terminal", retrieval_ms=9_000.0)])
    assert found.p95_ms == 20.0


def test_each_phase_and_what_was_passed_by_is_told() -> None:
    rows = [*of(4), *of(3, phase=2, flags=["phase_3_failed"], retrieval_ms=2_005.0), LOST]
    phases, passed = phase_tables(rows)
    assert [(row["phase"], row["questions and searches"]) for row in phases.rows] == [(3, 4), (2, 3)]
    assert phases.rows[1]["p95 ms"] == 2_005.0
    assert {row["what"]: row["questions"] for row in passed.rows} == {
        "phase 3 failed, the next one was asked": 3,
        "no answer could be given": 1,
    }


def test_ten_answers_are_drawn_for_review_the_same_ones_whatever_their_order() -> None:
    rows = of(50)
    one, other = (
        table(retrieval_report("acme", "2026-03-02", given, []), "Answers to be reviewed by a person").rows
        for given in (rows, rows[::-1])
    )
    assert len(one) == 10
    assert one == other
    assert "receipt" in markdown(retrieval_report("acme", "2026-03-02", rows, []))


def test_foreign_text_is_escaped() -> None:
    report = retrieval_report("acme", "2026-03-02", of(1, question="<script>alert(1)</script> | x"), [])
    assert "<script>alert" not in html(report)
    assert "<script>alert" not in markdown(report)
