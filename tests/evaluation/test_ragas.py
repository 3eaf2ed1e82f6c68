"""RAGAS beside an evaluation: the real package where it is installed, and what happens where it is not or fails."""

from __future__ import annotations

import importlib.util
import subprocess
from typing import Any

import pytest
from support import ragas_in_process

from evals.evaluation.gold import GoldLocation
from evals.evaluation.ragas_scores import ABSENT, ragas_samples, ragas_scores
from rag_serving.config.loading import parse_config

LOGS = "Logs are kept for 14 days, then they are deleted."
CASE: dict[str, Any] = {
    "id": "logs",
    "question": "How long are logs kept?",
    "answerable": True,
    "expected": "",
    "quotes": ["kept for 14 days"],
    "pages": ["1"],
    "status": "answered",
    "answer": "Logs are kept for 14 days. [1][2]",
    "passages": [{"text": LOGS}, {"text": "Descale the coffee machine."}],
}
PAGES = {"1": [GoldLocation("Logs", LOGS), GoldLocation("Other", "Something else.")]}
CONFIG = parse_config({})
needs_ragas = pytest.mark.skipif(importlib.util.find_spec("ragas") is None, reason="needs the extra `ragas`")
pytestmark = pytest.mark.xdist_group("ragas")  # as test_ragas_model


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child does its work in this process."""
    monkeypatch.setattr(subprocess, "run", ragas_in_process.run)


def test_samples_are_of_answered_questions_with_the_sections_that_hold_the_quotes() -> None:
    silent = {**CASE, "id": "silent", "status": "not_found"}
    unanswerable = {**CASE, "id": "none", "answerable": False}
    assert ragas_samples([CASE, silent, unanswerable], PAGES) == {
        "logs": {
            "user_input": "How long are logs kept?",
            "response": "Logs are kept for 14 days.",
            "retrieved_contexts": [LOGS, "Descale the coffee machine."],
            "reference": "kept for 14 days",
            "reference_contexts": [LOGS],
        }
    }


def test_without_the_extra_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert ragas_scores(ragas_samples([CASE], PAGES), CONFIG).problem == ABSENT


@needs_ragas
@pytest.mark.usefixtures("in_process")
def test_metrics_without_a_model_are_those_of_the_package_and_one_that_lacks_its_section_is_named() -> None:
    lost = {**CASE, "id": "lost", "pages": ["2"]}
    found = ragas_scores(ragas_samples([CASE, lost], PAGES), CONFIG)
    assert found.problem is None
    assert found.scores["non_llm_context_recall"] == {"logs": 1.0}
    assert found.scores["non_llm_context_precision_with_reference"] == {"logs": pytest.approx(1.0)}
    assert found.scores["non_llm_string_similarity"].keys() == {"logs", "lost"}
    assert found.scores.keys() == {*found.faults, "non_llm_string_similarity"}
    assert set(found.faults) == {"non_llm_context_precision_with_reference", "non_llm_context_recall"}
    assert all(fault.startswith("1 of 2 questions: ") for fault in found.faults.values())
    assert all("reference_contexts" in fault for fault in found.faults.values())


@needs_ragas
@pytest.mark.usefixtures("in_process")
def test_a_model_that_is_not_there_leaves_the_metrics_that_need_none() -> None:
    model = {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "timeout_s": 1}
    found = ragas_scores(ragas_samples([CASE], PAGES), parse_config({"generation": model}))
    assert found.problem is None
    assert found.scores["non_llm_context_recall"] == {"logs": 1.0}
    assert "faithfulness" in found.faults


@needs_ragas
def test_a_child_that_is_late_or_fails_is_a_line() -> None:
    samples = ragas_samples([CASE], PAGES)
    assert ragas_scores(samples, CONFIG, timeout_s=0.01).problem == "RAGAS was not done after 0.01 s"
    broken = {"logs": {**samples["logs"], "retrieved_contexts": 3}}
    assert str(ragas_scores(broken, CONFIG).problem).startswith("RAGAS failed: ")
