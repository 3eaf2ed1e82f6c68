"""Two Celery workers over Debian's redis, with Dagster's storage in Postgres."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evals.bench.cluster import Cluster, redis_server

WORKERS = ("first", "second")
LOST_AFTER_S = 1.0


@contextmanager
def started_redis(folder: Path) -> Iterator[int]:
    """Yield the port of a redis; skips where it is not installed, and fails in CI."""
    try:
        with redis_server(folder) as port:
            yield port
    except FileNotFoundError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


@contextmanager
def started_cluster(folder: Path, config: Path, database: str, **instance: object) -> Iterator[Cluster]:
    """Yield a cluster whose workers are ready; `database`: the URL of an empty one; `instance`: of `dagster.yaml`."""
    with started_redis(folder) as redis:
        storage = {"storage": {"postgres": {"postgres_url": database}}, **instance}
        cluster = Cluster(folder / "dagster", config, redis, storage)
        try:
            for name in WORKERS:
                cluster.start_worker(name)
            cluster.call([sys.executable, "-m", "rag_assets.partitions"])
            cluster.wait_for_workers()
            yield cluster
        finally:
            cluster.close()


def run_and_kill(cluster: Cluster, runs: dict[str, str], kills: int) -> int:
    """Run jobs, by partition, one after the other; kill a worker that has a step, and start it again, some times.

    Return how often one was killed.
    """
    killed = 0
    for partition, job in runs.items():
        process, seen = cluster.run(job, partition), 0
        while process.poll() is None:
            busy = [name for name in WORKERS if _under_way(cluster, name)] if killed < kills else []
            if busy and seen < _share(kills, len(runs)):
                cluster.kill_worker(busy[0])
                (cluster.folder / f"{busy[0]}.log").write_bytes(b"")
                cluster.start_worker(busy[0])
                killed, seen = killed + 1, seen + 1
            time.sleep(0.05)
        assert process.returncode == 0, told(cluster)
    return killed


def _share(kills: int, runs: int) -> int:
    return -(-kills // runs)


def _under_way(cluster: Cluster, name: str) -> bool:
    """Return whether a worker has begun a step: Dagster logs that from its process."""
    log = (cluster.folder / f"{name}.log").read_bytes()
    return log.count(b" received") > log.count(b" succeeded in ") and b"STEP_START" in log.rpartition(b" received")[2]


def run_is_under_way(cluster: Cluster, name: str) -> bool:
    """Return whether a worker has begun a step of a run that it was given as a whole."""
    log = (cluster.folder / f"{name}.log").read_bytes()
    return b"Task execute_job[" in log and b"STEP_START" in log.rpartition(b"Task execute_job[")[2]


def told(cluster: Cluster) -> str:
    """Return the last lines that runs, workers and the daemon wrote."""
    return "\n".join(path.read_text(errors="replace")[-3000:] for path in sorted(cluster.folder.glob("*.log")))
