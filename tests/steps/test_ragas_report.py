"""The report of RAGAS' scores: the worst question first with what was judged, what is missing, what it was before."""

from __future__ import annotations

from typing import Any

from evals.evaluation.ragas_scores import RagasScores
from evals.reports.ragas import means, ragas_report
from evals.reports.report import markdown

FOUND = RagasScores(
    {"faithfulness": {"a": 1.0, "b": 0.25}, "context_recall": {"a": 0.5}}, {"context_recall": "1 of 2 questions: late"}
)
BEFORE = RagasScores({"faithfulness": {"a": 0.5}})
SAMPLES: dict[str, dict[str, Any]] = {
    name: {
        "user_input": f"Question {name}?",
        "response": f"Answer {name}.",
        "reference": f"Reference {name}.",
        "retrieved_contexts": ["One passage.", "Another."],
    }
    for name in ("a", "b")
}


def test_the_worst_question_comes_first_with_what_was_judged() -> None:
    report = ragas_report("demo", "g1", FOUND, SAMPLES)
    assert [(case.title, case.status, case.tone) for case in report.cases] == [
        ("b: Question b?", "mean 0.250", "bad"),
        ("a: Question a?", "mean 0.750", "neutral"),
    ]
    parts = dict(report.cases[1].parts)
    assert (parts["answer"], parts["scores"]) == ("Answer a.", "faithfulness 1.000\ncontext recall 0.500")
    assert report.cases[0].evidence == [("passage [1]", "One passage."), ("passage [2]", "Another.")]
    assert "| Question b? | 0.250 |  |" in markdown(report)


def test_a_metric_without_all_scores_is_named_above_the_questions() -> None:
    text = markdown(ragas_report("demo", "g1", FOUND, SAMPLES))
    assert "| context recall | 1 of 2 questions: late |" in text
    assert text.index("Metrics that lack scores") < text.index("Questions, the worst first")


def test_what_another_generation_got_stands_beside() -> None:
    text = markdown(ragas_report("demo", "g2", FOUND, SAMPLES, BEFORE))
    assert "| faithfulness | 0.625 | was 0.500, " in text
    assert means(FOUND, None) == means(FOUND, BEFORE) == {"faithfulness": [0.625], "context recall": [0.5]}
    assert means(BEFORE, FOUND) == {"faithfulness": [0.5, 0.625]}


def test_that_there_are_no_scores_is_told() -> None:
    text = markdown(ragas_report("demo", "g1", RagasScores(problem="RAGAS failed: no memory"), SAMPLES))
    assert text == "No scores of generation g1: RAGAS failed: no memory"
