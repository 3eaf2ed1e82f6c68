"""No question fails for a store that is slow, fails or hangs, or a model that is dead; the phase goes down and up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from support.failing_stores import Store as Faults
from support.failing_stores import faulty_store
from support.ticking import Clock
from support.waiting import wait_until
from support.wiki import PASSAGES, Passage, configuration, embedder, publish

from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.ask import RETRIEVAL_DOWN, RETRIEVAL_OFF, Pipeline
from rag_serving.indexes.current import CurrentGeneration
from rag_serving.indexes.view import ReaderView
from rag_serving.models.protocols import ModelError
from rag_serving.records.answers import Answer
from rag_serving.retrieval.hybrid import DENSE_UNAVAILABLE, RetrievalError
from rag_serving.telemetry.tables import QUESTIONS, opened
from rag_serving.telemetry.telemetry import open_telemetry

ANN, BOB, HR = Principal("acme", "ann"), Principal("acme", "bob"), Principal("acme", "hal", frozenset({"hr"}))
QUESTION = "May I restart a broker while partitions are under-replicated?"
HELPED = {"answered", "clarify"}
"""In the lower phases a question may be asked back about."""
OTHER = "How long does each broker keep logs?"


class Model:
    """The real model, which can be down."""

    def __init__(self) -> None:
        self.is_down = False

    def __getattr__(self, name: str) -> Any:
        return getattr(embedder(), name)

    def embed_query(self, text: str) -> Any:
        if self.is_down:
            raise ModelError("down")
        return embedder().embed_query(text)


class Sidecar:
    """A reranker that takes so many seconds of a test's clock, or fails after them."""

    def __init__(self, clock: Clock, seconds: float, fails: bool) -> None:
        self._clock, self._seconds, self._fails = clock, seconds, fails

    def rank(self, _: str, passages: Sequence[tuple[str, str]], top_n: int) -> list[tuple[str, float]]:
        self._clock.pass_by(self._seconds)
        if self._fails:
            raise ModelError("late")
        return [(identifier, 1.0) for identifier, _ in passages[:top_n]]

    def close(self) -> None:
        """Nothing is open."""


class Served:
    """A pipeline as a server has it, with a clock and faults."""

    def __init__(self, home: Path, faults: Faults, sidecar: Any = None, **more: Any) -> None:
        self.faults, self.clock, self.model = faults, faults.clock, Model()
        config = configuration(home, embedding={"query_cache": 0}, **more)
        self.pipeline = Pipeline.open(config, "acme", self.model, sidecar)  # type: ignore[arg-type]
        self.pipeline.watch(clock=self.clock)

    def ask(self, who: Principal = ANN, question: str = QUESTION) -> Answer:
        return self.pipeline.ask(who, question)

    def ask_for(self, seconds: float, who: Principal = ANN) -> list[Answer]:
        """Ask a question every ten seconds."""
        answers = []
        for _ in range(int(seconds / 10)):
            self.clock.pass_by(10)
            answers.append(self.ask(who))
        return answers

    @property
    def phase(self) -> int:
        state = self.pipeline.phases.state()
        assert state
        return state.in_force


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    with faulty_store(monkeypatch, Clock()) as store:
        yield store


@pytest.fixture
def served(wiki_home: Path, faults: Faults) -> Iterator[Served]:
    found = Served(wiki_home, faults)
    yield found
    faults.let_go()
    found.pipeline.close()


def test_an_answer_says_the_phase_that_found_its_passages(served: Served) -> None:
    answer = served.ask()
    assert (answer.status, answer.phase, answer.flags) == ("answered", 3, ())
    assert answer.payload()["phase"] == 3


@pytest.mark.parametrize("phase", [1, 2, 3])
def test_the_configured_phase_is_asked(wiki_home: Path, faults: Faults, phase: int) -> None:
    served = Served(wiki_home, faults, retrieval={"phase": phase})
    answer = served.ask()
    assert (answer.phase, "phase_lowered" in answer.flags) == (phase, False)
    assert answer.status in ("answered", "clarify")


