"""Of each reader and answer the last verdict alone is kept, and counted."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rag_serving.access.principals import Principal
from rag_serving.config.sections import Telemetry as Settings
from rag_serving.telemetry.telemetry import Telemetry


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_second_verdict_takes_the_place_of_the_first(tmp_path: Path, rounds: int) -> None:
    database = tmp_path / "serving.db"
    for _ in range(rounds):  # the first one makes the file, the second one finds it
        telemetry = Telemetry(Settings(), tmp_path, database, "acme")
        for user, receipt, verdict in (("ann", "r1", "helpful"), ("bob", "r1", "helpful"), ("ann", "r2", "missing")):
            telemetry.judged(Principal("acme", user), receipt, verdict, None, None)  # type: ignore[arg-type]
        telemetry.judged(Principal("acme", "ann"), "r1", "not_helpful", None, "changed my mind")
        telemetry.close()
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT receipt_id, verdict FROM feedback ORDER BY receipt_id, verdict").fetchall()
    assert rows == [("r1", "helpful"), ("r1", "not_helpful"), ("r2", "missing")]
    (day,) = {telemetry.live._sums.day}
    assert +telemetry.live.sums(day).feedback == {"helpful": 1, "not_helpful": 1, "missing": 1}
