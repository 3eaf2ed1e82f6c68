"""A question that comes again gets its answer from memory: in its own view, with a receipt and a row of its own."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.wiki import PASSAGES, Passage, configuration, embedder, publish

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.conversations.turns import conversation_of
from rag_serving.records.answers import Answer
from rag_serving.records.queries import Filters
from rag_serving.telemetry.telemetry import open_telemetry

ANN, BOB, HAL = Principal("acme", "ann"), Principal("acme", "bob"), Principal("acme", "hal", frozenset({"hr"}))
NOBODY = Principal("acme")
QUESTION = "May I restart a broker while partitions are under-replicated?"
REWORDED = "Hi! may I restart a broker while partitions are under-replicated"
OTHER = "May I restart a consumer while partitions are under-replicated?"


def opened(
    home: Path, serving: dict[str, Any] | None = None, redact: list[str] | None = None, **cache: Any
) -> Pipeline:
    config = configuration(
        home,
        cache={"semantic": True, **cache},
        serving={"auth": "tokens", **(serving or {})},
        privacy={} if redact is None else {"redact": redact},
    )
    return Pipeline.open(config, "acme", embedder(), telemetry=open_telemetry(config, "acme"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repeated")
    publish(folder)
    return folder


@pytest.fixture
def asked(home: Path) -> Iterator[Pipeline]:
    pipeline = opened(home)
    yield pipeline
    pipeline.close()


def is_hit(answer: Answer) -> bool:
    return "cached" in answer.flags


def test_the_same_question_gets_its_answer_again_however_it_is_worded(asked: Pipeline) -> None:
    first = asked.ask(ANN, QUESTION)
    again, reworded = asked.ask(ANN, QUESTION), asked.ask(ANN, REWORDED)
    assert (first.status, first.outcome, first.flags) == ("answered", "told", ())
    for answer in (again, reworded):
        assert is_hit(answer)
        assert (answer.answer, answer.citations, answer.generation) == (first.answer, first.citations, first.generation)
        assert answer.usage is None
    assert not is_hit(asked.ask(ANN, OTHER))


def test_a_hit_has_a_receipt_of_its_own_that_holds(asked: Pipeline) -> None:
    first, again = asked.ask(ANN, QUESTION), asked.ask(ANN, REWORDED)
    assert again.receipt_id
    assert again.receipt_id != first.receipt_id
    assert asked.proof(again.receipt_id).faults == ()
    shown = asked.receipt(ANN, again.receipt_id)
    assert (shown["question"], shown["flags"]) == (REWORDED, ["cached"])


def test_a_hit_is_a_row_of_telemetry_that_cost_nothing(tmp_path: Path) -> None:
    publish(tmp_path)
    pipeline = opened(tmp_path)
    answers = [pipeline.ask(ANN, QUESTION) for _ in range(2)]
    pipeline.close()
    with sqlite3.connect(tmp_path / "serving.db") as database:
        rows = database.execute(
            "SELECT receipt_id, flags, tokens_in, cost, locked FROM questions ORDER BY at"
        ).fetchall()
    database.close()
    assert [row[0] for row in rows] == [answer.receipt_id for answer in answers]
    assert [row[1:4] for row in rows] == [("[]", 0, 0.0), ('["cached"]', 0, 0.0)]
    assert rows[0][4] == rows[1][4] != "[]"


def test_nobody_gets_what_another_user_was_answered(asked: Pipeline) -> None:
    asked.ask(ANN, QUESTION)
    assert not is_hit(asked.ask(BOB, QUESTION))
    assert not is_hit(asked.ask(HAL, QUESTION))
    assert not is_hit(asked.ask(NOBODY, QUESTION))
    assert not is_hit(asked.ask(NOBODY, QUESTION))  # callers without a name may be different people


def test_shared_answers_go_to_the_same_readers_alone(home: Path) -> None:
    pipeline = opened(home, semantic="shared")
    pipeline.ask(ANN, QUESTION)
    assert is_hit(pipeline.ask(BOB, QUESTION))
    assert is_hit(pipeline.ask(NOBODY, QUESTION))
    assert not is_hit(pipeline.ask(HAL, QUESTION))
    salary = "What bonus does the broker team earn in December?"
    assert "4,000" in pipeline.ask(HAL, salary).answer
    assert not is_hit(pipeline.ask(ANN, salary))
    assert "4,000" not in pipeline.ask(BOB, salary).answer
    pipeline.close()


@pytest.mark.parametrize("semantic", [True, "shared"])
def test_the_answer_to_a_question_with_personal_data_is_not_kept(tmp_path: Path, semantic: bool | str) -> None:
    publish(
        tmp_path,
        [*PASSAGES, Passage("17", "Mail", "Mail to broker-help@example.com is answered by the platform team.")],
    )
    home, personal = tmp_path, "Who answers mail to broker-help@example.com?"
    pipeline, unredacted = opened(home, semantic=semantic), opened(home, semantic=semantic, redact=[])
    try:
        for asker in (ANN, ANN, BOB):
            answer = pipeline.ask(asker, personal)
            assert (answer.outcome, is_hit(answer)) == ("told", False)
        assert len(pipeline.memory.repeated.cache.entries) == 0
        assert [is_hit(unredacted.ask(ANN, personal)) for _ in range(2)] == [False, True]
        assert [is_hit(pipeline.ask(ANN, QUESTION)) for _ in range(2)] == [False, True]
    finally:
        pipeline.close()
        unredacted.close()


def test_it_is_made_anew_where_it_may_be_another(asked: Pipeline) -> None:
    asked.ask(ANN, QUESTION)
    earlier = conversation_of([("user", "What is consumer lag?")])
    assert not is_hit(asked.ask(ANN, QUESTION, filters=Filters(space=("OPS",))))
    assert not is_hit(asked.ask(ANN, QUESTION, explain=True))
    assert not is_hit(asked.ask(ANN, QUESTION, conversation=earlier))
    assert is_hit(asked.ask(ANN, QUESTION))


def test_a_new_generation_is_asked_anew(tmp_path: Path) -> None:
    publish(tmp_path)
    pipeline = opened(tmp_path)
    pipeline.ask(ANN, QUESTION)
    hidden = [Passage("11", "Restarting a broker", PASSAGES[0].text, readers="group:hr"), *PASSAGES[1:]]
    publish(tmp_path, hidden)
    pipeline.published.follow()
    answer = pipeline.ask(ANN, QUESTION)
    assert not is_hit(answer)
    assert "11" not in {citation.page_id for citation in answer.citations}
    pipeline.close()


def test_a_hit_searches_nothing_and_is_faster(asked: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    asked.ask(ANN, QUESTION)
    monkeypatch.setattr("rag_serving.ask.candidates", None)
    began = time.perf_counter()
    assert all(is_hit(asked.ask(ANN, QUESTION)) for _ in range(20))
    assert (time.perf_counter() - began) / 20 < 0.1


def test_nothing_is_kept_unless_that_is_asked_for(home: Path) -> None:
    pipeline = opened(home, semantic=False)
    pipeline.ask(ANN, QUESTION)
    assert not is_hit(pipeline.ask(ANN, QUESTION))
    pipeline.close()


def test_whoever_asks_whatever_gets_what_is_answered_without_the_cache(home: Path) -> None:
    questions = [
        QUESTION, REWORDED, OTHER, "What bonus does the broker team earn in December?", "How long are logs kept?",
        "how long are logs kept", "What is consumer lag?", "Who earns a salary bonus?",
    ]  # fmt: skip
    askers = [
        Principal("acme", user, frozenset(groups))
        for user in (None, "ann", "hal")
        for groups in ((), ("hr",), ("ops",), ("hr", "ops"))
    ]
    plain, shared = opened(home, semantic=False), opened(home, semantic="shared")
    chance, hits = random.Random(4), 0
    expected: dict[tuple[bool, str], Answer] = {}
    for _ in range(150):
        asker, question = chance.choice(askers), chance.choice(questions)
        view = "hr" in asker.groups
        if (view, question) not in expected:
            expected[view, question] = plain.ask(asker, question)
        answer, wanted = shared.ask(asker, question), expected[view, question]
        hits += is_hit(answer)
        assert (answer.status, answer.answer, answer.citations) == (wanted.status, wanted.answer, wanted.citations)
    assert hits > 30
    plain.close()
    shared.close()
