"""Thresholds are chosen on half of the answers and measured on the other; the file that holds them stays readable."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from evals.evaluation.calibrate import (
    COSTS,
    Calibration,
    Fit,
    boundary,
    calibrate,
    closed_at,
    curve,
    halves,
    open_gates,
    write_calibration,
    write_gates,
)
from evals.evaluation.evaluate import GoldEvaluation, Judged, judge
from evals.evaluation.gold import GoldQuestion, GoldSet
from rag_serving.answering.answerer import open_tables
from rag_serving.answering.selection.signs import Tables, learnt
from rag_serving.cli.main import app
from rag_serving.config.loading import ConfigError, load_config, parse_config
from rag_serving.config.models import Embedding
from rag_serving.records.answers import Answer, Citation


def asked(name: str, answerable: bool, text: str = "How long are logs kept?") -> GoldQuestion:
    return GoldQuestion(name, text, answerable, frozenset({"1"}), ("for 7 days",), part=name)


def given(question: GoldQuestion, confidence: float, page: str = "1") -> Judged:
    url = f"https://wiki.example/{page}#Top"
    cited = Citation(1, f"{page}:3:0", "T", ("T",), url, url, "kept for 7 days", "ENG", 3, "exact", 0, 15)
    gates = {"confidence": confidence, "similarity": 0.5, "coverage": 0.4}
    return judge(question, Answer("answered", "Kept for 7 days. [1]", (cited,), gates=gates), {"1": frozenset({"Top"})})


def answers(count: int = 40, text: str = "How long are logs kept?") -> list[Judged]:
    """Answers that are right from a confidence of 0.5 upwards."""
    return [
        given(asked(f"q{number:02}", number >= count // 2, text), number / count, "1" if number >= count // 2 else "2")
        for number in range(count)
    ]


def test_no_part_is_in_both_halves() -> None:
    questions = [GoldQuestion(f"q{n}", "x", True, part=f"article {n % 5}") for n in range(20)]
    first, second = halves(GoldSet(tuple(questions)))
    assert len(first.questions) + len(second.questions) == 20
    assert not {q.part for q in first.questions} & {q.part for q in second.questions}


def test_the_threshold_that_parts_right_from_wrong_is_found() -> None:
    best = min(curve(answers()), key=lambda point: point.cost)
    assert best.min_confidence == pytest.approx(0.5, abs=0.03)
    assert boundary(answers(), "told", "closest") == round(best.min_confidence, 4)
    assert (best.answerability, best.citation_precision, best.not_found_recall) == (1.0, 1.0, 1.0)
    assert best.cost == pytest.approx(COSTS.shown_in_vain / 2)


def test_an_answer_is_told_where_more_are_right_than_wrong_by_what_errors_cost() -> None:
    judged = [given(asked(f"q{n:02}", True), n / 10, "1" if n > 7 else "2") for n in range(10)]
    assert boundary(judged, "told", "closest") >= 0.7
    break_even = 1 / (1 + COSTS.held_back / (COSTS.wrongly_told - COSTS.shown_in_vain))
    for right, is_told in ((int(100 * break_even) + 2, True), (int(100 * break_even) - 2, False)):
        alike = [given(asked(f"m{n:02}", True), 0.5, "1" if n < right else "2") for n in range(100)]
        assert (boundary(alike, "told", "closest") <= 0.5) == is_told


def test_what_is_seldom_right_is_shown_as_the_closest_and_what_never_is_not() -> None:
    """One in five answers from a confidence of 0.2 on is right, none below."""
    judged = [given(asked(f"q{n:02}", True), n / 100, "1" if n >= 20 and n % 5 == 0 else "2") for n in range(100)]
    closest, told = boundary(judged, "closest", "none"), boundary(judged, "told", "closest")
    assert closest == pytest.approx(0.2, abs=0.01)
    assert told == 1.0
    at = [closed_at(case, told, closest).answer.outcome for case in judged]
    assert (at[10], at[60]) == ("none", "closest")


def test_every_error_costs_what_is_stated() -> None:
    right, wrong = given(asked("r", True), 0.5), given(asked("w", False), 0.5)
    costs = {
        (closed_at(case, told, closest).answer.outcome, case is right): COSTS.of(
            closed_at(case, told, closest).answer.outcome, case is right
        )
        for case in (right, wrong)
        for told, closest in ((0.5, 0.0), (0.6, 0.5), (0.7, 0.6))
    }
    assert costs == {
        ("told", True): 0.0,
        ("closest", True): COSTS.held_back,
        ("none", True): COSTS.not_shown,
        ("told", False): COSTS.wrongly_told,
        ("closest", False): COSTS.shown_in_vain,
        ("none", False): 0.0,
    }


def test_an_answer_below_the_threshold_is_not_given() -> None:
    answer = given(asked("q", True), 0.4)
    assert closed_at(answer, 0.4).answered
    closest = closed_at(answer, 0.41, 0.4)
    assert (closest.answered, closest.answer.outcome, closest.cited_right, closest.anchored) == (False, "closest", 0, 1)
    assert closest.right_of(closest.closest) == 1
    closed = closed_at(answer, 0.42, 0.41)
    assert (closed.answer.status, closed.answer.citations, closed.anchored) == ("not_found", (), 0)


def test_the_curve_runs_from_all_answered_to_few() -> None:
    points = curve(answers())
    assert points[0].answered == 1.0
    assert [point.answered for point in points] == sorted((point.answered for point in points), reverse=True)


def test_what_is_measured_was_not_learnt_from() -> None:
    judged = answers()
    found = calibrate(GoldSet(tuple(each.gold for each in judged)), GoldEvaluation(tuple(judged)))
    assert found.gates["min_confidence"] == pytest.approx(0.5, abs=0.06)
    assert (found.gates["min_similarity"], found.gates["min_coverage"]) == (0.5, 0.4)
    assert "min_confidence_statement" not in found.gates
    assert len(found.measured.judged) == 20
    assert 0 <= found.cost < 0.1
    assert found.payload()["measured"]["answerability"]["accuracy"] >= 0.9


def test_confidence_is_learnt_from_one_half_and_told_on_the_other() -> None:
    """Answers that the package trusts alike, of which those with the time that was asked for are right."""
    judged = []
    for number in range(400):
        is_right = number // 8 % 2 == 0
        evidence = {"misses_kind": float(not is_right), "covered": number % 7 / 7, "score": 4.0}
        answer = given(
            replace(asked(f"q{number:03}", is_right), part=f"part {number % 8}"), 0.3, "1" if is_right else "2"
        )
        judged.append(replace(answer, answer=replace(answer.answer, features=evidence)))
    found = calibrate(GoldSet(tuple(each.gold for each in judged)), GoldEvaluation(tuple(judged)))
    assert found.confidence.strength is not None
    assert len(found.confidence.unseen) == 200
    assert found.measured.answerability["accuracy"] == 1.0
    assert found.payload()["confidence"]["learnt_from"] == 200


def test_claims_have_a_threshold_of_their_own() -> None:
    judged = answers(text="Logs are kept for a week.")
    found = calibrate(GoldSet(tuple(each.gold for each in judged)), GoldEvaluation(tuple(judged)))
    assert found.gates.keys() == {"min_similarity", "min_coverage", "min_confidence_statement", "min_closest"}
    assert found.gates["min_closest"] <= found.gates["min_confidence_statement"]


def test_open_gates_let_everything_pass() -> None:
    gates = open_gates(parse_config({"gates": {"min_confidence": 0.9}})).gates
    assert (gates.min_confidence, gates.min_confidence_statement, gates.min_coverage) == (0.0, 0.0, 0.0)
    assert gates.min_closest == 0.0


# The file


@pytest.mark.parametrize(
    "before",
    [
        "# ours\ntenants: {acme: {}}  # one\n",
        "gates: {confidence_weights: mine.json, min_confidence: 0.9}\n# ours\ntenants: {acme: {}}  # one\n",
        "# ours\ntenants: {acme: {}}  # one\ngates:\n  min_confidence: 0.9  # so\n\n  confidence_weights: mine.json\n",
        "# ours\ntenants: {acme: {}}  # one",
    ],
)
def test_gates_are_written_and_the_rest_stays(tmp_path: Path, before: str) -> None:
    path = tmp_path / "app.yaml"
    path.write_text(before)
    write_gates(path, {"min_confidence": 0.42})
    config = load_config(path)
    assert config.gates.min_confidence == 0.42
    assert str(config.gates.confidence_weights) == ("mine.json" if "mine.json" in before else "None")
    assert "# ours\ntenants: {acme: {}}  # one\n" in path.read_text()
    assert path.read_text().count("gates:") == 1


def test_a_file_that_is_no_configuration_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "app.yaml"
    path.write_text("tenant: acme\n")
    with pytest.raises(ConfigError):
        write_gates(path, {"min_confidence": 0.42})
    assert path.read_text() == "tenant: acme\n"


def test_weights_that_were_learnt_lie_beside_the_configuration_that_names_them(tmp_path: Path) -> None:
    path = tmp_path / "app.yaml"
    path.write_text("tenants: {acme: {}}\n")
    tables = Tables(replace(learnt().with_vectors, bias=-2.0), replace(learnt().words_alone, bias=-1.0))
    found = Calibration({"min_confidence": 0.42, "min_closest": 0.2}, Fit(tables, 100.0, ()), (), GoldEvaluation(()))
    write_calibration(path, found, Embedding())
    config = load_config(path)
    assert (config.gates.min_confidence, config.gates.min_closest, config.gates.min_clear) == (0.42, 0.2, 0.6)
    assert open_tables(config) == tables
    write_calibration(path, replace(found, confidence=Fit(learnt(), None, ())), Embedding())
    assert open_tables(load_config(path)) == learnt()
    assert load_config(path).gates.min_closest == 0.2


def test_a_learned_threshold_is_no_key() -> None:
    with pytest.raises(ConfigError, match=r"gates.min_closest' is now in the file of gates.confidence_weights"):
        parse_config({"gates": {"min_closest": 0.2}})


# The command


def squad(folder: Path) -> Path:
    """Four articles of one paragraph, in the layout of SQuAD 2.0."""
    texts = {
        "Logs": ("Each broker keeps logs for 168 hours by default.", "How many hours does a broker keep logs?", "168"),
        "Coffee": ("The coffee machine is descaled every Friday.", "When is the coffee machine descaled?", "Friday"),
        "Leave": ("Everybody has 28 days of leave a year.", "How many days of leave does everybody have?", "28"),
        "Locks": ("Ann Berg holds the key of the safe.", "Who holds the key of the safe?", "Ann Berg"),
    }
    data = []
    for title, (text, question, answer) in texts.items():
        right = {"id": f"{title}-1", "question": question, "is_impossible": False}
        right["answers"] = [{"text": answer, "answer_start": text.index(answer)}]
        wrong = {"id": f"{title}-2", "question": "Who won the match in Lisbon?", "is_impossible": True, "answers": []}
        data.append({"title": title, "paragraphs": [{"context": text, "qas": [right, wrong]}]})
    path = folder / "squad.json"
    path.write_text(json.dumps({"version": "v2.0", "data": data}))
    return path


def test_a_collection_is_calibrated_on_and_the_gates_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CITELOCK_CONFIG", str(tmp_path / "app.yaml"))
    (tmp_path / "app.yaml").write_text("tenants: {acme: {}}\n")
    arguments = ["evaluate", str(squad(tmp_path)), "--calibrate", "--write", str(tmp_path / "app.yaml")]
    found = CliRunner().invoke(app, [*arguments, "--index", str(tmp_path / "index"), "--json"])
    assert found.exit_code == 0, found.stderr
    payload = json.loads(found.stdout)
    assert payload["measured"]["citation_precision"] == 1.0
    told = yaml.safe_load((tmp_path / "app.yaml").read_text())["gates"]
    learned = json.loads(Path(told.pop("confidence_weights")).read_text())
    assert told | learned["gates"] == payload["gates"]
    assert "with_vectors" not in learned
    assert payload["confidence"]["prior_strength"] is None


def test_a_collection_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    found = CliRunner().invoke(app, ["evaluate", str(path)])
    assert found.exit_code == 1
    assert "neither a SQuAD 2.0 file nor a SciFact folder" in found.stderr


def test_writing_needs_calibrating(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["evaluate", "--write", str(tmp_path / "app.yaml")])
    assert found.exit_code == 2
    assert "--write needs --calibrate" in found.stderr
