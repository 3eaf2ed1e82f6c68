"""Two Celery workers over Debian's redis, or a broker that is named, with Dagster's storage in Postgres."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.celery_processes import Cluster, redis_server

WORKERS = ("first", "second")
LOST_AFTER_S = 1.0
BROKER = os.environ.get("CITELOCK_CLUSTER_BROKER", "")
"""Another broker than a redis that the test starts, such as amqp://guest:guest@127.0.0.1:5672//."""


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
def started_cluster(
    folder: Path, config: Path, database: str, configs: Mapping[str, Path] | None = None, **instance: object
) -> Iterator[Cluster]:
    """Yield a cluster whose workers are ready.

    `database`: the URL of an empty one; `configs`: of workers with one of their own; `instance`: of `dagster.yaml`.
    """
    with started_redis(folder) as redis:
        storage = {"storage": {"postgres": {"postgres_url": database}}, **instance}
        broker = {"CELERY_BROKER_URL": BROKER} if BROKER else {}
        cluster = Cluster(folder / "dagster", config, redis, storage, broker, configs or {})
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
