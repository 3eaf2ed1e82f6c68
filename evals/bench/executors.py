"""`python -m evals.bench.executors`: the costs and gains of two Celery workers over one process, without models.

300 pages of Confluence and a book are ingested and published by each executor, as Dagster does it: a process for each
run, all sources at once. Vectors are in the tenant's cache before, so that no model takes part. Processor seconds are
those of the runs and of the workers together; workers have been started, and have worked, before they are measured.

Belongs here: the same work by several executors, and its cost. Does not belong here: starting processes (`cluster`),
indexing at size (`indexing`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from evals.bench.cluster import Cluster, Killer, redis_server
from evals.bench.machine import machine

TENANT = "bench"
PAUSE_S = 10.0
"""Seconds between two kills."""
_TICKS = os.sysconf("SC_CLK_TCK")
_SECRET = "only for measuring, on this machine"


@dataclass(frozen=True)
class TimedBuild:
    """The cost of one build, and its result."""

    wall_s: float
    processor_s: float
    generation: str


def configuration(home: Path, data: Path | None, executor: str, **more: Any) -> dict[str, Any]:
    """Return a configuration over real pages, or over the sample if there is no folder of them."""
    usual = {"tenant": TENANT, "readers": "everyone"}
    if data is None:
        sample = Path(__file__).parents[2] / "sample"
        sources = {
            key: {**usual, "kind": "confluence_dump", "path": str(sample / key.upper())} for key in ("eng", "ops")
        }
    else:
        wiki = {"kafka": "cwiki/KAFKA", "flink": "cwiki/FLINK"}
        sources = {key: {**usual, "kind": "confluence_dump", "path": str(data / path)} for key, path in wiki.items()}
        sources["book"] = {**usual, "kind": "markdown_book", "path": str(data / "rust-book")}
    content = {"home": str(home), "tenants": {TENANT: {}}, "sources": sources, "orchestration": {"executor": executor}}
    return {**content, "indexing": {"sentence_vectors": "never"}, **more}


def build(cluster: Cluster, home: Path, tenant: str, sources: Sequence[str]) -> TimedBuild:
    """Ingest all sources of a tenant at once, then publish it, by the executor of the configuration.

    Raises:
        RuntimeError: a run failed.
    """
    cluster.call([sys.executable, "-m", "rag_assets.partitions"])
    before, started = _workers_s(cluster), time.monotonic()
    spent = _run(cluster, "ingest", sources) + _run(cluster, "publish", [tenant])
    seconds = time.monotonic() - started
    generation = (home / "tenants" / tenant / "current").read_text(encoding="utf-8").strip()
    return TimedBuild(seconds, spent + _workers_s(cluster) - before, generation)


def _run(cluster: Cluster, job: str, partitions: Sequence[str]) -> float:
    """Run a job for partitions at once; return the processor seconds of the runs' own processes."""
    processes = {partition: cluster.run(job, partition) for partition in partitions}
    spent = 0.0
    for partition, process in processes.items():
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        spent += usage.ru_utime + usage.ru_stime
        if process.returncode:
            raise RuntimeError(f"{job} of {partition} failed; see {cluster.folder / f'{job}-{partition}.log'}")
    return spent


def _workers_s(cluster: Cluster) -> float:
    """Return the processor seconds of the workers and of their children, those that have ended among them."""
    return sum(_session_s(process.pid) for process in cluster.workers.values())


