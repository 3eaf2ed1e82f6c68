"""Telemetry of real questions: what the pipeline hands over, and that no answer waits for it or is lost with it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, func, select
from support.wiki import configuration, embedder, publish
from typer.testing import CliRunner

from evals.reports import telemetry_days
from evals.reports.report import html, markdown
from evals.reports.telemetry import telemetry_report
from rag_serving.access.principals import Principal
from rag_serving.api.app import create_app
from rag_serving.ask import Pipeline
from rag_serving.cli.main import app
from rag_serving.config.loading import Config, load_config
from rag_serving.telemetry import telemetry as telemetry_module
from rag_serving.telemetry.recorder import Row, Writer
from rag_serving.telemetry.tables import METADATA, QUESTIONS, open_engine
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
    pipeline.ask_selection("When does it stop?", "The pump is red and old.", principal=ALICE)
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
    assert [row["refusal"] and row["refusal"]["gate"] for row in rows] == [None, "passages", None, "confidence"]
    assert rows[3]["refusal"].keys() == {"gate", "value", "threshold"}
    assert rows[3]["refusal"]["value"] < rows[3]["refusal"]["threshold"]


def test_each_index_alone_what_both_make_and_the_switches_are_kept(url: str | None, engine: Engine, home: Path) -> None:
    pipeline = opened(configuration(home, telemetry={"url": url}, features={"FEATURE_RM3": True}))
    with pipeline.published.acquire() as generation:
        rows = {chunk_id: row for row, chunk_id in enumerate(generation.chunk_ids())}
        vector = embedder().embed_query(QUESTION)
        nearest = [generation.chunk_ids()[hit.row] for hit in generation.exact(vector, 80, frozenset({"everyone"}))]
    pipeline.ask(ALICE, QUESTION)
    pipeline.search(ALICE, "consumer lag", 3)
    pipeline.mode = "lexical"
    pipeline.search(ALICE, "consumer lag", 3)
    pipeline.ask_selection("When does it stop?", "The pump stops at noon.", principal=ALICE)
    pipeline.close()
    ask, search, lexical, selection = asked(engine)
    assert [chunk_id for chunk_id, _ in ask["dense"]] == nearest
    for row in (ask, search):
        for name in ("dense", "lexical", "fused"):
            scores = [score for _, score in row[name]]
            assert scores == sorted(scores, reverse=True)
            assert {chunk_id for chunk_id, _ in row[name]} <= rows.keys()
        assert {chunk_id for chunk_id, _ in row["lexical"]} <= {chunk_id for chunk_id, _ in row["fused"]}
    assert set(ask["locked"]) <= {chunk_id for chunk_id, _ in ask["fused"]}
    assert (lexical["dense"], bool(lexical["lexical"])) == (None, True)
    assert selection["fused"] is None
    switches = ["FEATURE_HEURISTIC_FALLBACK", "FEATURE_RAG_PROVENANCE_LOCK"]
    assert ask["features"] == selection["features"] == [*switches, "FEATURE_RERANKER", "FEATURE_RM3"]


def test_a_row_says_whether_a_server_or_a_terminal_was_asked(home: Path, tmp_path: Path) -> None:
    made = emptied(None, home)
    path = tmp_path / "app.yaml"
    path.write_text(f"home: {home}\ntenants: {{acme: {{}}}}\n")
    with TestClient(create_app(load_config(path)), "http://127.0.0.1", client=("127.0.0.1", 1)) as client:
        assert client.post("/v1/ask", json={"question": QUESTION}).status_code == 200
    for command in ("ask", "search"):
        assert CliRunner().invoke(app, [command, QUESTION, "--config", str(path)]).exit_code == 0
    assert [(row["origin"], row["kind"]) for row in asked(made)] == [
        ("server", "ask"),
        ("terminal", "ask"),
        ("terminal", "search"),
    ]
    made.dispose()


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
    pipeline = opened(configuration(home))
    pipeline.warm()  # without the secret no generation is opened
    monkeypatch.setenv("CITELOCK_SECRET", "short")
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


class Both:
    """Writes every row to two databases."""

    def __init__(self, *writers: Writer) -> None:
        self._writers = writers

    def write(self, batch: Sequence[Row]) -> int:
        (written,) = {writer.write(batch) for writer in self._writers}
        return written

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


def test_both_databases_give_the_same_report_to_the_letter(
    postgres: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = [configuration(home, telemetry={"url": url, "store_questions": True}) for url in (None, postgres.url)]
    for config in configs:
        emptied(config.telemetry.url, home).dispose()
    opening = telemetry_module._open_writer
    both = lambda _, path: Both(*(opening(config.telemetry, path) for config in configs))  # noqa: E731
    monkeypatch.setattr(telemetry_module, "_open_writer", both)
    pipeline = opened(configs[0])
    assert pipeline.telemetry is not None
    for question in (QUESTION, NOWHERE, "Où est la machine à café \0 <b>☕</b>?", QUESTION):
        answer = pipeline.ask(ALICE, question)
    pipeline.search(ALICE, "consumer lag", 3)
    assert answer.receipt_id
    pipeline.telemetry.judged(ALICE, answer.receipt_id, "helpful", None, None)
    pipeline.telemetry.judged(ALICE, answer.receipt_id, "wrong_citation", 1, "it is | on <i>another</i> page\n¡ \ud800")
    pipeline.close()

    def rendered(config: Config) -> tuple[str, str]:
        with telemetry_days.database(config) as engine:
            (day,) = {row["day"] for row in asked(engine)}
            found = telemetry_days.read_day(engine, "acme", date.fromisoformat(day))
        assert found.kpis.questions == 4
        report = replace(telemetry_report("acme", day, found), plots=telemetry_days.plots_of(found.kpis))
        return markdown(report), html(report)

    lite, pg = (rendered(config) for config in configs)
    assert lite == pg
    assert "it is | on &lt;i&gt;another&lt;/i&gt; page" in lite[1]
    assert "data:image/png;base64," in lite[0]
