"""RAGAS' metrics that a model judges: the real package asks a stand-in server that answers, and one that does not.

The child is a process where the process matters: in `..._are_what_they_are_by_hand`, and where it is killed or late.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ragas_in_process
from support.stand_in_chat import MODEL, StandInChat, served
from support.stand_in_ragas import answers_ragas, question_about, says

from evals.evaluation.ragas_scores import RagasScores, ragas_scores
from rag_serving.config.loading import Config, parse_config
from rag_serving.models import open_embedder

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("ragas") is None, reason="needs the extra `ragas`"),
    pytest.mark.xdist_group("ragas"),  # which takes seconds to import: one process does it
]

JUDGED = {"faithfulness", "answer_relevancy", "llm_context_precision_with_reference", "context_recall"}
NO_MODEL = {"non_llm_context_precision_with_reference", "non_llm_context_recall", "non_llm_string_similarity"}
LOGS = "Logs are kept for 14 days, then they are deleted."
COFFEE = "Descale the coffee machine every month."
SAMPLES: dict[str, dict[str, Any]] = {
    "right": {
        "user_input": "How long are logs kept?",
        "response": "Logs are kept for 14 days.",
        "retrieved_contexts": [LOGS, COFFEE],
        "reference": "Logs are kept for 14 days.",
        "reference_contexts": [LOGS],
    },
    "poor": {
        "user_input": "How long are logs kept?",
        "response": "Logs are kept for 14 days. They are sent to Mars. I do not know more.",
        "retrieved_contexts": [COFFEE, LOGS],
        "reference": "Logs are kept for 14 days. Backups are kept for 3 years.",
        "reference_contexts": [LOGS],
    },
}


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child does its work in this process."""
    monkeypatch.setattr(subprocess, "run", ragas_in_process.run)


@pytest.fixture
def server() -> Iterator[StandInChat]:
    with served(StandInChat(answers_ragas)) as running:
        yield running


def configured(server: StandInChat, provider: str = "openai", timeout_s: float = 30.0) -> Config:
    base = f"{server.url}/v1" if provider == "openai" else server.url
    model = {"provider": provider, "model": MODEL, "base_url": base, "timeout_s": timeout_s}
    return parse_config({"generation": model})


def judged_in_vain(found: RagasScores) -> dict[str, str]:
    """The faults, where everything that needs no model is there all the same."""
    assert found.problem is None
    assert set(found.scores) == NO_MODEL
    assert all(len(values) == len(SAMPLES) for values in found.scores.values())
    assert set(found.faults) == JUDGED
    return dict(found.faults)


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_metrics_that_a_model_judges_are_what_they_are_by_hand(
    server: StandInChat, provider: str, request: pytest.FixtureRequest
) -> None:
    if provider == "ollama":
        request.getfixturevalue("in_process")
        server.one_choice = True
    found = ragas_scores(SAMPLES, configured(server, provider))
    assert (found.problem, found.faults) == (None, {})
    assert set(found.scores) == JUDGED | NO_MODEL
    # Statements that follow from the contexts, of all statements: one of one, one of three.
    assert found.scores["faithfulness"] == pytest.approx({"right": 1.0, "poor": 1 / 3}, abs=1e-6)
    # Average precision of the useful contexts: the first of two, the second of two.
    precision = found.scores["llm_context_precision_with_reference"]
    assert precision == pytest.approx({"right": 1.0, "poor": 0.5}, abs=1e-6)
    # Sentences of the reference that the contexts hold: one of one, one of two.
    assert found.scores["context_recall"] == pytest.approx({"right": 1.0, "poor": 0.5}, abs=1e-6)
    # How near the question is to those that the answer answers; nothing where the answer does not commit itself.
    embedder = open_embedder(parse_config({}).embedding)
    asked = embedder.embed_query(SAMPLES["right"]["user_input"])
    (guessed,) = embedder.embed_documents([question_about(SAMPLES["right"]["response"])])
    cosine = float(asked @ guessed / np.linalg.norm(asked) / np.linalg.norm(guessed))
    assert 0.3 < cosine < 1
    assert found.scores["answer_relevancy"] == pytest.approx({"right": cosine, "poor": 0.0}, abs=1e-5)
    assert {path for path, _, _ in server.requests} == {"/v1/chat/completions"}


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("garbage", ["Sure, happy to help!", '{"verdict": "perhaps", "statements": 3}'])
def test_a_model_that_writes_garbage_is_named_by_metric(server: StandInChat, garbage: str) -> None:
    server.script = says(garbage)
    faults = judged_in_vain(ragas_scores(SAMPLES, configured(server)))
    assert {fault.split(":")[1].strip() for fault in faults.values()} == {"RagasOutputParserException"}


