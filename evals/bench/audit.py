"""Measure how many rows a second an audit log takes and verifies: `python -m evals.bench.audit [--url URL] [--rows N]`.

Belongs here: appending by threads that each wait until their row is on disk, and following the chain afterwards.
Does not belong here: the log (`citelock_governance.audit`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from citelock_governance.audit.verification import Verifier
from rag_serving.config.loading import parse_config
from rag_serving.hooks import Event, open_audit


def measure(home: Path, url: str | None, rows: int, threads: int) -> dict[str, Any]:
    """Return rows a second and the time that one caller waits, with rows as questions have them."""
    audit, tenant = {"mode": "required", "store_queries": True}, f"bench{threads}"
    config = parse_config({"home": str(home), "tenants": {tenant: {}}, "audit": audit, "telemetry": {"url": url}})
    log = open_audit(config, tenant)
    assert log is not None
    log.record(Event("question", "user0"))
    waits: list[float] = []

    def append(number: int) -> None:
        for count in range(rows // threads):
            chunks = [f"handbook.{count}:{place}:0" for place in range(8)]
            facts = {"status": "answered", "model": "extractive", "tokens_in": 900, "cost": 0.002, "latency_ms": 12.5}
            event = Event("question", f"user{number}", query="How long are logs kept?", retrieved=chunks, facts=facts)
            begun = time.perf_counter()
            log.record(event)
            waits.append(time.perf_counter() - begun)

    workers = [threading.Thread(target=append, args=(number,)) for number in range(threads)]
    begun, used = time.perf_counter(), time.process_time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    took, used = time.perf_counter() - begun, time.process_time() - used
    log.close()
    begun = time.perf_counter()
    verdict = Verifier(home, url).verify(tenant)
    verifying = time.perf_counter() - begun
    assert verdict.fault is None, verdict.fault
    percentiles = statistics.quantiles(waits, n=20)
    return {
        "database": "sqlite" if url is None else "postgres",
        "threads": threads,
        "rows": len(waits),
        "rows_per_s": round(len(waits) / took),
        "processor_ms_per_row": round(used / len(waits) * 1000, 3),
        "wait_ms": {"p50": round(percentiles[9] * 1000, 2), "p95": round(percentiles[18] * 1000, 2)},
        "verified_per_s": round(verdict.rows / verifying),
    }


def main() -> None:
    """Print figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="database; default: a SQLite file")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 8, 32])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for threads in given.threads:
            home = Path(folder) / str(threads)
            home.mkdir()
            rows = min(given.rows, 2_000 * threads)
            print(json.dumps(measure(home, given.url, rows, threads)), flush=True)


if __name__ == "__main__":
    main()
