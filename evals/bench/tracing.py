"""Measure what traces cost a question: `python -m evals.bench.tracing --config FILE`.

Questions of a gold set are asked of a built tenant, each once without and once with spans, in turn; a collector of this
machine, in a process of its own, takes them.

Belongs here: timing whole questions with and without spans. Does not belong here: other costs (`speed`), whether spans
are right (tests).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from evals.bench.machine import load, machine
from evals.bench.passages.corpora import ROOT
from evals.evaluation.gold import read_gold
from rag_serving.ask import Pipeline
from rag_serving.config.loading import load_config
from rag_serving.config.tracing import Tracing
from rag_serving.tracing import spans
from rag_serving.tracing.exporting import close_tracing, open_tracing
from rag_serving.tracing.spans import span

_GOLD = ROOT / "evals" / "gold" / "sample.yaml"
_SINK = """
import http.server
class Sink(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def measure(pipeline: Pipeline, questions: list[str], rounds: int) -> dict[str, dict[str, float]]:
    """Return p50 and p95 in milliseconds of wall time, and the processor's time of this process, by `off` and `on`: its
    mean, in which sending is, and the mean of the least that each question took, which others on this machine change
    little."""
    from rag_serving.access.principals import Principal

    who = Principal(pipeline.tenant)
    sender = spans._spans
    assert sender is not None
    times: dict[str, list[float]] = {"off": [], "on": []}
    worked: dict[str, list[list[float]]] = {"off": [], "on": []}  # by question and round
    for name in worked:
        worked[name] = [[] for _ in questions]
    for number in range(rounds + 1):
        for place, question in enumerate(questions):
            for name in ("off", "on") if number % 2 else ("on", "off"):
                spans.use(sender if name == "on" else None)
                began, started = time.process_time(), time.perf_counter()
                with span("POST /v1/ask"):
                    pipeline.ask(who, question)
                if number:
                    times[name].append(1000 * (time.perf_counter() - started))
                    worked[name][place].append(1000 * (time.process_time() - began))
    spans.use(sender)
    return {name: _figures(times[name], np.array(worked[name])) for name in times}


def _figures(times: list[float], worked: Any) -> dict[str, float]:
    p50, p95 = np.percentile(times, [50, 95]).round(2).tolist()
    least = float(worked.min(axis=1).mean())
    return {"p50": p50, "p95": p95, "cpu": round(float(worked.mean()), 3), "cpu_least": round(least, 3)}


def off_ns(count: int = 200_000) -> float:
    """Return the nanoseconds that a span takes where none is sent."""
    sender = spans._spans
    spans.use(None)
    started = time.perf_counter_ns()
    for _ in range(count):
        with span("one"):
            pass
    taken = (time.perf_counter_ns() - started) / count
    spans.use(sender)
    return round(taken, 1)


def main(arguments: list[str] | None = None) -> int:
    """Measure as the command line says, and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.tracing", description=__doc__)
    parser.add_argument("--config", type=Path, help="configuration of a built tenant; default config/app.yaml")
    parser.add_argument("--gold", type=Path, default=_GOLD, help="gold set whose questions are asked")
    parser.add_argument("--rounds", type=int, default=3, help="times that each is asked, without and with spans")
    options = parser.parse_args(arguments)
    config = load_config(options.config)
    gold = read_gold(options.gold)
    questions = [each.question for each in gold.questions]
    with subprocess.Popen([sys.executable, "-c", _SINK], stdout=subprocess.PIPE, text=True) as sink:
        assert sink.stdout is not None
        open_tracing(Tracing(endpoint=f"http://127.0.0.1:{sink.stdout.readline().strip()}"), "bench")
        try:
            with closing(Pipeline.open(config, gold.tenant or next(iter(config.tenants)))) as pipeline:
                found = measure(pipeline, questions, options.rounds)
        finally:
            close_tracing()
            sink.terminate()
    shares = {name: round(found["on"][name] / found["off"][name] - 1, 4) for name in ("p50", "p95", "cpu", "cpu_least")}
    report = {"questions": len(questions), "latency_ms": found, "more": shares, "span_off_ns": off_ns(), "load": load()}
    print(json.dumps({"machine": machine(), **report}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
