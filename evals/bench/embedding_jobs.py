"""Measure how far a large upload delays a small one: `python -m evals.bench.embedding_jobs [--url URL]` prints JSON.

Two tenants share `citelock worker` processes. The small one has its documents embedded alone, then while the queue is
full of the large one's. Each time is that from the first job to the last vector, as a build waits for it.

Belongs here: two tenants, workers, times. Does not belong here: whose turn it is
(`citelock_scale.embedding_jobs.queue`).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from citelock_scale.embedding_jobs.queue import JobQueue
from citelock_scale.embedding_jobs.worker import WorkerRegister
from evals.bench.clients import CITELOCK
from evals.bench.machine import load, machine
from rag_assets.embedding_usage import build_vectors
from rag_serving.artifacts.store import write_json
from rag_serving.config.loading import Config, load_config
from rag_serving.models import open_embedder
from rag_serving.models.protocols import Embedder

LARGE, SMALL = "large", "small"
_WORDS = (
    "berth", "crane", "harbour", "manifest", "tide", "pilot", "tug", "container", "gate", "customs", "lock", "quay",
    "ballast", "anchor", "rope", "winch", "deck", "cargo", "vessel", "night", "shift", "ledger", "reports", "every",
    "before", "after", "within", "loads", "moves", "opens", "closes", "hours", "metres", "tonnes",
)  # fmt: skip
_START_S, _LOOK_S, _LONGEST_PAUSE_S = 120, 0.1, 2.0


class QueueBenchError(Exception):
    """The measurement says nothing; the message says why."""


class _StopError(Exception):
    """The large upload is not waited for any longer."""


class QueuedUpload:
    """The documents of one tenant on their way through the queue: `begun` once the first of them are embedded."""

    def __init__(self, config: Config, embedder: Embedder, tenant: str) -> None:
        self._config, self._embedder, self._tenant = config, embedder, tenant
        self.begun, self._stopped = threading.Event(), threading.Event()

    def expect(self, pages: Sequence[str]) -> None:
        """Take note of nothing: an observer of embedding has to have it."""

    def count(self, computed: Sequence[tuple[str, str]]) -> None:
        """Note that texts are embedded."""
        del computed
        self.begun.set()
        if self._stopped.is_set():
            raise _StopError

    def flush(self) -> None:
        """Write nothing: there are no figures to keep."""

    def seconds(self, documents: Sequence[Sequence[str]]) -> float:
        """Have the texts of documents embedded; return how long that took."""
        texts = [text for document in documents for text in document]
        pages = [f"{self._tenant} {number}" for number, document in enumerate(documents) for _ in document]
        with build_vectors(self._config, self._tenant, self._embedder, self, len) as build:
            began = time.perf_counter()
            build.vectors.embed(self._embedder, texts, pages=pages)
            return time.perf_counter() - began

    @contextmanager
    def going_on(self, documents: Sequence[Sequence[str]]) -> Iterator[None]:
        """Have the texts of documents embedded while the block runs, from before it begins to after its end.

        Raises:
            BenchError: they were all embedded before the block ended.
        """
        ended: list[bool] = []

        def embed() -> None:
            try:
                self.seconds(documents)
                ended.append(True)
            except _StopError:
                pass

        thread = threading.Thread(target=embed)
        thread.start()
        self.begun.wait(_START_S)
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()
        if ended:
            raise QueueBenchError("the large upload ended before the small ones; give it more --large documents")


def documents(name: str, count: int, chosen: argparse.Namespace) -> list[list[str]]:
    """Return documents of made-up passages, none of which is there twice."""
    drawn = random.Random(name)

    def passage(number: int, place: int) -> str:
        return " ".join([name, str(number), str(place), *drawn.choices(_WORDS, k=chosen.words)])

    return [[passage(number, place) for place in range(chosen.texts)] for number in range(count)]


@contextmanager
def workers(file: Path, config: Config, count: int) -> Iterator[None]:
    """Run so many workers while the block runs.

    Raises:
        BenchError: they did not come.
    """
    processes = [subprocess.Popen([*CITELOCK, "worker", "--config", str(file)]) for _ in range(count)]
    queue = JobQueue.of(config)
    try:
        until = time.monotonic() + _START_S
        while len(WorkerRegister(queue).living()) < count:
            if time.monotonic() > until or any(process.poll() is not None for process in processes):
                raise QueueBenchError("the workers did not start")
            time.sleep(_LOOK_S)
        yield
    finally:
        queue.database.close()
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def measure(config: Config, chosen: argparse.Namespace) -> dict[str, Any]:
    """Return how long the small upload takes alone and beside the large one, and how many times as long.

    Raises:
        BenchError: the large upload is too small.
    """
    embedder = open_embedder(config.embedding)

    def small(name: str) -> float:
        time.sleep(random.Random(name).uniform(0, _LONGEST_PAUSE_S))  # it comes at any moment of another's job
        return QueuedUpload(config, embedder, SMALL).seconds(documents(name, chosen.small, chosen))

    small("warm")
    alone = [small(f"alone {number}") for number in range(chosen.rounds)]
    with QueuedUpload(config, embedder, LARGE).going_on(documents(LARGE, chosen.large, chosen)):
        beside = [small(f"beside {number}") for number in range(chosen.rounds)]
    return {
        "alone_s": [round(seconds, 2) for seconds in alone],
        "beside_s": [round(seconds, 2) for seconds in beside],
        "ratio_of_medians": round(statistics.median(beside) / statistics.median(alone), 2),
        "ratio_of_the_slowest": round(max(beside) / statistics.median(alone), 2),
    }


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m evals.bench.embedding_jobs", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--url", help="database of the queue, an empty one; default: a SQLite file")
    parser.add_argument("--large", type=int, default=10_000, help="documents of the large upload")
    parser.add_argument("--small", type=int, default=10, help="documents of the small one")
    parser.add_argument("--texts", type=int, default=6, help="passages of a document")
    parser.add_argument("--words", type=int, default=120, help="words of a passage")
    parser.add_argument("--texts-per-job", type=int, default=64, help="jobs.texts_per_job")
    parser.add_argument("--workers", type=int, default=1, help="processes; the local model takes all cores in each")
    parser.add_argument("--rounds", type=int, default=9, help="small uploads of each kind")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "app.yaml")
        jobs = {"embedding": "workers", "without_workers": "fail", "texts_per_job": chosen.texts_per_job}
        content = {"home": folder, "tenants": {LARGE: {}, SMALL: {}}, "jobs": jobs, "telemetry": {"url": chosen.url}}
        write_json(file, content)
        config = load_config(file)
        with workers(file, config, chosen.workers):
            told = machine()
            found = measure(config, chosen)
    asked = vars(chosen) | {"url": "sqlite" if chosen.url is None else "postgres"}
    print(json.dumps({**asked, **found, "machine": told | {"load_after": load()}}, indent=2))


if __name__ == "__main__":
    main()
