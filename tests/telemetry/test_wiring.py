"""Telemetry of real questions: what the pipeline hands over, and that no answer waits for it or is lost with it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, func, select

sys.path.append(str(Path(__file__).parents[1] / "serving"))
from wiki import configuration, embedder, publish

from rag_serving.access import Principal
from rag_serving.config import Config
from rag_serving.pipeline import Pipeline
from rag_serving.telemetry.kpis import Kpis, kpis
from rag_serving.telemetry.log import rows_of_day
from rag_serving.telemetry.tables import FEEDBACK, METADATA, QUESTIONS, open_engine
from rag_serving.telemetry.telemetry import open_telemetry

ALICE = Principal("acme", "alice")
QUESTION = "May I restart a broker while partitions are under-replicated?"
NOWHERE = "What is the capital of Mongolia?"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    publish(folder)
    return folder


def opened(config: Config) -> Pipeline:
    return Pipeline.open(config, "acme", embedder(), telemetry=open_telemetry(config, "acme", patience_s=10.0))


def emptied(url: str | None, home: Path) -> Engine:
    engine = open_engine(url, home / "serving.db")
    METADATA.drop_all(engine)
    return engine


@pytest.fixture
def engine(url: str | None, home: Path) -> Iterator[Engine]:
    made = emptied(url, home)
    yield made
    made.dispose()


def asked(engine: Engine) -> list[dict[str, Any]]:
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(select(QUESTIONS).order_by(QUESTIONS.c.at)).mappings()]


def test_every_kind_of_question_leaves_one_row(url: str | None, engine: Engine, home: Path) -> None:
    pipeline = opened(configuration(home, telemetry={"url": url}))
    answer = pipeline.ask(ALICE, QUESTION)
    pipeline.ask(ALICE, NOWHERE)
    pipeline.search(ALICE, "consumer lag", 3)
    pipeline.ask_selection("When does it stop?", "The pump stops at noon.", principal=ALICE)
    pipeline.close()
    rows = asked(engine)
    assert [row["kind"] for row in rows] == ["ask", "ask", "search", "selected_text"]
    first = rows[0]
    assert (first["status"], first["receipt_id"], first["generator"]) == ("answered", answer.receipt_id, "extractive")
    assert first["claims"] >= first["verified"] == len(answer.citations) == 1
    assert answer.citations[0].chunk_id in first["locked"]
    locked = [each for each in first["candidates"] if each["chunk_id"] in first["locked"]]
    assert {"dense", "bm25"} <= {name for each in locked for name in each["scores"]}
    assert {"query", "dense", "lexical", "verify", "total"} <= first["timings_ms"].keys()
    assert first["user_hash"] == rows[2]["user_hash"] is not None
    assert QUESTION not in str(first)


def test_questions_that_are_asked_to_measure_are_not_recorded(home: Path) -> None:
    made = emptied(None, home)
    pipeline = Pipeline.open(configuration(home), "acme", embedder())
    pipeline.ask(ALICE, QUESTION)
    pipeline.close()
    METADATA.create_all(made)
    assert asked(made) == []
    made.dispose()


def test_nothing_is_recorded_where_it_is_switched_off(home: Path) -> None:
    assert open_telemetry(configuration(home, telemetry={"enabled": False}), "acme") is None


def test_asking_before_anything_was_built_makes_no_home(tmp_path: Path) -> None:
    pipeline = opened(configuration(tmp_path / "none"))
    assert pipeline.ask(ALICE, QUESTION).status == "unavailable"
    pipeline.close()
    assert not (tmp_path / "none").exists()


def test_a_secret_that_cannot_be_used_costs_the_telemetry_and_no_answer(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CITELOCK_SECRET", "short")
    pipeline = opened(configuration(home))
    assert [pipeline.ask(ALICE, QUESTION).status for _ in range(3)] == ["answered"] * 3
    assert pipeline.telemetry is not None
    assert pipeline.telemetry.counts().recorded == pipeline.telemetry.counts().waiting == 0
    pipeline.close()
    (line,) = [record.message for record in caplog.records if "telemetry" in record.message]
    assert "CITELOCK_SECRET has fewer than" in line


def test_stopping_the_database_while_people_ask_loses_no_answer(postgres: Any, home: Path) -> None:
    made = emptied(postgres.url, home)
    pipeline = opened(configuration(home, telemetry={"url": postgres.url}))
    times = []

    def ask(count: int) -> None:
        for _ in range(count):
            started = time.perf_counter()
            assert pipeline.ask(ALICE, QUESTION).status == "answered"
            times.append(time.perf_counter() - started)

    ask(10)
    postgres.stop()
    try:
        ask(10)
    finally:
        postgres.start()
    ask(10)
    pipeline.close()
    assert pipeline.telemetry is not None
    counts = pipeline.telemetry.counts()
    with made.connect() as connection:
        written = connection.execute(select(func.count()).select_from(QUESTIONS)).scalar_one()
    made.dispose()
    assert (counts.recorded + counts.dropped, counts.waiting) == (30, 0)
    assert counts.recorded == written >= 20
    assert max(times[10:20]) < 10 * max(times[:10])


def test_both_databases_give_the_same_figures(postgres: Any, home: Path) -> None:
    def figures(url: str | None) -> Kpis:
        made = emptied(url, home)
        pipeline = opened(configuration(home, telemetry={"url": url}))
        assert pipeline.telemetry is not None
        for question in (QUESTION, NOWHERE, QUESTION):
            answer = pipeline.ask(ALICE, question)
        assert answer.receipt_id
        pipeline.telemetry.judged(ALICE, answer.receipt_id, "wrong_citation", 1, "it is on another page")
        pipeline.close()
        (day,) = {row["day"] for row in asked(made)}
        tables = [rows_of_day(made, table, "acme", date.fromisoformat(day)) for table in (QUESTIONS, FEEDBACK)]
        made.dispose()
        return kpis(*tables)

    lite, pg = figures(None).payload(), figures(postgres.url).payload()
    assert lite["latency_ms"].keys() == pg["latency_ms"].keys()
    assert {k: v for k, v in lite.items() if k != "latency_ms"} == {k: v for k, v in pg.items() if k != "latency_ms"}
    assert lite["feedback"] == {"wrong_citation": 1}
