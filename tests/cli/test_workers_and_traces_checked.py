"""`citelock doctor` looks at the queue of embedding jobs and the collector of traces."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert
from support.command_line import finding
from support.running import served
from support.stand_in_collector import StandInCollector

from rag_serving.artifacts.store import Store
from rag_serving.telemetry.tables import create_tables, opened
from rag_serving.telemetry.usage import JOBS, JOBS_METADATA, WORKERS


def test_by_default_nothing_is_queued_or_sent(tmp_path: Path) -> None:
    assert finding(tmp_path, "workers")[:2] == ("ok", "builds embed by themselves: jobs.embedding is in_process")
    assert finding(tmp_path, "tracing")[:2] == ("ok", "off: no trace leaves this machine (tracing.endpoint)")


def job(number: int, state: str, age_s: float, tenant: str = "acme") -> dict[str, Any]:
    row = {"id": f"{tenant}{number}", "tenant": tenant, "model": "m", "state": state, "text_keys": [], "tokens": 1}
    return {**row, "created_at": time.time() - age_s, "not_before": 0, "attempts": 0, "fence": 0}


def test_the_queue_its_oldest_job_dead_letters_and_workers_are_told(tmp_path: Path) -> None:
    more = "jobs: {embedding: workers}\n"
    assert finding(tmp_path, "workers", more)[1] == "the queue is made by the first build"
    (tmp_path / "home").mkdir(exist_ok=True)
    with opened(None, Store(tmp_path / "home").serving_db()) as engine:
        create_tables(JOBS_METADATA, engine)
        with engine.begin() as connection:
            connection.execute(insert(JOBS), [job(1, "waiting", 7200), job(2, "running", 60), job(3, "done", 90_000)])
        state, detail, mend = finding(tmp_path, "workers", more)
        assert (state, mend) == ("warn", "start `citelock worker`")
        told = "1 waiting, 1 running, 0 dead, the oldest 2 hours old; 0 workers, none has given a sign of life of late"
        assert detail == told
        with engine.begin() as connection:
            worker = {"name": "w", "model": "m", "started_at": 0}
            connection.execute(insert(WORKERS), {**worker, "seen_at": time.time() - 3})
            connection.execute(insert(WORKERS), {**worker, "name": "gone", "seen_at": time.time() - 400})
        state, detail, mend = finding(tmp_path, "workers", more)
        assert state == "ok"
        assert "1 workers, the last sign of life" in detail
        with engine.begin() as connection:
            connection.execute(insert(JOBS), [job(4, "dead", 10)])
        assert finding(tmp_path, "workers", more)[0] == "warn"
        assert "jobs retry" in finding(tmp_path, "workers", more)[2]


def test_a_collector_is_asked_for_nothing_but_whether_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hidden")
    with served(StandInCollector()) as collector:
        more = f"tracing: {{endpoint: '{collector.url}'}}\n"
        state, detail, _ = finding(tmp_path, "tracing", more)
        assert (state, detail) == ("ok", f"traces go to {collector.url}/v1/traces, without any text")
        assert (collector.requests, collector.spans()) == (1, [])
        collector.status = 403
        state, detail, mend = finding(tmp_path, "tracing", more)
        refused = f"{collector.url}/v1/traces cannot be reached, or refuses what it is sent"
        assert (state, detail) == ("warn", refused)
        assert "OTEL_EXPORTER_OTLP_HEADERS" in mend
    assert finding(tmp_path, "tracing", more)[:2] == ("warn", refused)
