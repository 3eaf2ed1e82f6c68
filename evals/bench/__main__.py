"""`python -m evals.bench`: quality on every judged set, speed at every size; JSON and tables."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evals.bench.corpora import DATA, DataError, judged_sets
from evals.bench.indexing import build
from evals.bench.report import load, machine, write_report
from evals.bench.speed import floor_texts, run_floors
from evals.bench.speed import measure as measure_speed
from evals.evaluation.beir import BeirCollection
from evals.evaluation.bench import TENANT, BenchRun, Report, indexed, latencies, metrics, run_queries
from evals.evaluation.cli import BenchProgress
from rag_assets.state.content_cache import VectorCache
from rag_serving.artifacts.store import Store, write_json
from rag_serving.config.loading import parse_config
from rag_serving.retrieval.hybrid import Mode

SIZES = (5_183, 100_000)
STOPPED = 130  # the exit code of what Ctrl-C ended


def main(arguments: list[str] | None = None) -> int:
    """Measure and write; the exit code: 0 done, 1 without data, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench", description=__doc__)
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=SIZES, help=f"chunks; default {SIZES}; a million take some 12 GB"
    )
    parser.add_argument("--no-quality", action="store_true", help="speed alone")
    parser.add_argument("--data", type=Path, default=DATA, help="where the judged sets are")
    parser.add_argument("--cache", type=Path, default=Path(".citelock/bench"), help="where vectors are kept")
    parser.add_argument("--docs", type=Path, help="write benchmarks.json and its tables into this folder")
    options = parser.parse_args(arguments)
    results: dict[str, Any] = {"machine": machine(), "quality": {}, "speed": []}
    unfinished, started = options.cache / "unfinished.json", time.monotonic()
    options.cache.mkdir(parents=True, exist_ok=True)
    try:
        for part in _measured(options, results):
            write_json(unfinished, results)
            _tell(f"{part} measured, {time.monotonic() - started:.0f} s so far")
    except DataError as error:
        _tell(str(error))
        return 1
    except KeyboardInterrupt:
        _tell(f"stopped; parts that were measured are in {unfinished}, vectors are kept for the next run")
        return STOPPED
    unfinished.unlink(missing_ok=True)
    results["machine"] |= {"load_after": load(), "seconds": round(time.monotonic() - started)}
    if options.docs:
        write_report(results, options.docs)
    print(json.dumps(results, indent=1))
    return 0


def _measured(options: argparse.Namespace, results: dict[str, Any]) -> Iterator[str]:
    progress = BenchProgress()
    for judged in [] if options.no_quality else judged_sets(options.data):
        results["quality"][judged.name] = measure_quality(judged.read(), options.cache / judged.name, progress)
        yield judged.name
    for size in options.sizes:
        with tempfile.TemporaryDirectory(prefix="citelock-bench-") as home:
            built = build(Path(home), size, options.cache / "sentences", progress)
            results["speed"].append(measure_speed(built))
        yield f"{size:,} chunks"


def _tell(what: str) -> None:
    print(f"bench: {what}", file=sys.stderr, flush=True)


MODES: tuple[Mode, ...] = ("dense", "lexical", "hybrid")


def measure_quality(collection: BeirCollection, home: Path, report: Report) -> dict[str, Any]:
    """Metrics and milliseconds by ranking: `dense`, `lexical` and `hybrid` of the product, and `floor_…`.

    The index and all vectors are kept under `home`, and used again.
    """
    config = parse_config({"home": str(home)})
    with indexed(collection, home, config, report) as index:
        runs: dict[str, BenchRun] = {
            mode: run_queries(index, collection, config, mode, _named(mode, report)) for mode in MODES
        }
        cache = VectorCache(Store(home).cache(TENANT), index.embedder.name)
        texts = floor_texts(collection.documents)
        embedded = cache.embed(
            index.embedder, texts, lambda done, total, _: report("texts of the floors embedded", done, total)
        )
        floors = run_floors(collection, embedded.vectors, index.embedder)
        runs |= {f"floor_{name}": run for name, run in floors.items()}
    return {
        "queries": len(collection.queries),
        "documents": len(collection.documents),
        "judged": "pages" if collection.of_pages else "documents",
        "rankings": {name: {**metrics(run.rankings, collection), **latencies(run)} for name, run in runs.items()},
    }


def _named(mode: Mode, report: Report) -> Report:
    return lambda what, done, total: report(f"{what}, {mode}", done, total)


if __name__ == "__main__":
    sys.exit(main())
