"""Telemetry beside questions: recorded or counted as dropped, never in the way, the same in both databases."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Engine, MetaData, Table, func, insert, select, text
from support.databases import emptied
from support.wiki import configuration

from evals.evaluation.telemetry_rows import records, rows_of_days
from evals.reports.telemetry import Day, kpis, telemetry_report
from rag_serving.access.principals import Principal
from rag_serving.records.answers import Answer, SearchResults
from rag_serving.records.claims import Claim, Usage, Verdict
from rag_serving.records.passages import Candidate, Chunk, Lock
from rag_serving.telemetry.events import RowBuilder, Trace
from rag_serving.telemetry.recorder import Recorder, Row, TelemetryError, Writer
from rag_serving.telemetry.tables import (
    FEEDBACK,
    LOSSES,
    METADATA,
    QUESTIONS,
    RANKINGS,
    faults_of,
    open_engine,
    prepare,
)
from rag_serving.telemetry.telemetry import QuestionTelemetry
from rag_serving.telemetry.writer import DatabaseWriter, forget

TODAY = datetime.now(UTC).date()
ALICE = Principal("acme", "alice", frozenset())
SCRIBE = RowBuilder("acme", b"key")


@pytest.fixture
def engine(url: str | None, tmp_path: Path) -> Iterator[Engine]:
    with emptied(url, tmp_path, METADATA) as opened:
        yield opened


@pytest.fixture
def recorder(url: str | None, engine: Engine, tmp_path: Path) -> Iterator[Recorder]:
    assert engine.url  # its tables were dropped
    opened = Recorder(
        lambda: DatabaseWriter(lambda: open_engine(url, tmp_path / "serving.db"), 90),
        loss_of=lambda rows: ("losses", SCRIBE.of_loss(rows)),
    )
    yield opened
    opened.close()


def scored(number: int) -> tuple[str, Mapping[str, float]]:
    """A chunk id with its scores, as a trace has candidates."""
    return passage(number).chunk.chunk_id, passage(number).scores


def passage(number: int) -> Candidate:
    chunk = Chunk(f"p:1:{number}", "p", 1, number, "ENG", "T", ("T",), "a", "u#a", "text", 0, 4, "paragraph")
    return Candidate(chunk, 0.5, {"dense": 0.25, "bm25": 7.0})


def answered(
    scribe: RowBuilder = SCRIBE, total_ms: float = 10.0, status: Any = "answered", flags: Any = ()
) -> dict[str, Any]:
    claim = Claim("It is so.", 1, "It is so.")
    verdicts = [Verdict(claim, "exact", "verbatim", 1, 0, 9), Verdict(claim, "dropped", "no quote")]
    trace = Trace([scored(0), scored(1)], Lock((passage(0),)), verdicts)
    answer = Answer(
        status,
        "It is so.",
        generation="g1",
        generator="extractive",
        usage=Usage(11, 7, 0.5),
        receipt_id="r1",
        timings_ms={"total": total_ms},
        flags=flags,
    )
    return scribe.of_answer(ALICE, "Is it so?", answer, trace)


def count(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(QUESTIONS)).scalar_one())


def test_a_question_is_recorded_with_all_that_its_stages_said(recorder: Recorder, engine: Engine) -> None:
    recorder.record("questions", answered())
    assert recorder.flush()
    (row,) = rows_of_days(engine, QUESTIONS, "acme", (TODAY, TODAY)).to_dict("records")
    assert row["candidates"][0] == {"chunk_id": "p:1:0", "scores": {"dense": 0.25, "bm25": 7.0}}
    assert row["locked"] == ["p:1:0"]
    assert [verdict["outcome"] for verdict in row["verdicts"]] == ["exact", "dropped"]
    assert (row["status"], row["generation"], row["receipt_id"], row["kind"]) == ("answered", "g1", "r1", "ask")
    assert (row["tokens_in"], row["tokens_out"], row["cost"], row["claims"], row["verified"]) == (11, 7, 0.5, 2, 1)


def test_neither_names_nor_questions_are_kept_unless_opted_for(recorder: Recorder, engine: Engine) -> None:
    recorder.record("questions", answered())
    recorder.record("questions", answered(RowBuilder("acme", b"key", store_questions=True)))
    assert recorder.flush()
    silent, open_ = rows_of_days(engine, QUESTIONS, "acme", (TODAY, TODAY)).to_dict("records")
    assert "alice" not in str(silent)
    assert "Is it so?" not in str(silent)
    assert open_["question"] == "Is it so?"
    assert silent["question_hash"] == open_["question_hash"]


def test_a_hash_depends_on_the_installation() -> None:
    other = answered(RowBuilder("acme", b"another key"))
    assert other["user_hash"] != answered()["user_hash"]


def test_other_tenants_and_other_days_are_not_read(recorder: Recorder, engine: Engine) -> None:
    recorder.record("questions", answered(RowBuilder("other", b"key")))
    recorder.record("questions", {**answered(), "day": "2020-01-01"})
    assert recorder.flush()
    assert rows_of_days(engine, QUESTIONS, "acme", (TODAY, TODAY)).empty
    assert len(rows_of_days(engine, QUESTIONS, "acme", (date(2020, 1, 1), date(2020, 1, 1)))) == 1


def test_text_that_no_database_takes_is_mended(recorder: Recorder, engine: Engine) -> None:
    row = SCRIBE.of_feedback(ALICE, "r1", "wrong_citation", 2, "bad \0 text \ud800")
    recorder.record("feedback", row)
    assert recorder.flush()
    (kept,) = rows_of_days(engine, FEEDBACK, "acme", (TODAY, TODAY)).to_dict("records")
    assert kept["comment"] == "bad  text ?"
    assert (kept["verdict"], kept["citation"]) == ("wrong_citation", 2)


def test_a_row_that_is_refused_takes_no_other_with_it(recorder: Recorder, engine: Engine) -> None:
    for row in (answered(), {**answered(), "status": None}, answered()):
        recorder.record("questions", row)
    assert recorder.flush()
    assert count(engine) == 2
    assert (recorder.counts().recorded, recorder.counts().dropped) == (2, 1)
    assert rows_of_days(engine, LOSSES, "acme", (TODAY, TODAY))["rows"].tolist() == [1]


def test_a_row_that_comes_twice_is_there_once(recorder: Recorder, engine: Engine) -> None:
    row = answered()
    recorder.record("questions", row)
    recorder.record("questions", row)
    assert recorder.flush()
    assert count(engine) == 1


def test_a_thousand_rows_a_second_are_recorded(recorder: Recorder, engine: Engine) -> None:
    row, waits = answered(), []
    started = time.perf_counter()
    for number in range(3_000):
        due = started + number / 1_000
        time.sleep(max(0.0, due - time.perf_counter()))
        before = time.perf_counter()
        recorder.record("questions", {**row, "id": f"{number:032}"})
        waits.append(time.perf_counter() - before)
    assert recorder.flush(30)
    assert recorder.counts().recorded == count(engine) == 3_000
    assert sorted(waits)[len(waits) // 2] < 0.001


def test_a_full_queue_drops_and_counts() -> None:
    def away() -> Writer:
        raise TelemetryError("away")

    recorder = Recorder(away, capacity=10)
    for _ in range(25):
        recorder.record("questions", answered())
    counts = recorder.counts()
    assert counts.recorded == 0
    assert counts.dropped >= 5
    assert counts.dropped + counts.waiting == 25
    recorder.close(timeout_s=0.2)
    assert recorder.counts().dropped == 25
    recorder.record("questions", answered())  # after closing: counted, not raised
    assert recorder.counts().dropped == 26


def test_how_many_rows_were_dropped_is_written_when_the_database_is_back(engine: Engine) -> None:
    """The third try to write finds the database; rows that came after the tenth were dropped meanwhile."""
    tries = 0

    class Back(DatabaseWriter):
        def write(self, batch: Sequence[Row]) -> int:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise TelemetryError("away")
            return super().write(batch)

    recorder = Recorder(lambda: Back(lambda: engine, 90), capacity=10, loss_of=lambda n: ("losses", SCRIBE.of_loss(n)))
    for _ in range(25):
        recorder.record("questions", answered())
    assert recorder.flush(20)
    dropped = recorder.counts().dropped
    assert dropped == 25 - count(engine) > 0
    assert rows_of_days(engine, LOSSES, "acme", (TODAY, TODAY))["rows"].sum() == dropped
    recorder.close()


def test_what_was_asked_while_the_database_was_away_is_written_when_it_is_back(postgres: Any, tmp_path: Path) -> None:
    opened = open_engine(postgres.url, tmp_path / "unused.db")
    METADATA.drop_all(opened)
    recorder = Recorder(lambda: DatabaseWriter(lambda: open_engine(postgres.url, tmp_path / "unused.db"), 90))
    recorder.record("questions", answered())
    assert recorder.flush()
    postgres.stop()
    try:
        started = time.perf_counter()
        for _ in range(200):
            recorder.record("questions", answered())
        assert time.perf_counter() - started < 10  # not the seconds that a dead database takes, 200 times
        assert not recorder.flush(0.5)
    finally:
        postgres.start()
    assert recorder.flush(20)
    assert count(opened) == 201
    recorder.close()
    opened.dispose()


def test_a_database_of_an_older_version_gets_the_columns_that_it_lacks(recorder: Recorder, engine: Engine) -> None:
    lacking = ("dense", "lexical", "fused", "features", "refusal")
    METADATA.create_all(engine)
    with engine.begin() as connection:
        for name in lacking:
            connection.execute(text(f"ALTER TABLE questions DROP COLUMN {name}"))
        old = {name: value for name, value in answered().items() if name not in lacking}
        connection.execute(insert(Table("questions", MetaData(), *map(column_of, old))), [old])
    assert faults_of(engine) == []
    (before,) = records(rows_of_days(engine, QUESTIONS, "acme", (TODAY, TODAY)))
    assert [before[name] for name in lacking] == [None] * len(lacking)
    recorder.record("questions", answered())
    assert recorder.flush()
    assert count(engine) == 2
    prepare(engine)


def column_of(name: str) -> Column[Any]:
    return Column(name, QUESTIONS.c[name].type)


def test_what_no_figure_needs_is_not_read(recorder: Recorder, engine: Engine) -> None:
    recorder.record("questions", answered())
    assert recorder.flush()
    chosen = {column.name for column in QUESTIONS.columns} - RANKINGS
    rows = rows_of_days(engine, QUESTIONS, "acme", (TODAY, TODAY), chosen)
    assert set(rows.columns) == chosen
    others = [rows_of_days(engine, table, "acme", (TODAY, TODAY)) for table in (FEEDBACK, LOSSES)]
    assert kpis(rows, *others) == kpis(rows_of_days(engine, QUESTIONS, "acme", (TODAY, TODAY)), *others)


def test_rankings_are_bounded(recorder: Recorder, engine: Engine) -> None:
    many = [(f"12345678:1:{number}", 1 / (number + 1)) for number in range(10_000)]
    trace = Trace(
        [scored(number) for number in range(300)], rankings=dict.fromkeys(("dense", "lexical", "fused"), many)
    )
    recorder.record("questions", SCRIBE.of_answer(ALICE, "Is it so?", Answer("not_found", ""), trace))
    assert recorder.flush()
    (row,) = records(rows_of_days(engine, QUESTIONS, "acme", (TODAY, TODAY)))
    assert row["dense"][:2] == [["12345678:1:0", 1.0], ["12345678:1:1", 0.5]]
    assert [len(row[name]) for name in ("dense", "lexical", "fused", "candidates")] == [100, 100, 100, 20]
    assert len(json.dumps(row)) < 16_000


def test_old_rows_are_forgotten(engine: Engine) -> None:
    METADATA.create_all(engine)
    days = [TODAY - timedelta(days=back) for back in (0, 89, 90, 91, 400)]
    with engine.begin() as connection:
        connection.execute(insert(QUESTIONS), [{**answered(), "day": day.isoformat()} for day in days])
    assert forget(engine, 90) == 2
    assert count(engine) == 3


def test_a_tenants_telemetry_forgets_and_records(url: str | None, engine: Engine, tmp_path: Path) -> None:
    METADATA.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(QUESTIONS), [{**answered(), "day": "2020-01-01"}])
    telemetry = QuestionTelemetry(configuration(tmp_path, telemetry={"url": url, "retention_days": 7}), "acme")
    telemetry.answered(ALICE, "Is it so?", Answer("not_found", ""), Trace())
    telemetry.judged(ALICE, "r1", "missing", None, None)
    telemetry.close()
    assert telemetry.counts().recorded == 2
    assert count(engine) == 1
    assert len(rows_of_days(engine, FEEDBACK, "acme", (TODAY, TODAY))) == 1


def test_the_figures_of_a_day(engine: Engine) -> None:
    METADATA.create_all(engine)
    search = SCRIBE.of_search(
        None, "x", SearchResults((passage(0),), "g1", ("dense_unavailable",), {"total": 4.0}), Trace()
    )
    rows = [answered(total_ms=10), answered(total_ms=30), answered(status="not_found", flags=("x",)), search]
    with engine.begin() as connection:
        connection.execute(insert(QUESTIONS), rows)
        connection.execute(insert(FEEDBACK), [SCRIBE.of_feedback(ALICE, "r1", "helpful")])
        connection.execute(insert(LOSSES), [SCRIBE.of_loss(3), SCRIBE.of_loss(4)])
    found = kpis(*(rows_of_days(engine, table, "acme", (TODAY, TODAY)) for table in (QUESTIONS, FEEDBACK, LOSSES)))
    assert (found.questions, found.searches, found.users) == (3, 1, 1)
    assert found.status == {"answered": 2, "not_found": 1}
    assert found.citation_precision == 0.5
    assert found.not_found_rate == pytest.approx(1 / 3)
    assert found.fallback_rate == 0.5
    assert found.flags == {"dense_unavailable": 1, "x": 1}
    assert found.latency_ms["total"] == {"p50": 10.0, "p95": pytest.approx(27.0)}
    assert found.feedback == {"helpful": 1}
    assert found.dropped == 7


def test_times_of_a_terminal_are_kept_apart(engine: Engine) -> None:
    METADATA.create_all(engine)
    terminal = RowBuilder("acme", b"key", origin="terminal")
    before = {**answered(total_ms=20), "origin": None}  # of an older version
    rows = [answered(total_ms=10), before, answered(terminal, total_ms=3000)]
    with engine.begin() as connection:
        connection.execute(insert(QUESTIONS), rows)
    found = kpis(*(rows_of_days(engine, table, "acme", (TODAY, TODAY)) for table in (QUESTIONS, FEEDBACK, LOSSES)))
    assert (found.questions, found.status) == (3, {"answered": 3})
    assert found.latency_ms["total"] == {"p50": 15.0, "p95": pytest.approx(19.5)}
    assert found.terminal_latency_ms["total"]["p95"] == 3000
    titles = [table.title for table in telemetry_report("acme", "today", Day(found)).tables]
    assert titles[:2] == ["Time of each stage", "Time of each stage in a terminal, which opens model and pages first"]


def test_a_day_without_questions_has_no_shares(engine: Engine) -> None:
    found = kpis(*(rows_of_days(engine, table, "acme", (TODAY, TODAY)) for table in (QUESTIONS, FEEDBACK, LOSSES)))
    assert (found.questions, found.citation_precision, found.not_found_rate, found.fallback_rate) == (
        0,
        None,
        None,
        None,
    )


@pytest.mark.parametrize("wrong", ["nonsense", "redishdb://x/y"])
def test_a_url_that_is_none_is_named(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(TelemetryError, match="no database URL"):
        open_engine(wrong, tmp_path / "serving.db")


def test_a_database_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    engine = open_engine("postgresql://nobody@127.0.0.1:1/none", tmp_path / "serving.db")
    with pytest.raises(TelemetryError, match="cannot be read"):
        rows_of_days(engine, QUESTIONS, "acme", (TODAY, TODAY))
    engine.dispose()
