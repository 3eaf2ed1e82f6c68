"""Two Celery workers over Debian's redis, with Dagster's storage in Postgres."""

from __future__ import annotations

import os
import sys
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


def run_is_under_way(cluster: Cluster, name: str) -> bool:
    """Return whether a worker has begun a step of a run that it was given as a whole."""
    log = (cluster.folder / f"{name}.log").read_bytes()
    return b"Task execute_job[" in log and b"STEP_START" in log.rpartition(b"Task execute_job[")[2]


def told(cluster: Cluster) -> str:
    """Return the last lines that runs, workers and the daemon wrote."""
    return "\n".join(path.read_text(errors="replace")[-3000:] for path in sorted(cluster.folder.glob("*.log")))
