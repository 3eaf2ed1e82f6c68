"""What telemetry keeps of an outcome, and what reports make of it: rows of older versions included."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, text
from support.stand_in_chat import MODEL, StandInChat, served
from support.wiki import PASSAGES, configuration, embedder

from evals.reports.telemetry import complaint_cases, outcome_of, telemetry_report, unanswered
from evals.reports.telemetry_days import plots_of, read_day, read_questions
from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.telemetry.tables import QUESTIONS, open_engine, prepare
from rag_serving.telemetry.telemetry import open_telemetry

EVERYONE = Principal("acme", "ann")
ASKED = "How long is a partition leader kept away by the alert of consumer lag?"
LIE = 'Lag is perfectly harmless. "lag is perfectly harmless at all times" [1]'
NEW = ("outcome", "confidence", "threshold", "evidence", "rejected")


def asked(home: Path, wiki_home: Path, *questions: str, **more: object) -> list[dict[str, object]]:
    """The rows of these questions, in a database of their own."""
    url = f"sqlite:///{home / 'telemetry.db'}"
    config = configuration(wiki_home, telemetry={"url": url}, **more)
    with closing(Pipeline.open(config, "acme", embedder(), telemetry=open_telemetry(config, "acme"))) as pipeline:
        for question in questions:
            pipeline.ask(EVERYONE, question)
    engine = open_engine(url, home / "unused.db")
    try:
        with engine.connect() as connection:
            rows = connection.execute(QUESTIONS.select().order_by(QUESTIONS.c.at)).mappings().all()
            return [dict(row) for row in rows]
    finally:
        engine.dispose()


def test_an_outcome_is_recorded_with_what_decided(tmp_path: Path, wiki_home: Path) -> None:
    gates = {"min_confidence": 1.0, "min_closest": 0.0}
    (row,) = asked(tmp_path, wiki_home, ASKED, gates=gates)
    assert (row["status"], row["outcome"], row["threshold"]) == ("answered", "closest", 1.0)
    assert isinstance(row["confidence"], float)
    assert row["refusal"] == {"gate": "confidence", "value": row["confidence"], "threshold": 1.0}
    assert row["evidence"]


def test_candidates_are_recorded_without_the_words_of_their_pages(tmp_path: Path, wiki_home: Path) -> None:
    (row,) = asked(tmp_path, wiki_home, ASKED, gates={"min_confidence": 1.0, "min_closest": 1.0})
    candidates: Any = row["rejected"]
    assert {"chunk_id", "score", "features"} == candidates[0].keys()
    words = {word for passage in PASSAGES for word in passage.text.split() if len(word) > 6 and word.isalpha()}
    kept = json.dumps({name: row[name] for name in NEW})
    assert not [word for word in words if word in kept and word not in candidates[0]["features"]]


def test_claims_that_a_model_withdrew_are_counted_beside_the_closest(tmp_path: Path, wiki_home: Path) -> None:
    with served(StandInChat(lambda _: [LIE])) as server:
        model = {
            "provider": "openai",
            "style": "prose",
            "model": MODEL,
            "base_url": f"{server.url}/v1",
            "max_retries": 0,
        }
        (row,) = asked(tmp_path, wiki_home, "What is consumer lag?", generation=model)
    assert (row["outcome"], row["generator"]) == ("closest", "extractive")
    assert row["claims"] == row["verified"] + 1  # type: ignore[operator]


def test_reports_count_outcomes_and_list_what_was_only_close(tmp_path: Path, wiki_home: Path) -> None:
    gates = {"min_confidence": 1.0, "min_closest": 0.0}
    asked(tmp_path, wiki_home, ASKED, "What is the capital of Mongolia?", gates=gates)
    today = datetime.now(UTC).date()
    engine = open_engine(f"sqlite:///{tmp_path / 'telemetry.db'}", tmp_path / "unused.db")
    try:
        day, questions = read_day(engine, "acme", today), read_questions(engine, "acme", today, 1)
    finally:
        engine.dispose()
    assert day.kpis.outcome == {"closest": 1, "none": 1}
    assert (day.kpis.closest_rate, day.kpis.fallback_rate) == (0.5, 0.0)
    report = telemetry_report("acme", "today", day)
    assert {figure.name: figure.value for figure in report.figures}["closest shown"] == "50.0 %"
    assert "Outcome" in [plot.title for plot in plots_of(day.kpis)]
    assert len(unanswered(questions)) == 2
    assert {row["status"] for row in report.tables[0].rows} == {"closest shown", "not found"}


def test_rows_from_before_outcomes_were_kept_are_told_by_their_status(tmp_path: Path, wiki_home: Path) -> None:
    (row,) = asked(tmp_path, wiki_home, "What is the capital of Mongolia?")
    engine = open_engine(f"sqlite:///{tmp_path / 'telemetry.db'}", tmp_path / "unused.db")
    old = {**row, "id": "old", "status": "answered", **dict.fromkeys(NEW), "receipt_id": "r"}
    with engine.begin() as connection:
        for name in NEW:
            connection.execute(text(f"ALTER TABLE questions DROP COLUMN {name}"))
    prepare(engine)
    with engine.begin() as connection:
        connection.execute(insert(QUESTIONS), [old])
    kpis = read_day(engine, "acme", datetime.now(UTC).date()).kpis
    engine.dispose()
    assert kpis.outcome == {"none": 1, "told": 1}
    assert outcome_of(old) == "told"
    (case,) = complaint_cases([{"receipt_id": "r", "verdict": "missing", "citation": None, "comment": None}], [old])
    assert dict(case.parts)["outcome"] == "told"


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        ({"status": "answered", "outcome": float("nan")}, "told"),
        ({"status": "answered", "outcome": "closest"}, "closest"),
        ({"status": "not_found"}, "none"),
    ],
)
def test_an_outcome_is_read_from_whatever_a_row_has(row: dict[str, object], outcome: str) -> None:
    assert outcome_of(row) == outcome
