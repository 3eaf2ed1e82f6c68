"""`python -m evals.bench.starting`: from the start of `citelock serve` to /readyz 200 and to the first answer.

A replica over a home in an object store (moto's S3) with a full cache; processes of their own; wall-clock and processor
time, since a busy machine makes the first alone say little.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import httpx
import numpy as np

from citelock_scale.object_home.home import ObjectHome
from citelock_scale.object_home.shared_folder import NOTES
from evals.bench.clients import CITELOCK, free_port
from evals.bench.indexing import sentence_table
from evals.bench.real_text import read_sentences
from evals.evaluation.bench import TENANT
from evals.evaluation.cli.bench import BenchProgress
from evals.load.services import BUCKET, object_store
from rag_assets.publishing.build import build_generation
from rag_serving.artifacts.store import Store
from rag_serving.config.index import ObjectStore
from rag_serving.config.loading import parse_config
from rag_serving.models import open_embedder, open_tokenizer

WORKERS = (1, 2)
_SEED = 20
_VARIABLES = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "CITELOCK_SECRET": "a secret of this measurement",
}
_PATIENCE_S, _PAUSE_S, _SETTLED_S = 300.0, 0.01, 1.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Build if there is no generation yet, start servers over it in turns, print medians as JSON."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.starting", description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7, help="times each number of processes is started, in turns")
    parser.add_argument("--home", type=Path, help="where the generation is built, and kept for the next time")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="citelock-starting-") as temporary, _with_variables():
        home = options.home or Path(temporary)
        if not Store(home).current(TENANT):
            build(home, options.chunks)
        print(json.dumps(starts(home, Path(temporary), options.rounds), indent=1))


@contextmanager
def _with_variables() -> Iterator[None]:
    """Give this process, and those that it starts, the store's credentials and the installation's secret."""
    before = {name: os.environ.get(name) for name in _VARIABLES}
    os.environ.update(_VARIABLES)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def build(home: Path, chunks: int) -> None:
    """Publish a generation of real sentences under vectors of chance, without graphs: opening reads none."""
    config = parse_config({"home": str(home), "tenants": {TENANT: {}}, "indexing": {"dense_search": "exact"}})
    store, model = Store(home), open_embedder(config.embedding)
    table, _ = sentence_table(read_sentences(), chunks, open_tokenizer(config.embedding), BenchProgress())
    vectors = np.random.default_rng(_SEED).normal(size=(chunks, model.dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    generation = build_generation(store, TENANT, table, vectors, config, model.name)
    generation.close()
    store.point_current(TENANT, generation.id)
    shutil.rmtree(store.candidate(TENANT))


def starts(home: Path, folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Share a home by a store, fill a replica's cache, and start it again and again. Return medians in seconds."""
    shutil.rmtree(home / NOTES, ignore_errors=True)  # of the store of an earlier measurement
    found = defaultdict[str, list[dict[str, float]]](list)
    with object_store() as port:
        settings = ObjectStore(url=f"s3://{BUCKET}/starting", endpoint=f"http://127.0.0.1:{port}")
        with ObjectHome(settings, home).writing(f"tenants/{TENANT}"):
            pass
        config = folder / "replica.yaml"
        store = {"cache": str(folder / "replica"), "endpoint": settings.endpoint}
        config.write_text(json.dumps({"home": settings.url, "object_store": store, "tenants": {TENANT: {}}}))
        _started(config, 1)
        time.sleep(_SETTLED_S)
        for number in WORKERS * rounds:
            found[f"{number} workers"].append(_started(config, number))
    return {name: {key: round(median(one[key] for one in runs), 3) for key in runs[0]} for name, runs in found.items()}


def _started(config: Path, workers: int) -> dict[str, float]:
    port, used = free_port(), _processor_s()
    url, began = f"http://127.0.0.1:{port}", time.perf_counter()
    command = [*CITELOCK, "serve", "--config", str(config), "--port", str(port), "--workers", str(workers)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=url, timeout=_PATIENCE_S) as client:
            found = {"listens_s": _until_200(client, "/healthz", process, began)}
            found["ready_s"] = _until_200(client, "/readyz", process, began)
            answer = client.post("/v1/ask", json={"question": "How is a signal transmitted?"}).raise_for_status().json()
            found["first_answer_s"] = time.perf_counter() - began
            if answer["status"] == "unavailable" or "stale_generation" in answer["flags"]:
                raise RuntimeError(f"the replica does not answer from what is published: {answer['flags']}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_PATIENCE_S)
    return {**found, "processor_s": _processor_s() - used}


def _until_200(client: httpx.Client, path: str, process: subprocess.Popen[bytes], began: float) -> float:
    while time.perf_counter() - began < _PATIENCE_S and process.poll() is None:
        with suppress(httpx.TransportError):
            if client.get(path).status_code == 200:
                return time.perf_counter() - began
        time.sleep(_PAUSE_S)
    raise RuntimeError(f"the server did not answer {path} with 200")


def _processor_s() -> float:
    """Return the processor time of all processes that were started here and have ended, of theirs too."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
