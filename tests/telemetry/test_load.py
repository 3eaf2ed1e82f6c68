"""A thousand questions a second through the pipeline, its database stopped midway: no answer waits or is lost.

No two cores answer a thousand questions a second. The real stages answer each question once, and what they wrote is
given again: all that the pipeline does around them, telemetry included, runs as it does for readers.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from sqlalchemy import func, select
from support.wiki import configuration, embedder, publish

from rag_serving.access.principals import Principal
from rag_serving.ask import QUESTION, Pipeline, access, receipt
from rag_serving.config.loading import Config
from rag_serving.receipts.proofs import ReceiptWriter
from rag_serving.records.answers import Answer
from rag_serving.telemetry.tables import METADATA, QUESTIONS, open_engine
from rag_serving.telemetry.telemetry import QuestionTelemetry, open_telemetry

pytestmark = pytest.mark.load

ALICE = Principal("acme", "alice")
ASKED = [
    "May I restart a broker while partitions are under-replicated?",
    "How long does each broker keep logs?",
    "What is consumer lag?",
    "When does an alert fire for consumer lag?",
    "What is the default of max.poll.records?",
    "How often is the coffee machine descaled?",
    "What is the capital of Mongolia?",
]
A_SECOND, THREADS, SECONDS = 1_000, 4, 4.0
STOPPED_AT, STARTED_AT = 1.0, 2.5
MOST_MORE_S = 0.1  # what telemetry may add to the median question: far less than anybody waits for a database
WRITING = QUESTION[QUESTION.index(access) + 1 : QUESTION.index(receipt)]
WRITTEN = ("answer", "written", "recorded", "place")  # what these stages leave
LONGEST_S = 6.0  # of any question beside other tests: who waited for the database would wait for seconds


class Replay:
    """Gives what the stages wrote the first time."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[dict[str, Any], dict[str, float]]] = {}

    def __call__(self, inquiry: Any) -> None:
        text, trace = inquiry.request.text, inquiry.trace
        if text not in self._known:
            left, inquiry.stages = inquiry.stages, WRITING
            while inquiry.stages:
                stage, *inquiry.stages = inquiry.stages
                stage(inquiry)
            inquiry.stages = left
            self._known[text] = {name: getattr(inquiry, name) for name in WRITTEN}, dict(trace.timings_ms)
        written, timings_ms = self._known[text]
        vars(inquiry).update(written)
        trace.timings_ms.update(timings_ms)
        inquiry.lease.close()


class ReplayedReceipts:
    """Stores a receipt with the first answer to each question alone."""

    def __init__(self, writer: ReceiptWriter) -> None:
        self._writer = writer
        self._given: dict[str, Answer] = {}

    def with_receipt(self, trace: Any, written: Any, asker: Any) -> Answer:
        if written.question not in self._given:
            self._given[written.question] = self._writer.with_receipt(trace, written, asker)
        return self._given[written.question]


@dataclass
class Load:
    """Questions at a steady rate from several threads: when each was asked, how long it took, what came back."""

    pipeline: Pipeline
    seconds: float
    started: float = 0.0
    asked: list[tuple[float, float, str, str]] = field(default_factory=list)  # at, seconds, question, status

    def start(self) -> list[threading.Thread]:
        self.started = time.perf_counter()
        threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        return threads

    def _ask(self, first: int) -> None:
        for number in range(first, int(A_SECOND * self.seconds), THREADS):
            question = ASKED[number % len(ASKED)]
            time.sleep(max(0.0, self.started + number / A_SECOND - time.perf_counter()))
            before = time.perf_counter()
            answer = self.pipeline.ask(ALICE, question)
            self.asked.append((before - self.started, time.perf_counter() - before, question, answer.status))

    def times(self, since: float = 0.0, until: float = 1e9) -> list[float]:
        return [took for at, took, _, _ in self.asked if since <= at < until]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("load")
    publish(folder)
    return folder


def replaying(config: Config, telemetry: QuestionTelemetry | None) -> tuple[Pipeline, dict[str, str]]:
    """The pipeline, and the status of each question when the stages answered it."""
    pipeline = Pipeline.open(config, "acme", embedder(), telemetry=telemetry)
    pipeline.receipt_writer = ReplayedReceipts(pipeline.receipt_writer)  # type: ignore[assignment]
    return pipeline, {question: pipeline.ask(ALICE, question).status for question in ASKED}


def joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join()


def test_a_thousand_questions_a_second_are_answered_and_recorded_while_the_database_stops(
    postgres: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_serving.ask.STAGES", {"corpus": (access, Replay(), receipt)})
    engine = open_engine(postgres.url, home / "unused.db")
    METADATA.drop_all(engine)
    unrecorded, _ = replaying(configuration(home), None)
    baseline = Load(unrecorded, seconds=1.0)
    joined(baseline.start())
    unrecorded.close()

    config = configuration(home, telemetry={"url": postgres.url})
    telemetry = open_telemetry(config, "acme", patience_s=20.0)
    assert telemetry
    pipeline, statuses = replaying(config, telemetry)
    assert telemetry.counts().waiting + telemetry.counts().recorded == len(ASKED)
    load = Load(pipeline, SECONDS)
    threads = load.start()
    time.sleep(STOPPED_AT)
    postgres.stop()
    stopped = time.perf_counter() - load.started
    time.sleep(max(0.0, STARTED_AT - stopped))
    restarting = time.perf_counter() - load.started
    postgres.start()
    joined(threads)
    ended = time.perf_counter() - load.started
    pipeline.close()

    assert len(load.asked) == A_SECOND * SECONDS
    assert {(question, status) for _, _, question, status in load.asked} == set(statuses.items())
    counts = telemetry.counts()
    assert (counts.recorded + counts.dropped, counts.waiting) == (len(load.asked) + len(ASKED), 0)
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(QUESTIONS)).scalar_one() == counts.recorded
    engine.dispose()
    plain, up, away = (
        median(times) for times in (baseline.times(), load.times(until=STOPPED_AT), load.times(stopped, restarting))
    )
    figures = {"plain_s": plain, "up_s": up, "away_s": away, "longest_s": max(load.times()), "seconds": ended}
    print({name: round(value, 5) for name, value in figures.items()}, counts)  # pytest -s
    assert up - plain < MOST_MORE_S
    assert away - plain < MOST_MORE_S
    assert max(load.times()) < LONGEST_S
    assert ended < 5 * SECONDS  # so many a second were asked, or as many as a loaded machine can
