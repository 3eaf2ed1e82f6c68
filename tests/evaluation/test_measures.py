"""One value per question, and their means with intervals."""

from __future__ import annotations

import pytest

from evals.evaluation.evaluate import Judged, judge
from evals.evaluation.gold import GoldQuestion
from evals.evaluation.measures import f1, of_answers, of_rankings, summary
from evals.reports.evaluation import key_first
from rag_serving.records.answers import Answer, Citation


def citation(page: str) -> Citation:
    url = f"https://wiki.example/{page}#Top"
    return Citation(1, f"{page}:3:0", "T", ("T",), url, url, "kept for 7 days", "ENG", 3, "exact", 0, 15)


def judged(name: str, answerable: bool, *pages: str, quote: str = "kept for 7 days") -> Judged:
    gold = GoldQuestion(name, "?", answerable, frozenset({"1"}) if answerable else frozenset(), (quote,))
    answer = Answer("answered", "Logs are kept for 7 days. [1]", tuple(map(citation, pages)))
    return judge(gold, answer if pages else Answer("not_found", "Not found in docs."), {"1": frozenset({"Top"})})


ALL = [
    judged("right", True, "1"),
    judged("half", True, "1", "2"),
    judged("silent", True),
    judged("guessed", False, "2"),
    judged("declined", False),
]


def test_every_measure_has_the_values_of_the_questions_that_it_is_about() -> None:
    assert of_answers(ALL) == {
        "told_and_right": {"right": 1.0, "half": 1.0, "silent": 0.0},
        "told_and_wrong": {"right": 0.0, "half": 0.0, "silent": 0.0, "guessed": 1.0, "declined": 0.0},
        "closest_and_useful": {"right": 0.0, "half": 0.0, "silent": 0.0},
        "declined_though_there": {"right": 0.0, "half": 0.0, "silent": 1.0},
        "citation_precision": {"right": 1.0, "half": 0.5},
        "citation_recall": {"right": 1.0, "half": 1.0, "silent": 0.0},
        "sentence_precision": {"right": 1.0, "half": 1.0},
        "answerability": {"right": 1.0, "half": 1.0, "silent": 0.0, "guessed": 0.0, "declined": 1.0},
        "not_found_recall": {"guessed": 0.0, "declined": 1.0},
        "not_found_precision": {"silent": 0.0, "declined": 1.0},
        "anchor_validity": {"right": 1.0, "half": 0.5, "guessed": 0.0},
    }


def test_measures_without_a_question_are_left_out() -> None:
    assert set(of_answers([judged("right", True, "1")])) == {
        "told_and_right",
        "told_and_wrong",
        "closest_and_useful",
        "declined_though_there",
        "citation_precision",
        "citation_recall",
        "sentence_precision",
        "answerability",
        "anchor_validity",
    }
    assert of_answers([]) == {}


def test_rankings_are_measured_where_the_right_page_is_known() -> None:
    pages = {"a": frozenset({"1"}), "b": frozenset({"1", "2"}), "c": frozenset[str]()}
    found = of_rankings({"a": ["9", "1"], "b": ["1"], "c": ["1"]}, pages)
    assert found["recall@10"] == {"a": 1.0, "b": 0.5}
    assert found["mrr@10"] == {"a": 0.5, "b": 1.0}
    assert found["map"] == {"a": 0.5, "b": 0.5}


def test_a_summary_has_means_intervals_and_f1() -> None:
    told = summary(of_answers(ALL))
    assert told["answerability"]["mean"] == 0.6
    assert 0 <= told["answerability"]["low"] <= 0.6 <= told["answerability"]["high"] <= 1
    assert told["answerability"]["questions"] == 5
    assert told["not_found_f1"]["mean"] == 0.5


@pytest.mark.parametrize(("precision", "recall", "expected"), [(1.0, 1.0, 1.0), (0.5, 1.0, 2 / 3), (0.0, 0.0, 0.0)])
def test_f1_is_the_harmonic_mean(precision: float, recall: float, expected: float) -> None:
    assert f1(precision, recall) == pytest.approx(expected)


def test_the_headline_shows_what_becomes_of_questions() -> None:
    first = ["told_and_right", "told_and_wrong", "closest_and_useful", "declined_though_there"]
    known = key_first(["map", "not_found_precision", *reversed(first), "recall@10"])
    assert known == [*first, "not_found_precision", "recall@10", "map"]