@pytest.mark.usefixtures("in_process")
def test_a_model_that_is_slow_is_named_by_metric(server: StandInChat) -> None:
    def slowly(messages: list[dict[str, str]]) -> Iterable[str]:
        time.sleep(2)
        return answers_ragas(messages)

    server.script = slowly
    faults = judged_in_vain(ragas_scores(SAMPLES, configured(server, timeout_s=0.5)))
    assert {fault for fault in faults.values() if "TimeoutError: " not in fault} == set()


@pytest.mark.usefixtures("in_process")
def test_a_model_that_dies_midway_costs_the_metric_that_was_asked_last(server: StandInChat) -> None:
    def dying(messages: list[dict[str, str]]) -> Iterable[str]:
        if '"ContextRecallClassifications"' in messages[-1]["content"]:
            server.server_close()
            threading.Thread(target=server.shutdown).start()
            raise ConnectionAbortedError
        return answers_ragas(messages)

    server.script = dying
    found = ragas_scores(SAMPLES, configured(server))
    assert set(found.scores) == (JUDGED | NO_MODEL) - {"context_recall"}
    assert set(found.faults) == {"context_recall"}
    assert "onnection error" in found.faults["context_recall"]


@pytest.mark.usefixtures("in_process")
def test_a_metric_that_fails_again_and_again_is_left_alone(server: StandInChat) -> None:
    many = {f"{name}{number}": sample for number in range(10) for name, sample in SAMPLES.items()}
    server.refused = {"messages": "Unsupported parameter: messages"}
    found = ragas_scores(many, configured(server))
    assert set(found.faults) == JUDGED
    assert {fault for fault in found.faults.values() if "Unsupported parameter: messages" not in fault} == set()
    assert len(server.requests) < 4 * 2 * 10  # four metrics, each tried twice a question, given up after a few


def test_a_child_that_is_killed_leaves_what_it_had_told(server: StandInChat) -> None:
    def killing(messages: list[dict[str, str]]) -> Iterable[str]:
        mine = ["pgrep", "-P", str(os.getpid()), "-f", "ragas_child"]
        for child in subprocess.run(mine, capture_output=True, text=True).stdout.split():
            os.kill(int(child), signal.SIGKILL)
        return answers_ragas(messages)

    server.script = killing
    faults = judged_in_vain(ragas_scores(SAMPLES, configured(server)))
    assert all("failed: " in fault for fault in faults.values())


def test_a_child_that_is_late_leaves_what_it_had_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = tmp_path / "child"
    lines = ['{"metrics": ["first", "second"]}', '{"metric": "first", "sample": 1, "value": 0.5}', '{"metric": "sec']
    child.write_text("#!/bin/sh\nprintf '%s\\n%s\\n%s' " + " ".join(f"'{line}'" for line in lines) + "\nsleep 60\n")
    child.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(child))
    found = ragas_scores(SAMPLES, parse_config({}), timeout_s=2)
    assert found.scores == {"first": {"poor": 0.5}}
    late = "was not done after 2 s"
    assert found.faults == {"first": f"1 of 2 questions: {late}", "second": f"2 of 2 questions: {late}"}
