"""By which lead a page is told, instead of asked back for, is learnt from questions that only name something."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evals.evaluation.calibrate import ASKED_BACK, ASKED_IN_VAIN, Clearness, Named, calibrate, clearness
from evals.evaluation.evaluate import GoldEvaluation, Judged
from evals.evaluation.gold import GoldQuestion, GoldSet
from rag_serving.records.answers import Answer
from rag_serving.records.decisions import Action, Contender, Decision


def judged(name: str, lead: float, action: Action, pages: list[str]) -> Judged:
    """A question about page 1, decided between some pages."""
    contenders = tuple(Contender(page, "", page, "", page, 1.0) for page in pages)
    answer = Answer("clarify" if action != "answer" else "not_found", "", decision=Decision(action, contenders, lead))
    return Judged(asked(name), answer, 0)


def asked(name: str) -> GoldQuestion:
    return GoldQuestion(name, "logs", True, frozenset({"1"}), part=name)


def test_what_is_asked_back_costs_less_than_another_page() -> None:
    right, wrong = Named(0.5, True, True, True), Named(0.5, True, False, False)
    assert [right.cost(level) for level in (0.4, 0.6)] == [0.0, ASKED_BACK]
    assert [wrong.cost(level) for level in (0.4, 0.6)] == [1.0, ASKED_IN_VAIN]


def test_the_lead_that_costs_least_is_learnt() -> None:
    unclear = [Named(0.2, True, False, True)] * 5
    clear = [Named(0.8, False, True, True)] * 5
    assert Clearness(10, (*unclear, *clear)).min_clear == pytest.approx(0.5)
    assert Clearness(10, tuple(clear[:3])).min_clear is None


def test_questions_that_name_nothing_teach_nothing() -> None:
    plain = Judged(asked("q1"), Answer("not_found", ""), 0)
    nowhere = judged("q2", 0.0, "no_match", [])
    assert clearness([plain, nowhere]).payload() == {
        "named": 0,
        "asked_back": 0,
        "share_asked_back": 0.0,
        "offers_the_right_page": None,
    }


def test_half_of_the_questions_teach_and_the_rest_is_told_of() -> None:
    cases = [judged(f"a{number:02}", 0.1, "ambiguous", ["2", "1"]) for number in range(20)]
    cases += [judged(f"b{number:02}", 0.9, "answer", ["1", "2"]) for number in range(20)]
    cases = [replace(case, gold=replace(case.gold, part=f"part {place % 4}")) for place, case in enumerate(cases)]
    found = calibrate(GoldSet(tuple(case.gold for case in cases)), GoldEvaluation(tuple(cases)))
    assert found.gates["min_clear"] == pytest.approx(0.5)
    assert found.payload()["clarity"] == {
        "named": 20,
        "asked_back": 10,
        "share_asked_back": 0.5,
        "offers_the_right_page": 1.0,
    }
