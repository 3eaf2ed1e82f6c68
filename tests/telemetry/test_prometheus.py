"""Metrics for Prometheus: one tenant sees its own, several processes count together, none leaves files behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rag_serving.telemetry.metrics import BUCKETS_S, Metrics, forget_ended
from rag_serving.telemetry.recorder import Counts

USED = {"tokens_in": 900, "tokens_out": 40, "cost": 0.25}
ANSWERED = {"kind": "ask", "status": "answered", "outcome": "told", "claims": 2, "verified": 2, "flags": [], **USED}
ABSENT = {
    **USED,
    "kind": "ask",
    "status": "not_found",
    "outcome": "none",
    "claims": 1,
    "verified": 0,
    "flags": ["stale_generation"],
}


def question(tenant: str, row: dict[str, Any], ms: float) -> dict[str, Any]:
    return {**row, "tenant": tenant, "timings_ms": {"total": ms}}


def series(metrics: Metrics, tenant: str) -> dict[str, float]:
    """The series of a tenant: value by name and labels."""
    lines = metrics.exposition(tenant).decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}


# What is counted


def test_questions_claims_and_times_are_counted() -> None:
    metrics = Metrics()
    for row, ms in ((ANSWERED, 1.0), (ANSWERED, 3.0), (ABSENT, 80_000.0)):
        metrics.add("questions", question("acme", row, ms))
    found = series(metrics, "acme")
    assert found['citelock_questions_total{kind="ask",outcome="told",status="answered",tenant="acme"}'] == 2
    assert found['citelock_questions_total{kind="ask",outcome="none",status="not_found",tenant="acme"}'] == 1
    assert found['citelock_degraded_questions_total{tenant="acme"}'] == 1
    assert found['citelock_claims_total{tenant="acme"}'] == 5
    assert found['citelock_verified_claims_total{tenant="acme"}'] == 4
    assert found['citelock_tokens_total{direction="in",tenant="acme"}'] == 2700
    assert found['citelock_cost_total{tenant="acme"}'] == pytest.approx(0.75)
    total = 'stage="total",tenant="acme"'
    assert found[f"citelock_stage_seconds_count{{{total}}}"] == 3
    assert found[f"citelock_stage_seconds_sum{{{total}}}"] == pytest.approx(80.004)
    upper = [found[f'citelock_stage_seconds_bucket{{le="{float(bound)}",{total}}}'] for bound in BUCKETS_S]
    assert upper == [1, 1, *[2] * (len(BUCKETS_S) - 2)]  # 1 ms, 3 ms, and one that is longer than all
    assert found[f'citelock_stage_seconds_bucket{{le="+Inf",{total}}}'] == 3


def test_phases_and_earlier_answers_are_counted() -> None:
    metrics = Metrics()
    fallen = {**ANSWERED, "flags": ["phase_3_failed", "phase_2_failed"]}
    cached = {**ANSWERED, "flags": ["phase_3_failed", "phase_2_failed", "phase_1_failed", "cached_answer"]}
    for row in (ANSWERED, fallen, cached):
        metrics.add("questions", question("acme", row, 1.0))
    for phase in (3, 2):
        metrics.set_phase("acme", phase)
    metrics.add_change("acme", "down", 2)
    found = series(metrics, "acme")
    assert [found[f'citelock_fall_throughs_total{{phase="{phase}",tenant="acme"}}'] for phase in (3, 2, 1)] == [2, 2, 1]
    assert found['citelock_cached_answers_total{pages="same",tenant="acme"}'] == 1
    assert found['citelock_phase_changes_total{direction="down",phase="2",tenant="acme"}'] == 1
    states = [found[f'citelock_retrieval_phase{{phase="{phase}",tenant="acme"}}'] for phase in (3, 2, 1, 0)]
    assert states == [0, 1, 0, 0]


def test_a_verdict_that_was_replaced_counts_no_more() -> None:
    metrics = Metrics()
    for identifier, verdict in (("a", "helpful"), ("b", "helpful"), ("a", "missing"), ("a", "missing")):
        metrics.add("feedback", {"id": identifier, "tenant": "acme", "verdict": verdict})
    assert series(metrics, "acme") == {
        'citelock_feedback{tenant="acme",verdict="helpful"}': 1,
        'citelock_feedback{tenant="acme",verdict="missing"}': 1,
    }


def test_rows_of_telemetry_are_counted_once_however_often_they_are_looked_at() -> None:
    metrics = Metrics()
    for counts in (Counts(2, 0, 5), Counts(2, 0, 5), Counts(7, 1, 0)):
        metrics.set_rows("acme", counts)
    assert series(metrics, "acme") == {
        'citelock_telemetry_rows_total{fate="recorded",tenant="acme"}': 7,
        'citelock_telemetry_rows_total{fate="dropped",tenant="acme"}': 1,
        'citelock_telemetry_waiting{tenant="acme"}': 0,
    }


@pytest.mark.parametrize("several", [False, True])
def test_a_tenant_sees_no_series_of_another(tmp_path: Path, several: bool) -> None:
    code = EVERYTHING.format(tenant="acme") + EVERYTHING.format(tenant="acme2")
    with process(tmp_path, EVERYTHING.format(tenant="other")):
        text = run(tmp_path if several else None, f"{code}print(m.exposition('acme').decode())")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) > 25
    assert all('tenant="acme"' in line for line in lines)
    assert "other" not in text
    assert "acme2" not in text


# Several processes

SPACE = 65_536
EVERYTHING = """
answered = {{"kind": "ask", "status": "answered", "outcome": "told", "claims": 2, "verified": 2, "flags": []}}
answered |= {{"tokens_in": 900, "tokens_out": 40, "cost": 0.25}}
m.add("questions", {{**answered, "tenant": "{tenant}", "timings_ms": {{"total": 3.0}}}})
m.add("feedback", {{"id": "a", "tenant": "{tenant}", "verdict": "helpful"}})
m.set_breaker("{tenant}", "reranker", "open")
m.set_rows("{tenant}", Counts(1, 0, 4))
m.set_events("{tenant}", 6, 2, 3)
m.set_generation("{tenant}", "older")
m.add_response("{tenant}", 503)
"""
OPENED = """
from pathlib import Path
from rag_serving.telemetry.metrics import Metrics
from rag_serving.telemetry.recorder import Counts
m = Metrics({folder})
"""


def run(folder: Path | None, code: str) -> str:
    """What a process of its own prints, which counts in a folder, or alone."""
    opened = OPENED.format(folder=f"Path({str(folder)!r})" if folder else None)
    return subprocess.run(
        [sys.executable, "-c", opened + code], check=True, capture_output=True, text=True, timeout=60
    ).stdout


@contextmanager
def process(folder: Path, *lines: str) -> Iterator[subprocess.Popen[str]]:
    """A process that counts in a folder and lives until it is killed."""
    opened = OPENED.format(folder=f"Path({str(folder)!r})")
    code = "\n".join([opened, *lines, "print('ready', flush=True)", "input()"])
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        assert running.stdout.readline() == "ready\n"
        try:
            yield running
        finally:
            running.kill()


def told(folder: Path) -> dict[str, float]:
    """What one more process reads, which has counted nothing."""
    lines = run(folder, "print(m.exposition('acme').decode())").splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line and line[0] != "#"}


def test_processes_are_added_up_and_what_a_dead_one_counted_stays(tmp_path: Path) -> None:
    once = EVERYTHING.format(tenant="acme").splitlines()
    with process(tmp_path, *once), process(tmp_path, *once) as second:
        assert sorted(file.stem for file in tmp_path.glob("*.lock")) == ["0", "1"]
        second.kill()
        second.wait()
        forget_ended(tmp_path)
        found = told(tmp_path)
    assert found['citelock_questions_total{kind="ask",outcome="told",status="answered",tenant="acme"}'] == 2
    assert found['citelock_feedback{tenant="acme",verdict="helpful"}'] == 2
    assert found['citelock_telemetry_rows_total{fate="recorded",tenant="acme"}'] == 2
    assert found['citelock_stage_seconds_bucket{le="0.0025",stage="total",tenant="acme"}'] == 0
    assert found['citelock_stage_seconds_bucket{le="0.005",stage="total",tenant="acme"}'] == 2
    assert found['citelock_telemetry_waiting{tenant="acme"}'] == 4
    assert found['citelock_breaker_state{server="reranker",state="open",tenant="acme"}'] == 1
    assert found['citelock_audit_events_total{fate="written",tenant="acme"}'] == 12
    assert found['citelock_audit_events_total{fate="lost",tenant="acme"}'] == 4
    assert found['citelock_audit_waiting{tenant="acme"}'] == 3
    assert found['citelock_generation_state{state="older",tenant="acme"}'] == 1
    assert found['citelock_http_responses_total{code="503",tenant="acme"}'] == 2


def test_processes_that_die_one_after_another_leave_no_more_files_than_one(tmp_path: Path) -> None:
    for _ in range(4):
        with process(tmp_path, *EVERYTHING.format(tenant="acme").splitlines()):
            pass
        files = sorted(file.name for file in tmp_path.iterdir())
    assert files == ["0.lock", "counter_0.db", "gauge_livesum_0.db", "gauge_sum_0.db", "histogram_0.db"]
    found = told(tmp_path)
    assert found['citelock_questions_total{kind="ask",outcome="told",status="answered",tenant="acme"}'] == 4
    assert 'citelock_telemetry_waiting{tenant="acme"}' not in found


def test_the_files_space_is_taken_before_anything_is_counted(tmp_path: Path) -> None:
    """Where a disk is full, the first write to a page of a mapped file would kill the process."""
    run(tmp_path, "")
    files = list(tmp_path.glob("*.db"))
    assert len(files) == 4
    assert all(file.stat().st_blocks * 512 >= file.stat().st_size == SPACE for file in files)


def test_where_there_was_no_space_the_next_process_takes_it(tmp_path: Path) -> None:
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"
    code = f"{limit}\ntry: Metrics(Path({str(tmp_path)!r}))\nexcept OSError as error: print(error.strerror)"
    assert run(None, code) == "File too large\n"
    run(tmp_path, "")
    assert {file.stat().st_size for file in tmp_path.glob("*.db")} == {SPACE}
    run(None, f"Metrics(Path({str(tmp_path)!r}), tenants=3)")  # and another configuration has more of them
    assert {file.stat().st_size for file in tmp_path.glob("*.db")} == {3 * SPACE}


def test_the_files_of_many_tenants_need_not_grow(tmp_path: Path) -> None:
    stages = [(f"tenant{tenant}", f"stage{stage}") for tenant in range(5) for stage in range(15)]
    code = f"m = Metrics(Path({str(tmp_path)!r}), tenants=5)"
    run(None, f"{code}\nfor labels in {stages}: m._of['stage_seconds'].labels(*labels).observe(1)")
    assert {file.stat().st_size for file in tmp_path.glob("*.db")} == {5 * SPACE}


def test_an_environment_that_names_a_folder_does_not_change_where_a_single_process_counts(tmp_path: Path) -> None:
    code = f"import os\nos.environ['PROMETHEUS_MULTIPROC_DIR'] = {str(tmp_path)!r}\n" + OPENED.format(folder=None)
    code += EVERYTHING.format(tenant="acme") + "print(m.exposition('acme').decode())"
    text = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout
    assert 'citelock_questions_total{kind="ask",outcome="told",status="answered",tenant="acme"} 1.0' in text
    assert list(tmp_path.iterdir()) == []
