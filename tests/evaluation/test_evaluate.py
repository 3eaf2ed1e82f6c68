"""Answers are judged against a gold set, with the real pipeline over the small wiki."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from support.gold_questions import LOGS, SALARY, WON
from support.wiki import configuration, embedder
from typer.testing import CliRunner

from evals.evaluation.compare import saved_runs
from evals.evaluation.evaluate import EvaluationError, GoldEvaluation, Judged, evaluate, judge
from evals.evaluation.gold import GoldQuestion, GoldSet
from evals.evaluation.measures import of_answers
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.cli.main import app
from rag_serving.indexes.current import UnpublishedError
from rag_serving.models.lazy_embedder import GuardedEmbedder
from rag_serving.models.protocols import Embedder, ModelError
from rag_serving.records.answers import Answer, Citation
from rag_serving.records.decisions import Refusal

ANCHORS = {"1": frozenset({"Top"})}


def citation(page: str = "1", url: str = "https://wiki.example/1#Top", quote: str = "kept for 7 days") -> Citation:
    return Citation(1, f"{page}:3:0", "T", ("T",), url, url, quote, "ENG", 3, "exact", 0, 15)


def answered(text: str = "Logs are kept for 7 days. [1]", *citations: Citation) -> Answer:
    return Answer("answered", text, citations or (citation(),), timings_ms={"total": 10.0})


def closest(*citations: Citation) -> Answer:
    """The same, shown without confidence."""
    return replace(answered("Closest.", *citations), refusal=Refusal("confidence", "doubtful", 0.1, 0.3))


def gold(answerable: bool = True, quote: str = "for 7 days", page: str = "1") -> GoldQuestion:
    return GoldQuestion("q", "How long?", answerable, frozenset({page}), (quote,))


def judged(question: GoldQuestion, answer: Answer) -> Judged:
    return judge(question, answer, ANCHORS)


NOT_FOUND = Answer("not_found", "Not found in docs.")


@pytest.mark.parametrize(
    ("question", "answer", "fault"),
    [
        (gold(), answered(), None),
        (gold(quote="Kept\n for “7”  days"), answered('Logs are kept for "7" days. [1]'), None),
        (gold(), NOT_FOUND, "not answered: not_found"),
        (gold(page="2"), answered(), "no citation of the right page"),
        (gold(), answered("Kept for 7 days. [1]", citation(), citation("2")), "a citation of another page"),
        (gold(quote="for 9 days"), answered(), "the sentence is another one"),
        (gold(answerable=False), answered(), "answered although there is no answer"),
        (gold(answerable=False), NOT_FOUND, None),
        (gold(), closest(), "not answered: shown as the closest"),
        (gold(answerable=False), closest(), None),
    ],
)
def test_an_answer_is_judged(question: GoldQuestion, answer: Answer, fault: str | None) -> None:
    assert judged(question, answer).fault == fault


def test_what_is_shown_as_the_closest_is_counted_apart() -> None:
    told, right, wrong, vain = answered(), closest(), closest(citation("2")), closest()
    golds = [replace(gold(), id=f"q{number}") for number in range(4)]
    golds[-1] = replace(golds[-1], answerable=False, pages=frozenset())
    measured = GoldEvaluation(tuple(map(judged, golds, (told, right, wrong, vain))))
    assert measured.closest == {"shown": 3, "answerable": 2, "citation_precision": 0.5}
    assert measured.payload()["closest"] == measured.closest
    assert (measured.payload()["answered"], measured.citation_precision) == (1, 1.0)
    assert measured.answerability["accuracy"] == 0.5
    values = of_answers(measured.judged)
    assert values["closest_citation_precision"] == {"q1": 1.0, "q2": 0.0}
    assert values["citation_precision"] == {"q0": 1.0}
    assert measured.anchor_validity == 0.75  # of all that are shown: page 2 is not published


def test_an_anchor_that_the_page_does_not_have_is_counted() -> None:
    wrong = answered(
        "x", citation(), citation(url="https://wiki.example/1#Gone"), citation(url="https://wiki.example/1")
    )
    assert GoldEvaluation((judged(gold(), wrong),)).anchor_validity == pytest.approx(1 / 3, abs=1e-6)


def test_figures_are_of_all_answers() -> None:
    measured = GoldEvaluation(
        (
            judged(gold(), answered()),
            judged(gold(page="2"), answered()),
            judged(gold(), NOT_FOUND),
            judged(gold(answerable=False), NOT_FOUND),
        )
    )
    assert measured.citation_precision == 0.5
    assert measured.sentence_precision == 0.5
    assert measured.answerability == {"accuracy": 0.75, "precision": 0.5, "recall": 1.0}
    assert measured.latency_ms == {"total": {"p50": 10.0, "p95": 10.0}}


def test_figures_of_nothing_are_unknown() -> None:
    measured = GoldEvaluation(())
    assert measured.citation_precision is None
    assert measured.answerability["accuracy"] is None


def test_every_question_is_asked_as_its_asker(pipeline: Pipeline) -> None:
    measured = evaluate(pipeline, GoldSet((LOGS, WON, SALARY)))
    assert [each.fault for each in measured.judged] == [None, None, None]
    assert measured.anchor_validity == 1.0
    payload = measured.payload()
    assert payload["questions"] == 3
    assert payload["failed"] == []
    assert {"embed", "dense", "lexical", "generate", "total"} <= set(payload["latency_ms"])


def test_a_product_that_is_down_is_not_measured(tmp_path: Path) -> None:
    empty = Pipeline.open(configuration(tmp_path), "acme", embedder())
    try:
        with pytest.raises(UnpublishedError):
            evaluate(empty, GoldSet((LOGS,)))
    finally:
        empty.close()


def test_a_degraded_answer_is_not_measured(wiki_home: Path) -> None:
    def down() -> Embedder:
        raise ModelError("the model server does not answer")

    degraded = Pipeline.open(configuration(wiki_home), "acme", GuardedEmbedder(down))
    try:
        with pytest.raises(EvaluationError, match=r"'logs' was not answered as built \(dense_unavailable"):
            evaluate(degraded, GoldSet((LOGS,)))
    finally:
        degraded.close()


# The command


@pytest.fixture
def config_file(copied_wiki: Path, tmp_path: Path) -> Path:
    path = tmp_path / "app.yaml"
    path.write_text(yaml.safe_dump({"home": str(copied_wiki), "tenants": {"acme": {}}}))
    return path


def gold_file(folder: Path, tenant: str = "acme") -> Path:
    entries = [
        {"id": "logs", "question": LOGS.question, "answerable": True, "page": "12", "quote": "for 168 hours"},
        {"id": "won", "question": WON.question, "answerable": False},
    ]
    path = folder / "gold.yaml"
    path.write_text(yaml.safe_dump({"tenant": tenant, "questions": entries}))
    return path


def test_the_command_prints_the_documented_json(config_file: Path, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["evaluate", str(gold_file(tmp_path)), "--config", str(config_file), "--json"])
    assert found.exit_code == 0, found.stderr
    payload = json.loads(found.stdout)
    assert {"questions", "citation_precision", "answerability", "anchor_validity", "latency_ms", "failed"} <= set(
        payload
    )
    assert payload["citation_precision"] == 1.0


def test_the_command_tells_people(config_file: Path, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["evaluate", str(gold_file(tmp_path)), "--config", str(config_file)])
    assert "2 questions, 1 answered" in found.stdout


def test_a_run_is_written_as_csv_and_compared_with_another(config_file: Path, tmp_path: Path) -> None:
    arguments = ["evaluate", str(gold_file(tmp_path)), "--config", str(config_file), "--json"]
    before, after, table = (tmp_path / name for name in ("before.json", "after.json", "answers.csv"))
    before.write_text(CliRunner().invoke(app, [*arguments, "--csv", str(table)]).stdout)
    strict = {"CITELOCK_GATES__MIN_CONFIDENCE": "1", "CITELOCK_FEATURES__FEATURE_RM3": "true"}
    after.write_text(CliRunner().invoke(app, arguments, env=strict).stdout)

    logs, won = csv.DictReader(io.StringIO(table.read_text()))
    assert (logs["id"], logs["status"], logs["fault"], logs["recall@10"]) == ("logs", "answered", "", "1.0")
    assert logs["cited"] == "https://wiki.example/pages/12#Log-retention"
    assert (won["status"], won["answerability"], won["citation_precision"]) == ("not_found", "1.0", "")
    assert float(won["total_ms"]) > 0
    assert "FEATURE_RM3" in json.loads(after.read_text())["features"]

    shown = CliRunner().invoke(app, ["evaluate", "--compare", str(before), str(after)])
    assert "2 questions in both runs" in shown.stdout
    assert "now wrong: logs: answered → not answered: shown as the closest: How many hours" in shown.stdout
    found = json.loads(CliRunner().invoke(app, ["evaluate", "--compare", str(before), str(after), "--json"]).stdout)
    (answerability,) = [each for each in found["differences"] if each["measure"] == "answerability"]
    assert (answerability["before"], answerability["after"], answerability["difference"]) == (1.0, 0.5, -0.5)


def test_a_run_is_kept_under_a_name(config_file: Path, tmp_path: Path, copied_wiki: Path) -> None:
    arguments = ["evaluate", str(gold_file(tmp_path)), "--config", str(config_file), "--save"]
    assert CliRunner().invoke(app, [*arguments, "with-rm3"]).exit_code == 0
    (saved,) = saved_runs(Store(copied_wiki), "acme").items()
    assert (saved[0], saved[1]["questions"]) == ("with-rm3", 2)
    for name in ("../with-rm3", "a b", "", ".x", "x" * 62):
        refused = CliRunner().invoke(app, [*arguments, name])
        assert (refused.exit_code, "cannot be a name" in refused.stderr) == (2, True), name
    (Store(copied_wiki).tenant("acme") / "evaluations" / "broken.json").write_text("{")
    assert list(saved_runs(Store(copied_wiki), "acme")) == ["with-rm3"]


def test_a_file_without_a_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"questions": 3}')
    (tmp_path / "broken.json").write_text("{")
    for name, why in (("old.json", "no measures by question"), ("broken.json", "not JSON"), ("none.json", "No such")):
        found = CliRunner().invoke(app, ["evaluate", "--compare", str(tmp_path / name), str(tmp_path / "old.json")])
        assert (found.exit_code, found.stdout) == (1, "")
        assert name in found.stderr
        assert why in found.stderr
    found = CliRunner().invoke(app, ["evaluate", "--ablate", "--csv", str(tmp_path / "x.csv")])
    assert (found.exit_code, "--csv and --save go with" in found.stderr) == (2, True)


def test_every_nth_question_is_asked(config_file: Path, tmp_path: Path) -> None:
    arguments = ["evaluate", str(gold_file(tmp_path)), "--config", str(config_file), "--every", "2"]
    assert "1 questions, 1 answered" in CliRunner().invoke(app, arguments).stdout


def test_a_gold_set_of_another_tenant_is_refused(config_file: Path, tmp_path: Path) -> None:
    arguments = ["evaluate", str(gold_file(tmp_path, "other")), "--config", str(config_file)]
    found = CliRunner().invoke(app, [*arguments, "--tenant", "acme"])
    assert found.exit_code == 2
    assert "is of tenant 'other', not of 'acme'" in found.stderr


def test_evaluating_needs_no_dagster() -> None:
    modules = "evals.evaluation.evaluate, evals.evaluation.cli"
    code = f"import sys, {modules}; assert 'dagster' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
