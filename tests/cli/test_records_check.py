"""`citelock doctor` looks at the audit log, the queue of embedding jobs and the collector of traces."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert
from support.command_line import run, write_config
from support.running import served
from support.stand_in_collector import StandInCollector

from rag_serving.artifacts.store import Store
from rag_serving.audit.events import Event
from rag_serving.audit.ledger import Ledger
from rag_serving.config.audit import Audit
from rag_serving.telemetry.job_tables import JOBS, METADATA, WORKERS
from rag_serving.telemetry.tables import create_tables, opened


def finding(folder: Path, name: str, more: str = "") -> tuple[str, str, str]:
    """State, detail and how to mend it of one line."""
    out = run("doctor", "--config", write_config(folder, folder / "home", more), "--json")[1]
    found = {each["name"]: each for each in json.loads(out)}[name]
    return found["state"], found["detail"], found["mend"]


def test_by_default_nothing_is_kept_queued_or_sent(tmp_path: Path) -> None:
    assert finding(tmp_path, "audit") == ("ok", "no audit log is kept: audit.mode is off", "")
    assert finding(tmp_path, "workers")[:2] == ("ok", "builds embed by themselves: jobs.embedding is in_process")
    assert finding(tmp_path, "tracing")[:2] == ("ok", "off: no trace leaves this machine (tracing.endpoint)")


def test_events_that_the_audit_log_lost_are_told(tmp_path: Path) -> None:
    more = "audit: {mode: best_effort}\n"
    assert finding(tmp_path, "audit", more)[1] == "best_effort: the log is made by the first event"
    ledger = Ledger(tmp_path / "home", None, "acme", Audit(mode="best_effort"), lambda text: text)
    long_ago = datetime.now(UTC) - timedelta(days=8)
    ledger.append([Event("audit.lost", details={"events": 100}, at=long_ago), Event("audit.read")])
    assert finding(tmp_path, "audit", more)[:2] == ("ok", "best_effort: 2 rows, 0 events lost in 7 days")
    ledger.append([Event("audit.lost", details={"events": 3}), Event("audit.lost", details={"events": 4})])
    ledger.close()
    state, detail, mend = finding(tmp_path, "audit", more)
    assert (state, detail) == ("warn", "best_effort: 4 rows, 7 events lost in 7 days")
    assert "audit.mode: required" in mend


@pytest.mark.parametrize(("mode", "until"), [("required", "nothing is answered"), ("best_effort", "events wait")])
def test_an_audit_log_whose_database_is_away_fails(tmp_path: Path, mode: str, until: str) -> None:
    more = f"audit: {{mode: {mode}}}\ntelemetry: {{url: 'postgresql://nobody:hidden@127.0.0.1:9/none'}}\n"
    state, detail, mend = finding(tmp_path, "audit", more)
    assert state == "fail"
    assert "cannot be read" in detail
    assert "hidden" not in detail
    assert until in mend


def job(number: int, state: str, age_s: float, tenant: str = "acme") -> dict[str, Any]:
    row = {"id": f"{tenant}{number}", "tenant": tenant, "model": "m", "state": state, "text_keys": [], "tokens": 1}
    return {**row, "created_at": time.time() - age_s, "not_before": 0, "attempts": 0, "fence": 0}


def test_the_queue_its_oldest_job_dead_letters_and_workers_are_told(tmp_path: Path) -> None:
    more = "jobs: {embedding: workers}\n"
    assert finding(tmp_path, "workers", more)[1] == "the queue is made by the first build"
    (tmp_path / "home").mkdir(exist_ok=True)
    with opened(None, Store(tmp_path / "home").serving_db()) as engine:
        create_tables(METADATA, engine)
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
        more = f"tracing: {{endpoint: '{collector.url}', sample_ratio: 0.5}}\n"
        state, detail, _ = finding(tmp_path, "tracing", more)
        assert (state, detail) == ("ok", f"50% of the traces go to {collector.url}/v1/traces, without any text")
        assert (collector.requests, collector.spans()) == (1, [])
        collector.status = 403
        state, detail, mend = finding(tmp_path, "tracing", more)
        refused = f"{collector.url}/v1/traces cannot be reached, or refuses what it is sent"
        assert (state, detail) == ("warn", refused)
        assert "OTEL_EXPORTER_OTLP_HEADERS" in mend
    assert finding(tmp_path, "tracing", more)[:2] == ("warn", refused)
