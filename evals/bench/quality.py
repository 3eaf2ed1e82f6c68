"""How well the product finds what a judged set says it should, beside its two indexes alone and the floors.

Belongs here: one set measured in one run. Does not belong here: the sets (`sets`), formulas (`metrics`), printing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evals.bench.floors import floor_texts, run_floors
from evals.evaluation.beir import Collection
from evals.evaluation.bench import TENANT, Index, Report, Run, indexed, latencies, metrics, run_queries
from rag_assets.state.vector_cache import VectorCache
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import parse_config
from rag_serving.retrieval.hybrid import Mode

MODES: tuple[Mode, ...] = ("dense", "lexical", "hybrid")


def measure(collection: Collection, home: Path, report: Report) -> dict[str, Any]:
    """Metrics and milliseconds by ranking: `dense`, `lexical` and `hybrid` of the product, and `floor_…`.

    The index and all vectors are kept under `home`, and used again.
    """
    config = parse_config({"home": str(home)})
    with indexed(collection, home, config, report) as index:
        runs: dict[str, Run] = {mode: run_queries(index, collection, config, mode, _of(mode, report)) for mode in MODES}
        runs |= {f"floor_{name}": run for name, run in _floors(index, collection, home, report).items()}
    return {
        "queries": len(collection.queries),
        "documents": len(collection.documents),
        "judged": "pages" if collection.of_pages else "documents",
        "rankings": {name: {**metrics(run.rankings, collection), **latencies(run)} for name, run in runs.items()},
    }


def _of(mode: Mode, report: Report) -> Report:
    """Each mode is work of its own, with its own time left."""
    return lambda what, done, total: report(f"{what}, {mode}", done, total)


def _floors(index: Index, collection: Collection, home: Path, report: Report) -> Mapping[str, Run]:
    cache = VectorCache(Store(home).cache(TENANT), index.embedder.name)
    texts = floor_texts(collection.documents)
    embedded = cache.embed(
        index.embedder, texts, lambda done, total, _: report("texts of the floors embedded", done, total)
    )
    return run_floors(collection, embedded.vectors, index.embedder)
