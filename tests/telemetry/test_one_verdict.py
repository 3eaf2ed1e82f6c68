"""Of each reader and answer the last verdict alone is kept; in SQLite and in Postgres."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from support.wiki import configuration

from rag_serving.access.principals import Principal
from rag_serving.config.loading import Config
from rag_serving.telemetry.events import FeedbackVerdict
from rag_serving.telemetry.telemetry import QuestionTelemetry

Rows = list[tuple[str, str, str | None]]


@pytest.fixture
def config(tmp_path: Path, url: str | None) -> Iterator[Config]:
    """Telemetry in a database of each kind, with no verdict in it."""
    _forget(url)
    yield configuration(tmp_path, telemetry={"url": url})
    _forget(url)


def _forget(url: str | None) -> None:
    if url is None:
        return
    engine = opened(url)
    if sa.inspect(engine).has_table("feedback"):
        with engine.begin() as connection:
            connection.execute(sa.text("DELETE FROM feedback"))
    engine.dispose()


def opened(url: str) -> sa.Engine:
    return sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))


def verdicts(url: str | None, home: Path) -> Rows:
    query = "SELECT receipt_id, verdict, comment FROM feedback ORDER BY receipt_id, verdict"
    if url is None:
        with closing(sqlite3.connect(home / "serving.db")) as connection:
            return [tuple(row) for row in connection.execute(query)]
    engine = opened(url)
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(sa.text(query))]
    engine.dispose()
    return found


def judge(
    telemetry: QuestionTelemetry, user: str, receipt: str, verdict: FeedbackVerdict, comment: str | None = None
) -> None:
    telemetry.judged(Principal("acme", user), receipt, verdict, None, comment)


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_second_verdict_takes_the_place_of_the_first(
    tmp_path: Path, config: Config, url: str | None, rounds: int
) -> None:
    for _ in range(rounds):  # the first one makes the tables, the second one finds them
        telemetry = QuestionTelemetry(config, "acme")
        judge(telemetry, "ann", "r1", "helpful")
        judge(telemetry, "bob", "r1", "helpful")
        judge(telemetry, "ann", "r2", "missing")
        judge(telemetry, "ann", "r1", "not_helpful", "changed my mind")
        telemetry.close()
    assert verdicts(url, tmp_path) == [
        ("r1", "helpful", None),
        ("r1", "not_helpful", "changed my mind"),
        ("r2", "missing", None),
    ]


def test_verdicts_that_processes_write_at_once_leave_one(tmp_path: Path, config: Config, url: str | None) -> None:
    several = [QuestionTelemetry(config, "acme") for _ in range(4)]
    judge(several[0], "bob", "r1", "missing")
    assert several[0].flush(30)  # the tables are there

    def work(telemetry: QuestionTelemetry) -> None:
        for number in range(25):
            judge(telemetry, "ann", "r1", "helpful" if number % 2 else "not_helpful")
        telemetry.flush(30)
        telemetry.close()

    threads = [threading.Thread(target=work, args=(telemetry,)) for telemetry in several]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [telemetry.counts().dropped for telemetry in several] == [0] * 4
    assert [row[1] for row in verdicts(url, tmp_path)] in (["helpful", "missing"], ["missing", "not_helpful"])
