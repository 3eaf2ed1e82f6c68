"""A gold set asked with stages on and off, over the small wiki."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from support.gold_questions import LOGS, SALARY, WON
from support.wiki import configuration

from evals.evaluation.ablation import ANSWER_VARIANTS, ablate_answers, changes_nothing
from evals.evaluation.gold import GoldSet
from evals.evaluation.metrics import to_csv
from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.records.answers import Answer

CHOSEN = ("defaults", "lexical only", "context: none", "without gates")


def test_every_variant_gives_a_row_and_the_first_is_what_others_are_compared_with(wiki_home: Path) -> None:
    variants = [variant for variant in ANSWER_VARIANTS if variant.name in CHOSEN]
    told: list[int] = []
    config = configuration(wiki_home)
    rows = ablate_answers(
        config, "acme", GoldSet((LOGS, WON, SALARY), "acme"), lambda _, done, __: told.append(done), variants
    )
    assert [row["variant"] for row in rows] == list(CHOSEN)
    assert told == [1, 2, 3, 4]
    assert rows[0]["p"] == 1.0
    assert rows[0]["recall@10"] == 1.0
    assert rows[0]["answerability"] == 1.0
    assert rows[-1]["not_found_recall"] <= rows[0]["not_found_recall"]
    table = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert [row["variant"] for row in table] == list(CHOSEN)
    assert float(table[0]["map"]) == rows[0]["map"]
    assert not (wiki_home / "receipts.db").exists()


SIDECAR = {"reranker": {"url": "http://127.0.0.1:1/rerank"}}
BY_WORDS = {"features": {"FEATURE_HEURISTIC_RERANKER": True}}


@pytest.mark.parametrize(
    ("settings", "same"),
    [
        ({}, {"without the sidecar"}),
        (SIDECAR, {"with the heuristic reranker", "with the heuristic reranker, no proximity"}),
        (
            {"retrieval": {"spelling": False, "mmr_lambda": 0.5}, **BY_WORDS},
            {"without the sidecar", "without spelling", "with MMR 0.5", "with the heuristic reranker"},
        ),
        (
            {"features": {"FEATURE_RM3": True, "FEATURE_PROXIMITY": False}, "retrieval": {"min_keyword_overlap": 0}},
            {"without the sidecar", "with RM3", "without keyword gate"},
        ),
        ({**SIDECAR, "features": {"FEATURE_RERANKER": False}}, {"without the sidecar"}),
    ],
)
def test_what_the_configuration_has_already_is_known(wiki_home: Path, settings: dict[str, Any], same: set[str]) -> None:
    config = configuration(wiki_home, **settings)
    found = {variant.name for variant in ANSWER_VARIANTS if changes_nothing(variant, config, "acme")}
    assert found == same | {"defaults"}


def test_what_changes_nothing_is_marked_and_not_measured(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ask = Pipeline.ask

    def counted(self: Pipeline, principal: Principal, question: str, **more: Any) -> Answer:
        asked.append(question)
        return ask(self, principal, question, **more)

    monkeypatch.setattr(Pipeline, "ask", counted)
    variants = [variant for variant in ANSWER_VARIANTS if variant.name in ("defaults", "without the sidecar")]
    told: list[int] = []
    rows = ablate_answers(
        configuration(wiki_home), "acme", GoldSet((LOGS,), "acme"), lambda _, done, __: told.append(done), variants
    )
    assert rows[1] == {"variant": "without the sidecar", "same_as": "defaults"}
    assert to_csv(rows).splitlines()[1].endswith(",")
    assert to_csv(rows).splitlines()[2].strip(",") == "without the sidecar" + "," * len(rows[0]) + "defaults"
    assert len(asked) == 2  # once to warm, once to measure
    assert told == [1, 2]


def test_a_stage_is_one_thing_that_differs(wiki_home: Path) -> None:
    config = configuration(wiki_home)
    names = {variant.name for variant in ANSWER_VARIANTS}
    assert len(names) == len(ANSWER_VARIANTS)
    for variant in ANSWER_VARIANTS:
        changed = variant.of(config)
        is_other = changed != config or vars(changed.retrieval) != vars(config.retrieval)  # keys, and constants
        is_other |= variant.mode != "hybrid"
        assert is_other or variant.name in ("defaults", "context: none")
        assert (changed.home, changed.embedding) == (config.home, config.embedding)