def test_a_dead_model_costs_the_phase_and_no_answer(served: Served) -> None:
    served.ask_for(300)
    served.model.is_down = True
    answers = served.ask_for(600)
    assert {answer.status for answer in answers} <= HELPED
    assert DENSE_UNAVAILABLE in answers[0].flags
    assert served.phase == 2
    assert "phase_lowered" in answers[-1].flags or answers[-1].phase == 3  # a probe
    served.model.is_down = False
    served.ask_for(700)
    assert served.phase == 3
    assert served.ask().flags == ()


def test_a_failing_store_leaves_retrieval_and_earlier_answers_are_shown_until_it_is_back(served: Served) -> None:
    served.ask_for(300)
    served.faults.fail()
    answers = served.ask_for(400)
    assert {answer.status for answer in answers} <= HELPED
    assert all("cached_answer" in answer.flags for answer in answers)
    assert {"phase_3_failed", "phase_2_failed", "phase_1_failed"} <= set(answers[0].flags)
    assert served.phase == 0
    reads = served.faults.reads
    plain = served.ask(question=OTHER)
    assert (plain.status, plain.answer) == ("unavailable", RETRIEVAL_DOWN)
    assert served.faults.reads == reads
    served.faults.mend()
    served.ask_for(300 + 2 * 400)
    assert served.phase == 3
    assert served.ask(question=OTHER).flags == ()


def test_a_slow_store_lowers_the_phase_and_then_leaves_retrieval(served: Served) -> None:
    served.ask_for(300)
    served.faults.slow_down(0.6)  # a search: no phase hangs, each takes too long
    seen = []
    for _ in range(70):
        served.ask_for(10)
        seen.append(served.phase)
    assert seen == sorted(seen, reverse=True)
    assert {3, 2, 0} == set(seen)
    served.faults.mend()
    answers = served.ask_for(1_200)
    assert {answer.status for answer in answers} <= HELPED
    assert served.phase == 3


@pytest.mark.parametrize("fails", [False, True])
def test_a_slow_reranker_costs_no_phase_and_a_slow_store_beside_it_does(
    wiki_home: Path, faults: Faults, fails: bool
) -> None:
    served = Served(wiki_home, faults, Sidecar(faults.clock, 3, fails))
    assert {answer.phase for answer in served.ask_for(400)} == {3}
    state = served.pipeline.phases.state()
    assert state
    assert state.window.questions >= 20
    assert state.window.p95_ms is not None
    assert state.window.p95_ms < 500
    faults.slow_down(0.6)
    served.ask_for(600)
    assert served.phase < 3


def test_all_three_at_once_fail_no_question(served: Served) -> None:
    served.ask_for(300)
    served.model.is_down = True
    statuses = set()
    for turn in range(60):
        (served.faults.fail, lambda: served.faults.slow_down(0.6), served.faults.mend)[turn % 3]()
        statuses |= {answer.status for answer in served.ask_for(20)}
    assert statuses <= HELPED
    assert served.phase < 3
    served.model.is_down = False
    served.faults.mend()
    served.ask_for(1_500)
    assert served.phase == 3


def test_a_store_that_hangs_holds_no_question_and_few_threads(wiki_home: Path, faults: Faults) -> None:
    served = Served(wiki_home, faults, degradation={"max_hanging": 4})
    served.ask()
    faults.hang(seconds=6)
    for number in range(12):
        answer = served.ask(BOB, f"{OTHER} {number}")
        assert (answer.status, answer.answer) == ("unavailable", RETRIEVAL_DOWN)
    assert served.pipeline.phases.hanging == 4
    faults.mend()
    faults.let_go()
    wait_until(lambda: served.pipeline.phases.hanging == 0)
    served.clock.pass_by(11)
    assert served.ask().status == "answered"
    served.pipeline.close()


