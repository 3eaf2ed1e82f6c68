"""Whole runs as tasks of Celery workers: Dagster's daemon has another worker take up a run whose worker is killed.

It takes minutes, and is run where CITELOCK_CLUSTER_KILLS is set.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
import yaml
from support.building import build
from support.celery_cluster import run_is_under_way, started_cluster, told
from support.celery_processes import BIN, Cluster
from support.envelopes import Wiki
from support.postgres import Postgres
from support.waiting import wait_until

from rag_serving.artifacts.store import Store

ROOT = Path(__file__).parents[2]
SHIPPED = yaml.safe_load((ROOT / "deploy" / "dagster" / "celery" / "dagster.yaml").read_text())


def instance_settings() -> dict[str, object]:
    """Return what `deploy/dagster/celery` says of runs, with shorter times."""
    launcher = SHIPPED["run_launcher"]
    launcher = {**launcher, "config": {**launcher["config"], "lost_after_s": 1.0}}
    return {"run_launcher": launcher, "run_monitoring": {**SHIPPED["run_monitoring"], "poll_interval_seconds": 1}}


RESUMED = "Launching a new run worker to resume run"


@contextmanager
def daemon(cluster: Cluster) -> Iterator[None]:
    """Dagster's daemon, which watches runs, while the block goes on."""
    command = [str(BIN / "dagster-daemon"), "run", "--workspace", str(ROOT / "workspace.yaml")]
    with (cluster.folder / "daemon.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=cluster.environment, start_new_session=True)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def launch(cluster: Cluster, job: str, partition: str) -> None:
    tags = json.dumps({"dagster/partition": partition})
    command = ["job", "launch", "--workspace", str(ROOT / "workspace.yaml"), "-j", job, "--tags", tags]
    cluster.call([str(BIN / "dagster"), *command])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not os.environ.get("CITELOCK_CLUSTER_KILLS"), reason="takes minutes: CITELOCK_CLUSTER_KILLS=1")
def test_a_run_whose_worker_is_killed_is_taken_up_by_another(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    wiki = Wiki(tmp_path / "wiki")
    build(wiki)
    alone = Store(wiki.home).current("demo")
    wiki.configure(home=str(tmp_path / "home"))
    database = postgres.database("runs")
    with started_cluster(tmp_path, wiki.config_path, database, **instance_settings()) as cluster, daemon(cluster):
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        with dg.DagsterInstance.from_config(str(cluster.folder)) as instance:

            def ended(job: str, count: int) -> bool:
                runs = instance.get_runs(dg.RunsFilter(job_name=job))
                return len(runs) >= count and all(run.is_finished for run in runs)

            launch(cluster, "ingest", "eng")
            wait_until(lambda: any(run_is_under_way(cluster, name) for name in cluster.workers))
            cluster.kill_worker(next(name for name in cluster.workers if run_is_under_way(cluster, name)))
            launch(cluster, "ingest", "ops")
            wait_until(lambda: ended("ingest", 2), 120)
            launch(cluster, "publish", "demo")  # the daemon's sensor may have done so already
            wait_until(lambda: ended("publish", 1), 120)
            runs = instance.get_runs(dg.RunsFilter(job_name="ingest"))
            assert {run.status for run in runs} == {dg.DagsterRunStatus.SUCCESS}, told(cluster)
            resumed = [run for run in runs if RESUMED in messages(instance, run.run_id)]
            assert [run.tags["dagster/partition"] for run in resumed] == ["eng"]
            wait_until(lambda: Store(tmp_path / "home").current("demo") == alone, 120)


def messages(instance: dg.DagsterInstance, run: str) -> str:
    return "\n".join(entry.message + entry.user_message for entry in instance.all_logs(run))
