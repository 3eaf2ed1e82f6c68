"""Two runs of the same questions: paired differences with their intervals, and what changed."""

from __future__ import annotations

from typing import Any

import pytest

from evals.evaluation.compare import CompareError, Difference, compare, is_run, lines_of


def case(key: str, fault: str | None = None, answer: str = "So it is.", ms: float = 10.0) -> dict[str, Any]:
    status = "answered" if answer else "not_found"
    timings = {"total": ms}
    return {
        "id": key,
        "question": f"What of {key}?",
        "status": status,
        "fault": fault,
        "answer": answer,
        "timings_ms": timings,
    }


def run(*cases: dict[str, Any], **measures: dict[str, float]) -> dict[str, Any]:
    return {"cases": list(cases), "measures": measures}


def by_measure(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Difference]:
    return {each.measure: each for each in compare(before, after).differences}


def test_differences_are_of_the_same_questions() -> None:
    keys = [f"q{number}" for number in range(40)]
    before = run(*map(case, keys), answerability=dict.fromkeys(keys, 0.0), recall={"q0": 1.0, "gone": 0.0})
    after = run(
        *map(case, [*keys, "new"]),
        answerability={key: float(key != "q0") for key in [*keys, "new"]},
        recall={"new": 0.5},
    )
    found = by_measure(before, after)
    assert set(found) == {"answerability", "total_ms"}
    answered = found["answerability"]
    assert (answered.questions, answered.before, answered.after) == (40, 0.0, 0.975)
    assert answered.low <= answered.difference == 0.975 <= answered.high
    assert answered.p < 0.001
    assert (found["total_ms"].difference, found["total_ms"].p) == (0.0, 1.0)


def test_what_changed_is_named_the_worst_first() -> None:
    wrong, other = "no citation of the right page", "not answered: not_found"
    before = run(case("a"), case("b", wrong), case("c", wrong), case("d"), case("e"))
    after = run(case("a", wrong), case("b"), case("c", other, ""), case("d", answer="It is so."), case("e"))
    found = [(each.id, each.change, each.before, each.after) for each in compare(before, after).changed]
    assert found == [
        ("a", "now wrong", "answered", wrong),
        ("b", "now right", wrong, "answered"),
        ("c", "judged otherwise", wrong, other),
        ("d", "another answer", "answered", "answered"),
    ]


def test_a_question_of_another_text_is_another_question() -> None:
    before, after = run(case("a"), case("b")), run({**case("a"), "question": "Something else?"}, case("b"), case("c"))
    found = compare(before, after)
    assert (found.questions, found.only_before, found.only_after) == (1, ("a",), ("a", "c"))
    assert "1 questions in both runs (1 only before, 2 only after)" in next(lines_of(found))


def test_runs_of_other_questions_are_not_compared() -> None:
    with pytest.raises(CompareError, match="no question in common"):
        compare(run(case("a")), run(case("b")))


def test_lines_stand_in_columns() -> None:
    before, after = run(case("a"), case("b", ms=30), recall={"a": 1.0}), run(case("a"), case("b"), recall={"a": 0.5})
    _, heads, *rows = [line for line in lines_of(compare(before, after)) if "  " in line or "questions in" in line]
    assert {len(row) for row in rows} == {len(heads)}
    assert "20.0" in rows[1]


@pytest.mark.parametrize(
    "content",
    [None, [], {}, {"measures": {}}, {"measures": [], "cases": []}, {"measures": {"a": 1}, "cases": []},
     {"measures": {}, "cases": [1]}, {"measures": {}, "cases": [{"id": "a"}]}],
)  # fmt: skip
def test_only_a_run_is_a_run(content: object) -> None:
    assert not is_run(content)
    assert is_run(run(case("a")))