def test_what_one_caller_asks_closes_no_phase_to_others(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    read = ReaderView.frequency

    def frequency(view: ReaderView, term: str) -> int:
        if term == "evil":
            raise ValueError("a question that breaks the search")
        return read(view, term)

    monkeypatch.setattr(ReaderView, "frequency", frequency)
    for _ in range(30):
        assert "phase_3_failed" in served.ask(BOB, "evil broker").flags
    assert (served.ask().phase, served.ask().flags) == (3, ())


def test_a_generation_stays_open_under_a_search_that_was_left_behind(served: Served) -> None:
    served.ask()
    held = served.pipeline.published._slot.held
    assert held
    served.faults.hang(seconds=6)
    assert "cached_answer" in served.ask().flags
    assert held.readers > 0
    served.faults.mend()
    served.faults.let_go()
    wait_until(lambda: held.readers == 0)


def test_searches_fall_through_as_questions_do(served: Served) -> None:
    assert served.pipeline.search(ANN, "consumer lag").degraded == ()
    served.faults.fail()
    with pytest.raises(RetrievalError):
        served.pipeline.search(ANN, "consumer lag")
    served.faults.mend()
    served.clock.pass_by(11)
    assert served.pipeline.search(ANN, "consumer lag").results[0].chunk.page_id == "13"


def test_the_kill_switch_touches_no_index_and_opens_no_generation(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.ask()
    settings = configuration(served.pipeline.config.home, retrieval={"enabled": False}).phases_of("acme")
    served.pipeline.switch(served.pipeline.config.features, settings)
    reads = served.faults.reads

    def opened(*_: Any) -> Any:
        raise AssertionError("a generation was looked at")

    monkeypatch.setattr(CurrentGeneration, "acquire", opened)
    answer = served.ask()
    assert (answer.status, answer.answer, answer.flags) == ("unavailable", RETRIEVAL_OFF, ("retrieval_disabled",))
    with pytest.raises(RetrievalError):
        served.pipeline.search(ANN, "consumer lag")
    assert served.faults.reads == reads
    monkeypatch.undo()


def test_a_selection_is_answered_while_retrieval_is_off(wiki_home: Path, faults: Faults) -> None:
    served = Served(wiki_home, faults, retrieval={"enabled": False})
    text = "The lifts stop at nine. After that call the guard on extension 0 to leave the building."
    assert served.pipeline.ask_selection("Whom do I call to leave the building?", text).status == "answered"


def test_without_a_server_nothing_is_bounded_or_kept_but_a_phase_falls_through(wiki_home: Path, faults: Faults) -> None:
    pipeline = Pipeline.open(configuration(wiki_home), "acme", embedder())
    assert pipeline.ask(ANN, QUESTION).phase == 3
    faults.fail()
    answer = pipeline.ask(ANN, QUESTION)
    assert (answer.status, answer.answer) == ("unavailable", RETRIEVAL_DOWN)
    assert {"phase_3_failed", "phase_2_failed", "phase_1_failed"} <= set(answer.flags)


def test_a_reranker_is_tried_out_on_the_questions_of_one_space(wiki_home: Path, faults: Faults) -> None:
    canary = {"features": {"FEATURE_RERANKER": True}, "spaces": ["SRE"]}
    off = {"features": {"FEATURE_RERANKER": False}, "retrieval": {"canary": canary}}
    served = Served(wiki_home, faults, Sidecar(faults.clock, 0, False), **off)
    ranked = {
        question: served.ask(question=question).payload()["reranker"] == "sidecar"
        for question in (QUESTION, f"{QUESTION} space:SRE", f"{QUESTION} space:sre", f"{QUESTION} space:OPS")
    }
    assert [*ranked.values()] == [False, True, True, False]
    assert served.ask(question=f"{QUESTION} space:SRE space:OPS").payload()["reranker"] != "sidecar"


SECRET = Passage("21", "Bonus", "The operations team earns a bonus of 900 euros in May.", title="Bonus of operations")
BONUS = "What bonus does the operations team earn in May?"


def test_an_earlier_answer_of_other_pages_says_so(tmp_path: Path, faults: Faults) -> None:
    first = publish(tmp_path, (*PASSAGES, SECRET))
    served = Served(tmp_path, faults)
    assert served.ask(question=BONUS).flags == ()
    publish(tmp_path, (*PASSAGES, SECRET, Passage("22", "New", "A page about a dashboard.")))
    served.clock.pass_by(7_200)
    faults.fail()
    answer = served.ask(question=BONUS)
    served.pipeline.close()
    assert (answer.status, answer.generation, answer.flags[-1]) == ("answered", first, "cached_answer_of_other_pages")
    assert answer.clarification
    assert "2 hours ago" in answer.clarification.text
    assert first in answer.clarification.text
    assert answer.phase is None


@pytest.mark.parametrize("change", ["restricted", "deleted"])
def test_an_earlier_answer_is_gone_with_its_page(tmp_path: Path, faults: Faults, change: str) -> None:
    publish(tmp_path, (*PASSAGES, SECRET))
    served = Served(tmp_path, faults)
    assert "900 euros" in served.ask(question=BONUS).answer
    hidden = (replace(SECRET, readers="group:hr"),) if change == "restricted" else ()
    publish(tmp_path, (*PASSAGES, *hidden))
    faults.fail()
    answer = served.ask(question=BONUS)
    served.pipeline.close()
    assert (answer.status, answer.answer) == ("unavailable", RETRIEVAL_DOWN)


def test_a_published_restriction_holds_though_its_generation_cannot_be_opened(tmp_path: Path, faults: Faults) -> None:
    publish(tmp_path, (*PASSAGES, SECRET))
    served = Served(tmp_path, faults)
    assert served.ask(question=BONUS).status == "answered"
    assert served.ask(question=OTHER).status == "answered"
    second = publish(tmp_path, (*PASSAGES, replace(SECRET, readers="group:hr")))
    (Store(tmp_path).generation("acme", second) / "chunks.parquet").write_bytes(b"broken")
    served.pipeline.published.refresh()
    kept, gone = served.ask(question=OTHER), served.ask(question=BONUS)
    served.pipeline.close()
    assert (kept.status, kept.flags) == ("answered", ("cached_answer_of_other_pages",))
    assert (gone.status, "900" in str(gone.payload())) == ("unavailable", False)


def test_nobody_gets_the_earlier_answer_of_another_view(served: Served) -> None:
    question = "What salary bonus does the broker team earn in December?"
    assert served.ask(HR, question).status == "answered"
    served.faults.fail()
    assert served.ask(HR, question).flags[-1] == "cached_answer"
    answer = served.ask(ANN, question)
    assert (answer.status, "4,000" in str(answer.payload())) == ("unavailable", False)


def test_a_question_leaves_its_phase_and_times_in_telemetry(tmp_path: Path, faults: Faults) -> None:
    publish(tmp_path)
    config = configuration(tmp_path)
    telemetry = open_telemetry(config, "acme", patience_s=20.0)
    pipeline = Pipeline.open(config, "acme", embedder(), telemetry=telemetry)
    pipeline.watch(clock=faults.clock)
    pipeline.ask(ANN, QUESTION)
    pipeline.search(ANN, "consumer lagg")
    faults.fail()
    pipeline.ask(ANN, QUESTION)
    pipeline.ask(ANN, OTHER)
    pipeline.close()
    with opened(None, Store(tmp_path).serving_db()) as engine, engine.connect() as connection:
        rows = [dict(row) for row in connection.execute(select(QUESTIONS).order_by(QUESTIONS.c.at)).mappings()]
    told = [(row["phase"], row["action"], row["retrieval_ms"] is None) for row in rows]
    assert told == [(3, "answer", False), (3, None, False), (None, "answer", True), (None, "unavailable", True)]
    assert rows[0]["matched"] > 0
    assert (rows[0]["corrected"], rows[1]["corrected"]) == (0, 1)
    assert "cached_answer" in rows[2]["flags"]
