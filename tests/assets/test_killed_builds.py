"""What a killed build leaves in Dagster: no later one waits for it."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from rag_assets.build.runner import Runner
from rag_assets.progress import LogReporter
from rag_assets.runs import PROCESS, own_mark
from rag_serving.config.loading import Config

POOL = "models"


def mark_of_one_that_ended() -> str:
    """Return the mark of a process that was there and is no more: one of this number that began at another time."""
    host, number, started = own_mark().rsplit(":", 2)
    return f"{host}:{number}:{int(started) - 1}"


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "alive"])
def test_places_in_pools_of_a_killed_build_are_free_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.get() as instance:
        storage = instance.event_log_storage
        storage.set_concurrency_slots(POOL, 1)
        mark = mark_of_one_that_ended() if is_killed else own_mark()
        run = instance.create_run_for_job(_nothing, status=dg.DagsterRunStatus.STARTED, tags={PROCESS: mark})
        assert storage.claim_concurrency_slot(POOL, run.run_id, "embeddings").is_claimed
        Runner(Config(), None, LogReporter(), str(tmp_path), verbose=False).close()
        free = storage.get_concurrency_info(POOL).active_slot_count == 0
        ended = instance.get_run_by_id(run.run_id)
        assert ended
        assert free is is_killed
        assert (ended.status == dg.DagsterRunStatus.FAILURE) is is_killed


@dg.job
def _nothing() -> None:
    """A job without steps."""
