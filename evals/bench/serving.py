"""A fresh process that opens a generation and answers: seconds and resident memory, printed as JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main(home: Path) -> None:
    """Open the published generation under `home`, ask one question, then two hundred."""
    from evals.bench.speed import queries
    from evals.evaluation.bench import TENANT
    from rag_serving.access.principals import Principal
    from rag_serving.artifacts.store import Store
    from rag_serving.ask import Pipeline
    from rag_serving.config.loading import parse_config
    from rag_serving.indexes.generation import Generation

    config = parse_config({"home": str(home), "tenants": {TENANT: {}}})
    found = {"rss_before_mb": rss()}
    started = time.perf_counter()
    store = Store(home)
    Generation.open(store, TENANT, store.current(TENANT) or "", config).close()
    found["open_s"] = time.perf_counter() - started
    started = time.perf_counter()
    Generation.open(store, TENANT, store.current(TENANT) or "", config).close()
    found["open_again_s"] = time.perf_counter() - started
    asked = queries()
    pipeline = Pipeline.open(config, TENANT)
    started = time.perf_counter()
    pipeline.search(Principal(TENANT), asked[0])
    found["first_question_s"] = time.perf_counter() - started
    for query in asked[1:]:
        pipeline.search(Principal(TENANT), query)
    found |= {"rss_mb": rss(), "rss_without_files_mb": rss("RssAnon")}
    pipeline.close()
    print(json.dumps({name: round(value, 3) for name, value in found.items()}))


def rss(part: str = "VmRSS") -> float:
    """Return the resident megabytes of this process: all, or those not backed by files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{part}:"):
            return int(line.split()[1]) / 1024
    return float("nan")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
