"""RAGAS' metrics of an evaluation, where the extra is installed; its absence or failure is a line, never an error."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.evaluation.gold import Pages, plain
from rag_serving.config.loading import Config
from rag_serving.models.chat.providers import CHATS

TIMEOUT_S = 600.0
ABSENT = "the extra is not installed; pip install 'citelock[ragas]'"
_MARKS = re.compile(r"(?<!\s)\s*(?:\[\d{1,3}\])+")
# No figures about us go to anybody, and nothing is fetched.
_QUIET = {
    "RAGAS_DO_NOT_TRACK": "true",
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "HF_HUB_OFFLINE": "1",
}


@dataclass(frozen=True)
class RagasScores:
    """Scores by metric and question id; `problem` says why there are none, `faults` which metric lacks some and why."""

    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


def ragas_samples(cases: Sequence[Mapping[str, Any]], pages: Pages) -> dict[str, dict[str, Any]]:
    """Return a sample for every answerable question with a confident answer of `eval_report.json`, by question id.

    Its reference contexts are the sections with the gold quotes; without any it has none: a short quote is like no
    passage.
    """
    samples = {}
    for case in cases:
        contexts = [str(passage["text"]) for passage in case["passages"]]
        is_told = case["status"] == "answered" and case.get("outcome") != "closest"
        if case["answerable"] and is_told and case["quotes"] and contexts:
            samples[case["id"]] = {
                "user_input": case["question"],
                "response": _MARKS.sub("", case["answer"]),
                "retrieved_contexts": contexts,
                "reference": case["expected"] or " ".join(case["quotes"]),
                "reference_contexts": _holding(case, pages) or None,
            }
    return samples


def ragas_scores(samples: Mapping[str, Mapping[str, Any]], config: Config, timeout_s: float = TIMEOUT_S) -> RagasScores:
    """Return RAGAS' scores: metrics without a model always, those with one if `generation` names a model.

    A child that is late or dies costs only the scores that it had not sent yet.
    """
    if importlib.util.find_spec("ragas") is None:
        return RagasScores(problem=ABSENT)
    if not samples:
        return RagasScores(problem="no answered question to score")
    asked = {
        "samples": list(samples.values()),
        "model": _model(config),
        "embedding": config.embedding.model_dump(mode="json"),
    }
    told, ended = _told_by_child(json.dumps(asked), timeout_s)
    if not any("value" in message for message in told):
        problem = ended or next((message["fault"] for message in told if "fault" in message), "it told nothing")
        return RagasScores(problem=f"RAGAS {problem}" if ended else f"RAGAS failed: {problem}")
    return _gathered(told, list(samples), ended)


def _told_by_child(asked: str, timeout_s: float) -> tuple[list[dict[str, Any]], str]:
    """Return the lines of the child process, those before its end too if it ended badly, and how it did."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "evals.evaluation.ragas_child"],
            input=asked.encode(),
            capture_output=True,
            timeout=timeout_s,
            env={**os.environ, **_QUIET},
            check=True,
        )
        return _lines(done.stdout), ""
    except subprocess.TimeoutExpired as error:
        return _lines(error.stdout), f"was not done after {timeout_s:g} s"
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"exit code {error.returncode}"]
        return _lines(error.stdout), f"failed: {last[0][:300]}"
    except OSError as error:
        return [], f"failed: {error}"


def _lines(output: bytes | None) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output or b"").splitlines(keepends=True) if line.endswith(b"\n")]


def _gathered(told: Sequence[Mapping[str, Any]], questions: Sequence[str], otherwise: str) -> RagasScores:
    """Return scores and faults by metric; `otherwise` is the reason for scores that were never sent."""
    metrics = next(message["metrics"] for message in told if "metrics" in message)
    scores: dict[str, dict[str, float]] = {name: {} for name in metrics}
    reasons: dict[str, str] = {}
    for message in told:
        if "value" in message:
            scores[message["metric"]][questions[message["sample"]]] = message["value"]
        elif "fault" in message:
            reasons.setdefault(message["metric"], message["fault"])
    faults = {
        name: f"{len(questions) - len(values)} of {len(questions)} questions: {reasons.get(name, otherwise)}"
        for name, values in scores.items()
        if len(values) < len(questions)
    }
    return RagasScores({name: values for name, values in scores.items() if values}, faults)


def _holding(case: Mapping[str, Any], pages: Pages) -> list[str]:
    places = [place for page in case["pages"] for place in pages.get(page, ())]
    quotes = [plain(quote) for quote in case["quotes"]]
    return [place.text for place in places if any(quote in plain(place.text) for quote in quotes)]


def _model(config: Config) -> dict[str, Any] | None:
    """Return the configured language model by its OpenAI-compatible address, which Ollama has below /v1."""
    settings = config.generation
    if settings.provider == "extractive":
        return None
    server = CHATS[settings.provider]
    return {
        "model": settings.model,
        "base_url": (settings.base_url or server.default_url).rstrip("/") + server.openai_path,
        "api_key": os.environ.get(settings.api_key_env or "", "") or "none",
        "timeout_s": settings.timeout_s,
    }
