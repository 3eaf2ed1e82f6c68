"""`python -m evals.bench.answers`: the speed of a built home's answers: in the process, from a cold start, over HTTP.

On a shared machine processor time is more reliable than wall time: of a cold start, that of its process; over HTTP,
that of the server's processes for each answer. No vector of a question is cached: each is embedded.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from evals.bench.clients import CITELOCK, serving
from evals.bench.report import load, machine
from evals.evaluation.gold import read_gold
from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config, load_config
from rag_serving.telemetry.telemetry import open_telemetry

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def main(arguments: list[str] | None = None) -> int:
    """Measure as the command line says, and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.answers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("config", type=Path, help="configuration of a home that was built")
    parser.add_argument("gold", type=Path, help="gold set whose questions are asked")
    parser.add_argument("--rounds", type=int, default=3, help="times each question is asked in the process")
    parser.add_argument("--starts", type=int, default=20, help="cold starts")
    parser.add_argument("--clients", type=int, default=8, help="clients beside a single one")
    parser.add_argument("--workers", type=int, default=2, help="processes of the server")
    parser.add_argument("--seconds", type=float, default=10, help="of each turn over HTTP")
    options = parser.parse_args(arguments)
    config = load_config(options.config)
    config = config.model_copy(update={"embedding": config.embedding.model_copy(update={"query_cache": 0})})
    questions = [each.question for each in read_gold(options.gold).questions]
    found: dict[str, Any] = {"machine": machine(), "questions": len(questions)}
    found["in_process"] = in_process(config, questions, options.rounds)
    found["cold_start"] = cold_start(config, questions, options.starts)
    with serving(config, options.workers) as port:
        asked = over_http(port, questions, options.seconds)
        asked(2 * options.workers)  # models and threads are there
        found["over_http"] = {f"{count} clients": asked(count) for count in (1, options.clients)}
    found["machine"]["load_after"] = load()
    print(json.dumps(found, indent=1))
    return 0


def in_process(config: Config, questions: Sequence[str], rounds: int) -> dict[str, float]:
    """Return a warm pipeline's time for an answer, telemetry and receipts included."""
    tenant = next(iter(config.tenants))
    pipeline = Pipeline.open(config, tenant, telemetry=open_telemetry(config, tenant))
    taken = []
    for number in range(rounds + 1):
        for question in questions:
            before = time.perf_counter(), time.thread_time()
            pipeline.ask(Principal(tenant), question)
            if number:
                taken.append((time.perf_counter() - before[0], time.thread_time() - before[1]))
    pipeline.close()
    return _figures(taken)


def cold_start(config: Config, questions: Sequence[str], starts: int) -> dict[str, float]:
    """Return the time of `citelock ask` from start to end, with files in the page cache."""
    file = Path(config.home) / "app.yaml"
    file.write_text(json.dumps({"home": str(config.home), "tenants": {name: {} for name in config.tenants}}))
    taken = []
    for number in range(starts + 1):
        before = time.perf_counter(), _of_children()
        command = [*CITELOCK, "ask", questions[number % len(questions)], "--config", str(file)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if number:  # the first one makes what is kept between starts
            taken.append((time.perf_counter() - before[0], _of_children() - before[1]))
    return _figures(taken)


def over_http(port: int, questions: Sequence[str], seconds: float) -> Callable[[int], dict[str, float]]:
    """Return a function that runs so many clients for so long, each one question after the other."""

    def ask(number: int, until: float) -> list[tuple[float, bool]]:
        """Return the milliseconds of each question of one client, and whether it was answered."""
        taken = []
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            while time.monotonic() < until:
                number += 1
                started, is_answered = time.perf_counter(), False
                with suppress(httpx.TransportError):
                    body = {"question": questions[number % len(questions)]}
                    is_answered = client.post("/v1/ask", json=body).status_code == 200
                taken.append(((time.perf_counter() - started) * 1000, is_answered))
        return taken

    def asked(clients: int) -> dict[str, float]:
        before = time.perf_counter(), _of_descendants()
        with ThreadPoolExecutor(clients) as pool:
            until = time.monotonic() + seconds
            turns = [one for of in pool.map(lambda number: ask(number, until), range(clients)) for one in of]
        count = sum(is_answered for _, is_answered in turns)
        taken, used = time.perf_counter() - before[0], _of_descendants() - before[1]
        p50, p95 = np.percentile([ms for ms, _ in turns], (50, 95))
        return {
            "answers_per_s": round(count / taken, 1),
            "p50_ms": round(float(p50), 1),
            "p95_ms": round(float(p95), 1),
            "server_cpu_ms": round(1000 * used / max(1, count), 1),
            "failures": len(turns) - count,
        }

    return asked


def _figures(taken: Sequence[tuple[float, float]]) -> dict[str, float]:
    wall, processor = np.array(taken).T * 1000
    return {
        "p50_ms": round(float(np.percentile(wall, 50)), 1),
        "p95_ms": round(float(np.percentile(wall, 95)), 1),
        "cpu_p50_ms": round(float(np.percentile(processor, 50)), 1),
        "cpu_p95_ms": round(float(np.percentile(processor, 95)), 1),
    }


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _of_descendants(process: int | None = None) -> float:
    folder = Path("/proc") / str(process or os.getpid())
    seconds = 0.0
    for children in folder.glob("task/*/children"):
        seconds += sum(map(_of_descendants, map(int, children.read_text().split())))
    if process:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) * _TICK_S  # utime and stime, proc(5)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
