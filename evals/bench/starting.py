"""`python -m evals.bench.opening --serve`: from the start of `citelock serve` to /readyz 200 and to the first answer.

Belongs here: a home in an object store (moto's S3), a replica whose cache is full, processes of their own; wall-clock
time and processor time, since a busy machine makes the first alone say little.
Does not belong here: building the generation, opening it in a process (`opening`).
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import httpx

from citelock_scale.object_home.home import ObjectHome
from citelock_scale.object_home.shared_folder import NOTES
from evals.evaluation.bench import TENANT
from evals.load.services import BUCKET, free_port, object_store
from rag_serving.config.index import ObjectStore

WORKERS = (1, 2)
_CITELOCK = [sys.executable, "-c", "from rag_serving.cli.main import main; main()"]
_VARIABLES = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "CITELOCK_SECRET": "a secret of this measurement",
}
_PATIENCE_S, _PAUSE_S, _SETTLED_S = 300.0, 0.01, 1.0


@contextmanager
def with_variables() -> Iterator[None]:
    """Give this process, and those that it starts, the store's credentials and the installation's secret."""
    before = {name: os.environ.get(name) for name in _VARIABLES}
    os.environ.update(_VARIABLES)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def starts(home: Path, folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Share a home by a store, fill a replica's cache, and start it again and again. Return medians in seconds."""
    shutil.rmtree(home / NOTES, ignore_errors=True)  # of the store of an earlier measurement
    with object_store() as port:
        settings = ObjectStore(url=f"s3://{BUCKET}/starting", endpoint=f"http://127.0.0.1:{port}")
        with ObjectHome(settings, home).writing(f"tenants/{TENANT}"):
            pass
        config = _config(folder, settings)
        _started(config, 1)
        time.sleep(_SETTLED_S)
        found: dict[str, list[dict[str, float]]] = {f"{number} workers": [] for number in WORKERS}
        for _ in range(rounds):
            for number in WORKERS:
                found[f"{number} workers"].append(_started(config, number))
    return {name: {key: round(median(one[key] for one in runs), 3) for key in runs[0]} for name, runs in found.items()}


def _config(folder: Path, settings: ObjectStore) -> Path:
    path = folder / "replica.yaml"
    store = {"cache": str(folder / "replica"), "endpoint": settings.endpoint}
    path.write_text(json.dumps({"home": settings.url, "object_store": store, "tenants": {TENANT: {}}}))
    return path


def _started(config: Path, workers: int) -> dict[str, float]:
    """Start a server, ask it once, and end it."""
    port, used = free_port(), _processor_s()
    url, began = f"http://127.0.0.1:{port}", time.perf_counter()
    command = [*_CITELOCK, "serve", "--config", str(config), "--port", str(port), "--workers", str(workers)]
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
