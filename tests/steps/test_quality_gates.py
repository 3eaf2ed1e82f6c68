"""What stops a candidate: floors, and drops that chance does not explain."""

from __future__ import annotations

import pytest

from evals.evaluation.candidate import GatesError, QualityGates, judge_gates, parse_gates


def values(*numbers: float) -> dict[str, float]:
    return {f"q{place}": number for place, number in enumerate(numbers)}


def test_gates_are_read_from_toml() -> None:
    gates = parse_gates('significance = 0.1\n[floors]\nmap = 0.5\n[drops]\n"recall@10" = 0.02\n')
    assert gates == QualityGates({"map": 0.5}, {"recall@10": 0.02}, 0.1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("floors = 3", "'floors' must be a table"),
        ("[floors]\ncitation_precison = 0.9", "did you mean 'citation_precision'"),
        ("[drops]\nmap = 2", "drops.map must be a number from 0 to 1"),
        ("[floors]\nmap = true", "floors.map must be a number"),
        ("[flors]\nmap = 0.5", "unknown key 'flors'"),
        ("[floors", "not valid TOML"),
    ],
)
def test_what_is_not_a_gate_is_told(text: str, told: str) -> None:
    with pytest.raises(GatesError, match=told):
        parse_gates(text)


def test_a_floor_names_the_questions_that_pull_it_down_the_worst_first() -> None:
    [verdict] = judge_gates(QualityGates({"map": 0.9}), {"map": values(1.0, 0.5, 0.2)}, None)
    assert (verdict.gate, verdict.passed, verdict.questions) == ("floor of map", False, ("q2", "q1"))
    assert "0.567 over 3 questions, at least 0.9 is asked for" in verdict.detail


def test_a_measure_without_a_value_stops_nothing() -> None:
    gates = QualityGates({"map": 1.0}, {"map": 0.0})
    assert judge_gates(gates, {}, {"map": values(1.0)}) == []


def test_a_drop_that_chance_explains_passes_and_one_that_it_does_not_stops() -> None:
    gates = QualityGates(drops={"answerability": 0.02})
    before = {"answerability": values(*[1.0] * 20)}
    slight = {"answerability": values(0.0, 0.0, *[1.0] * 18)}
    [verdict] = judge_gates(gates, slight, before)
    assert verdict.passed
    grave = {"answerability": values(*[0.0] * 8, *[1.0] * 12)}
    [verdict] = judge_gates(gates, grave, before)
    assert (verdict.passed, verdict.questions) == (False, tuple(f"q{number}" for number in range(8)))


def test_a_significant_drop_within_the_allowance_passes() -> None:
    gates = QualityGates(drops={"map": 0.1})
    [verdict] = judge_gates(gates, {"map": values(*[0.95] * 30)}, {"map": values(*[1.0] * 30)})
    assert verdict.passed


def test_drops_are_over_the_questions_that_both_generations_were_asked() -> None:
    gates = QualityGates(drops={"map": 0.0})
    assert judge_gates(gates, {"map": {"new": 0.0}}, {"map": {"old": 1.0}}) == []
    [verdict] = judge_gates(gates, {"map": {"new": 0.0, "both": 1.0}}, {"map": {"old": 1.0, "both": 1.0}})
    assert verdict.passed