def _session_s(session: int) -> float:
    """Return the processor seconds of a session: fields 6 and 14 to 17 of /proc/PID/stat, proc(5)."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[3]) == session:
            total += sum(map(int, fields[11:15]))
    return total / _TICKS


class ExecutorBench:
    """Builds of the same pages by several executors in one folder."""

    def __init__(self, folder: Path, data: Path | None, redis: int, postgres: str | None, cache: Path | None) -> None:
        """`cache`: where vectors are kept from one bench to the next."""
        self.folder, self.data = folder, data
        self.home = folder / "home"
        self._redis, self.postgres = redis, postgres
        self.cache = (cache or folder) / "vectors"

    def cluster(self, executor: str) -> Cluster:
        """Return a cluster with this executor for runs."""
        path = self.folder / f"{executor}.yaml"
        content = configuration(self.home, self.data, executor)
        self.sources = sorted(content["sources"])
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        storage = {"storage": {"postgres": {"postgres_url": self.postgres}}} if self.postgres else {}
        return Cluster(self.folder / executor, path, self._redis, storage, {"CITELOCK_SECRET": _SECRET})

    def build(self, cluster: Cluster) -> TimedBuild:
        """Build into an empty home with the vectors of the first build, which keeps them."""
        shutil.rmtree(self.home, ignore_errors=True)
        cache = self.home / "tenants" / TENANT / "cache"
        if self.cache.exists():
            shutil.copytree(self.cache, cache)
        made = build(cluster, self.home, TENANT, self.sources)
        if not self.cache.exists():
            shutil.copytree(cache, self.cache)
        return made


def measure(bench: ExecutorBench, workers: int, repeat: int, kills: int) -> dict[str, Any]:
    """Return the cost of each executor, in turns, the ratios of the medians, and a build with killed workers."""
    alone, celery = bench.cluster("in_process"), bench.cluster("celery")
    first = None if bench.cache.exists() else bench.build(alone)
    taken: dict[str, list[TimedBuild]] = {"in_process": [], "celery": []}
    try:
        for number in range(workers):
            celery.start_worker(f"w{number}")
        celery.wait_for_workers()
        _tell("warm-up", bench.build(celery))
        for _ in range(repeat):
            for name, cluster in (("in_process", alone), ("celery", celery)):
                taken[name].append(bench.build(cluster))
                _tell(name, taken[name][-1])
        killed = killed_build(bench, celery, kills) if kills else None
    finally:
        celery.close()
    ids = {build.generation for builds in taken.values() for build in builds}
    ids |= {made.generation for made in (first, killed) if made}
    return {
        "machine": machine(),
        "workers": workers,
        "storage": "postgres" if bench.postgres else "sqlite",
        "with_models": asdict(first) if first else None,
        "with_kills": {"kills": kills, "wall_s": killed.wall_s, "generation": killed.generation} if killed else None,
        "same_generation": len(ids) == 1,
        "builds": {name: [asdict(build) for build in builds] for name, builds in taken.items()},
        "processor_ratio": _ratio(taken, "processor_s"),
        "wall_ratio": _ratio(taken, "wall_s"),
    }


def killed_build(bench: ExecutorBench, cluster: Cluster, kills: int) -> TimedBuild:
    """Build while workers with a step are killed `kills` times.

    Raises:
        RuntimeError: the build ended first.
    """
    with Killer(cluster, kills, PAUSE_S) as killer:
        made = bench.build(cluster)
    if killer.killed < kills:
        raise RuntimeError(f"the build ended when {killer.killed} of {kills} workers were killed; take more pages")
    print(f"celery, {kills} times killed: {made.wall_s:.1f} s", file=sys.stderr, flush=True)
    return made


def _ratio(taken: dict[str, list[TimedBuild]], name: str) -> float:
    celery, alone = (median(float(getattr(build, name)) for build in taken[key]) for key in ("celery", "in_process"))
    return round(celery / alone, 3)


def _tell(name: str, made: TimedBuild) -> None:
    print(f"{name}: {made.wall_s:.1f} s, {made.processor_s:.1f} processor seconds", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evals.bench.executors", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with cwiki and rust-book; none: the sample")
    parser.add_argument("--workers", type=int, default=2, help="Celery workers, of one process each")
    parser.add_argument("--repeat", type=int, default=3, help="builds by each executor")
    parser.add_argument("--kills", type=int, default=3, help="times that a worker is killed in one more build")
    parser.add_argument("--postgres", help="URL of an empty database for Dagster's storage; none: SQLite")
    parser.add_argument("--cache", type=Path, help="folder that keeps the vectors for the next bench")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="citelock-executors-") as folder, redis_server(Path(folder)) as port:
        data, cache = (path and path.resolve() for path in (options.data, options.cache))
        bench = ExecutorBench(Path(folder), data, port, options.postgres, cache)
        print(json.dumps(measure(bench, options.workers, options.repeat, options.kills), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
