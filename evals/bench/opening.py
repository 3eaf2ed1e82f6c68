"""`python -m evals.bench.opening`: from a generation on disk to the answer of the first question, in fresh processes.

Belongs here: real text under vectors of chance, no graphs; opening with and without remembered digests; memory.
Does not belong here: what a warm pipeline takes (`speed`), models (`serving`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from evals.bench.built import sentence_table
from evals.bench.real_text import read_sentences
from evals.bench.serving import rss
from evals.evaluation.bench import TENANT
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config, parse_config

_SEED = 20
_CLASSES = frozenset({"everyone"})


def main(arguments: list[str] | None = None) -> int:
    """Build if there is no generation yet, open it in turns, print medians as JSON."""
    options = _options(arguments)
    if options.open:
        print(json.dumps(opened(options.open)))
        return 0
    with tempfile.TemporaryDirectory(prefix="citelock-opening-") as temporary:
        home = options.home or Path(temporary)
        if options.serve:
            print(json.dumps(_served(home, Path(temporary), options), indent=1))
            return 0
        if not Store(home).current(TENANT):
            build(home, options.chunks, options.dimension)
        runs: dict[str, list[dict[str, float]]] = {"cold": [], "warm": []}
        for _ in range(options.rounds):
            for name, found in runs.items():
                if name == "cold":
                    shutil.rmtree(Store(home).cache(TENANT), ignore_errors=True)
                found.append(_in_new_process(home))
        report = {name: _medians(found) for name, found in runs.items()}
    print(json.dumps(report, indent=1))
    return 0


def _served(home: Path, folder: Path, options: Any) -> dict[str, dict[str, float]]:
    """Return how long a server takes to start over the same generation in an object store."""
    from evals.bench.starting import starts, with_variables
    from rag_serving.models import open_embedder

    with with_variables():
        if not Store(home).current(TENANT):
            model = open_embedder(_config(home).embedding)
            build(home, options.chunks, model.dimension, model.name)
        return starts(home, folder, options.rounds)


def build(home: Path, chunks: int, dimension: int, embedder: str = "chance") -> None:
    """Publish a generation of real sentences with a dense index without graphs: opening reads none. `embedder`: the
    pretended model of the vectors."""
    from evals.evaluation.cli.bench import BenchProgress
    from rag_assets.publishing.build import build_generation
    from rag_serving.models import open_tokenizer

    config, store = _config(home), Store(home)
    sentences = read_sentences()
    table, _ = sentence_table(sentences, chunks, open_tokenizer(config.embedding), BenchProgress())
    vectors = np.random.default_rng(_SEED).normal(size=(chunks, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    generation = build_generation(store, TENANT, table, vectors, config, embedder)
    generation.close()
    store.point_current(TENANT, generation.id)
    shutil.rmtree(store.candidate(TENANT))


def opened(home: Path) -> dict[str, float]:
    """Seconds to open, to search both indexes for the first time and again; megabytes."""
    from rag_serving.indexes.current import CurrentGeneration
    from rag_serving.indexes.generation import Generation

    vector = np.random.default_rng(1).normal(size=_dimension(home)).astype(np.float32)
    found = {"rss_before_mb": rss()}
    started = time.perf_counter()
    published = CurrentGeneration(Store(home), TENANT, _config(home))
    with published.acquire() as generation:
        assert isinstance(generation, Generation)  # on disk, as the bench built it
        found["open_s"] = time.perf_counter() - started
        for name in ("first_question_s", "second_question_s"):
            began = time.perf_counter()
            hits = generation.dense(vector, 80, _CLASSES) + generation.lexical("signal transmission", 80, _CLASSES)
            generation.chunks([hit.row for hit in hits], _CLASSES)
            found[name] = time.perf_counter() - began
            found.setdefault("to_first_answer_s", time.perf_counter() - started)
        found |= {"rss_mb": rss(), "rss_without_files_mb": rss("RssAnon")}
    return found


def _dimension(home: Path) -> int:
    store = Store(home)
    manifest = store.generation(TENANT, store.current(TENANT) or "") / "manifest.json"
    return int(json.loads(manifest.read_text())["embedder"]["dimension"])


def _in_new_process(home: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "evals.bench.opening", "--open", str(home)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _medians(found: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(median(one[name] for one in found), 3) for name in found[0]}


def _config(home: Path) -> Config:
    return parse_config({"home": str(home), "tenants": {TENANT: {}}, "indexing": {"dense_search": "exact"}})


def _options(arguments: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m evals.bench.opening", description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=7, help="times each is opened, in turns")
    parser.add_argument("--home", type=Path, help="where the generation is built, and kept for the next time")
    parser.add_argument("--serve", action="store_true", help="start `citelock serve` over a home in an object store")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
