"""Rows written without SQLAlchemy are those that SQLAlchemy writes; what does not fit is left to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from rag_serving.access.principals import Principal
from rag_serving.records.answers import Answer
from rag_serving.records.claims import Usage
from rag_serving.telemetry.events import RowBuilder, Trace
from rag_serving.telemetry.recorder import Row, TelemetryError
from rag_serving.telemetry.tables import METADATA, QUESTIONS, open_engine
from rag_serving.telemetry.telemetry import SqliteWriter
from rag_serving.telemetry.writer import DatabaseWriter

SCRIBE = RowBuilder("acme", b"key", store_questions=True)


class Counting(DatabaseWriter):
    """The other writer, which counts the rows that it is handed."""

    handed = 0

    def write(self, batch: Sequence[Row]) -> int:
        self.handed += len(batch)
        return super().write(batch)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    engine = open_engine(None, tmp_path / "serving.db")
    METADATA.create_all(engine)
    engine.dispose()
    return tmp_path / "serving.db"


def opened(path: Path) -> tuple[SqliteWriter, Counting]:
    other = Counting(lambda: open_engine(None, path), 90)
    return SqliteWriter(path, 90, lambda: other), other


def question(text: str = "Größe?") -> dict[str, Any]:
    answer = Answer("answered", "so", flags=("stale",), timings_ms={"total": 1.5}, usage=Usage(3, 4, 0.5))
    return SCRIBE.of_answer(Principal("acme", "ann"), text, answer, Trace())


def rows(path: Path) -> list[dict[str, Any]]:
    engine = open_engine(None, path)
    with engine.connect() as connection:
        found = [dict(row) for row in connection.execute(select(QUESTIONS)).mappings()]
    engine.dispose()
    return found


def test_a_row_is_read_as_it_was_made_and_written_once(path: Path) -> None:
    row, (writer, other) = question(), opened(path)
    assert writer.write([("questions", row), ("losses", SCRIBE.of_loss(2))]) == 2
    assert writer.write([("questions", row)]) == 1
    writer.close()
    assert (rows(path), other.handed) == ([row], 0)


def test_a_new_file_gets_its_tables_from_the_other_writer(tmp_path: Path) -> None:
    path, row = tmp_path / "new" / "serving.db", question()
    writer, other = opened(path)
    assert writer.write([("questions", row)]) == 1
    assert writer.write([("questions", question())]) == 1
    writer.close()
    assert (len(rows(path)), other.handed) == (2, 1)


def test_old_rows_are_left_to_the_one_that_deletes_them(path: Path) -> None:
    old = {**question(), "day": (datetime.now(UTC).date() - timedelta(days=91)).isoformat()}
    writer, other = opened(path)
    writer.write([("questions", old)])
    writer.write([("questions", new := question())])
    writer.close()
    assert (rows(path), other.handed) == ([new], 1)


def test_a_row_that_the_database_refuses_is_refused_alone(path: Path) -> None:
    good, (writer, other) = question(), opened(path)
    assert writer.write([("questions", {**question(), "status": None}), ("questions", good)]) == 1
    writer.close()
    assert (rows(path), other.handed) == ([good], 2)


def test_a_locked_file_is_a_database_that_is_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_serving.telemetry.telemetry._BUSY_S", 0.05)
    writer, _ = opened(path)
    holder = sqlite3.connect(path)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(TelemetryError, match="away"):
        writer.write([("questions", question())])
    holder.rollback()
    holder.close()
    assert writer.write([("questions", question())]) == 1
