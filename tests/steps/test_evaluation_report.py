"""The report of an evaluation: what became worse first, beside what was answered before."""

from __future__ import annotations

from typing import Any

import pytest

from evals.reports.evaluation import evaluation_report, measured
from evals.reports.report import html, markdown


def case(name: str, fault: str | None = None, answer: str = "It is so.") -> dict[str, Any]:
    return {
        "id": name,
        "question": f"Is {name} so?",
        "expected": "Yes.",
        "quotes": ["it is so"],
        "tags": ["how"],
        "fault": fault,
        "status": "answered",
        "answer": answer,
        "citations": [{"index": 1, "verification": "exact", "quote": "it is so", "url": "https://w.example/p#a"}],
        "passages": [
            {
                "index": 1,
                "heading_path": ["P", "A"],
                "text": "Since it is so.",
                "why": "cited",
                "scores": {"dense": 0.5},
            }
        ],
        "timings_ms": {"total": 12.5},
    }


def facts(generation: str, *cases: dict[str, Any], recall: float = 0.9, passed: bool = True) -> dict[str, Any]:
    return {
        "generation": generation,
        "created_at": "2026-11-21T10:00:00+00:00",
        "note": "",
        "gold": {"asked": len(cases), "questions": len(cases), "stale": []},
        "compared_with": "g0",
        "override": None,
        "seconds": 1.0,
        "gates": [{"gate": "recall", "passed": passed, "detail": "0.9 of 0.8", "questions": []}],
        "summary": {"recall@10": {"mean": recall, "low": recall - 0.05, "high": recall + 0.05, "questions": 10}},
        "evaluation": {"latency_ms": {"total": {"p50": 10.0, "p95": 20.0}}},
        "cases": list(cases),
    }


def test_what_became_wrong_stands_before_what_was_wrong_and_what_is_right() -> None:
    before = facts("g0", case("a"), case("b", "wrong"), case("c", "wrong"), case("d"))
    now = facts("g1", case("a"), case("b", "wrong"), case("c"), case("d", "wrong"))
    report = evaluation_report(now, before)
    assert [each.title[0] for each in report.cases] == ["d", "b", "c", "a"]
    (changed,) = [table for table in report.tables if table.title == "Judged otherwise than before"]
    assert [(row["id"], row["now"], row["before"]) for row in changed.rows] == [
        ("d", "wrong", "answered"),
        ("c", "answered", "wrong"),
    ]


def test_a_question_stands_beside_its_answer_of_the_other_generation() -> None:
    page = html(evaluation_report(facts("g1", case("a", answer="New.")), facts("g0", case("a", answer="Old."))))
    assert page.index("New.") < page.index("judged before") < page.index("Old.")
    assert "passage [1] P › A: cited; dense 0.500" in page
    assert "citation [1], quote exact" in page


@pytest.mark.parametrize(("number", "told"), [(1, "passage 3 cited as [1] P › A"), (None, "passage 3 P › A")])
def test_a_passage_has_its_place_and_the_number_it_is_cited_by(number: int | None, told: str) -> None:
    asked = case("a")
    asked["passages"][0] |= {"index": number, "passage": 3}
    assert told in html(evaluation_report(facts("g1", asked)))


def test_figures_tell_what_they_were_and_whether_that_means_something() -> None:
    (_, slightly) = evaluation_report(facts("g1", recall=0.9), facts("g0", recall=0.93)).figures
    told = "right pages among the first ten; was 0.930, 0.850–0.950 over 10"
    assert (slightly.value, slightly.tone, slightly.note) == ("0.900", "neutral", told)
    assert evaluation_report(facts("g1", recall=0.8), facts("g0", recall=0.9)).figures[1].tone == "bad"
    assert evaluation_report(facts("g1", recall=0.9), facts("g0", recall=0.8)).figures[1].tone == "good"
    assert measured(facts("g1", recall=0.9), facts("g0", recall=0.8)) == {"recall@10": [0.9, 0.8]}


def test_without_another_generation_nothing_is_compared() -> None:
    report = evaluation_report(facts("g1", case("a"), passed=False))
    assert report.figures[0].tone == "bad"
    assert not report.cases[0].before
    assert "before" not in markdown(report)
    assert measured(facts("g1"), None) == {"recall@10": [0.9]}
