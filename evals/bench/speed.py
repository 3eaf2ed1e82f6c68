"""The speed of a published generation: one client, eight clients, opening, memory, and the floors beside it.

Everything in one call is measured in turns on the same machine, so that ratios are valid on a shared one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.bench.clients import Rates, memory_mb, over_http, rates
from evals.bench.floors import bm25s_search, exact_search, timed
from evals.bench.indexing import Built
from evals.bench.real_text import DATA
from evals.evaluation.bench import TENANT
from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config, parse_config
from rag_serving.deadline import cores
from rag_serving.indexes.chroma import DenseError
from rag_serving.indexes.generation import Generation
from rag_serving.models import Embedder, open_embedder

QUERIES, WARM, DEPTH = 200, 20, 80
_ASKER = Principal(TENANT)
_EVERYONE = frozenset({"everyone"})


def queries(count: int = QUERIES) -> list[str]:
    """Claims of SciFact and questions of SQuAD in turns: no two alike."""
    lines = (DATA / "scifact" / "queries.jsonl").read_text("utf-8").splitlines()
    claims = [json.loads(line)["text"] for line in lines]
    articles = json.loads((DATA / "squad2" / "dev-8-articles.json").read_text("utf-8"))["data"]
    questions = [qa["question"] for article in articles for part in article["paragraphs"] for qa in part["qas"]]
    mixed = [text for pair in zip(claims, questions, strict=False) for text in pair]
    return list(dict.fromkeys(mixed))[: count + WARM]


def measure(built: Built, k: int = 10) -> dict[str, Any]:
    """Return every figure of a generation, its floors in the same turns."""
    asked, pipeline = queries(), Pipeline.open(built.config, TENANT)
    embedder = open_embedder(built.config.embedding)
    try:
        latency = _latency(pipeline, embedder, built, asked, k)
        throughput = _throughput(pipeline, asked, k)
    finally:
        pipeline.close()
    return {
        "chunks": built.chunks,
        "seconds": {name: round(value, 1) for name, value in built.seconds.items()},
        "bytes": _bytes(built.config),
        "indexing": built.indexing,
        "latency_ms": latency,
        "throughput_per_s": throughput,
        "over_http_per_s": {str(count): over_http(built.config, asked, k, count) for count in sorted({1, cores()})},
        "serving": _serving(built.config),
        "recall_at_80": _recall(built, embedder, asked[:50]),
    }


def _latency(pipeline: Pipeline, embedder: Embedder, built: Built, asked: Sequence[str], k: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {}
    bm25, exact = bm25s_search(built.texts, DEPTH), exact_search(built.vectors, DEPTH)

    for number, query in enumerate(asked):
        started = time.perf_counter()
        found = pipeline.search(_ASKER, query, k)
        elapsed = (time.perf_counter() - started) * 1000
        vector, model = timed(partial(embedder.embed_query, query))
        parts = {"total": elapsed, "without_embedding": elapsed - found.timings_ms["embed"], "floor_model": model}
        parts["floor_exact"] = timed(partial(exact, vector))[1]
        parts["floor_bm25s"] = timed(partial(bm25, query))[1]
        if number >= WARM:
            for name, value in {**parts, **{f"stage_{stage}": ms for stage, ms in found.timings_ms.items()}}.items():
                times.setdefault(name, []).append(value)
    return {
        name: {f"p{part}": round(float(np.percentile(values, part)), 3) for part in (50, 95)}
        for name, values in times.items()
        if name != "stage_total"
    }


def _throughput(pipeline: Pipeline, asked: Sequence[str], k: int) -> Rates:

    def ask(clients: int) -> None:
        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(lambda query: pipeline.search(_ASKER, query, k), asked))

    return rates(ask, len(asked))


def _bytes(config: Config) -> dict[str, int]:
    """Return a generation's size on disk: its folder's files, and Chroma's."""
    store = Store(Path(config.home))
    folder = store.generation(TENANT, store.current(TENANT) or "")
    sizes = {path.relative_to(folder).parts[0]: 0 for path in folder.rglob("*") if path.is_file()}
    for path in folder.rglob("*"):
        if path.is_file():
            sizes[path.relative_to(folder).parts[0]] += path.stat().st_size
    chroma = sum(path.stat().st_size for path in store.chroma(TENANT).rglob("*") if path.is_file())
    return {**sizes, "chroma": chroma}


def _recall(built: Built, embedder: Embedder, asked: Sequence[str]) -> dict[str, float | str]:
    """Share of the `DEPTH` nearest that the serving search, and Chroma alone, find; against float64 products."""
    store = Store(Path(built.config.home))
    generation = Generation.open(store, TENANT, store.current(TENANT) or "", built.config)
    vectors = [embedder.embed_query(query) for query in asked]
    wanted = [_nearest(built.vectors, vector) for vector in vectors]

    def recall(search: Callable[[NDArray[np.float32]], Any]) -> float:
        found = [{hit.row for hit in search(vector)} for vector in vectors]
        return round(float(np.mean([len(a & b) / len(b) for a, b in zip(found, wanted, strict=True)])), 4)

    shares: dict[str, float | str] = {"serving": recall(lambda vector: generation.dense(vector, DEPTH, _EVERYONE))}
    try:
        if not generation.manifest.shards:
            raise DenseError("no graphs are built")
        shares["chroma"] = recall(lambda vector: generation.approximate(vector, DEPTH))
        started = time.perf_counter()
        for vector in vectors:
            generation.approximate(vector, DEPTH)
        shares["chroma_ms"] = round((time.perf_counter() - started) * 1000 / len(vectors), 3)
    except DenseError as error:
        shares["chroma"] = str(error)
    generation.close()
    return shares


def _nearest(vectors: NDArray[np.float32], vector: NDArray[np.float32]) -> set[int]:
    scores = np.concatenate(
        [vectors[start : start + 65_536].astype(np.float64) @ vector for start in range(0, len(vectors), 65_536)]
    )
    return set(np.argpartition(-scores, DEPTH)[:DEPTH].tolist())


def _serving(config: Config) -> dict[str, float]:
    command = [sys.executable, "-m", "evals.bench.speed", str(config.home)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(home: Path) -> None:
    """Open the published generation under `home`, ask one question, then two hundred; print seconds and memory."""
    config = parse_config({"home": str(home), "tenants": {TENANT: {}}})
    found = {"rss_before_mb": memory_mb("self")}
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
    found |= {"rss_mb": memory_mb("self"), "rss_without_files_mb": memory_mb("self", "RssAnon")}
    pipeline.close()
    print(json.dumps({name: round(value, 3) for name, value in found.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
