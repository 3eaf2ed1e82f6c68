"""The speed of a published generation: one client, eight clients, opening, memory, and the floors beside it.

Everything in one call is measured in turns on the same machine, so that ratios are valid on a shared one. The floors
are what anybody has in a few lines, without this product. Cormack, Clarke & Büttcher, Reciprocal rank fusion, SIGIR
2009: k = 60.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import bm25s
import numpy as np
import Stemmer
from numpy.typing import NDArray

from evals.bench.clients import Rates, memory_mb, over_http, rates
from evals.bench.corpora import DATA
from evals.bench.indexing import Built
from evals.evaluation.beir import BeirCollection, BeirDocument, Ranking
from evals.evaluation.bench import DEPTH, TENANT, BenchRun
from rag_assets.steps.contexts.contextualize import under_prefixes
from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config, parse_config
from rag_serving.deadline import cores
from rag_serving.indexes.chroma import DenseError
from rag_serving.indexes.generation import Generation
from rag_serving.models import Embedder, open_embedder

RRF_K = 60
Found = TypeVar("Found")
Rows = Sequence[tuple[int, float]]  # with their scores, best first


def floor_texts(documents: Sequence[BeirDocument]) -> list[str]:
    """Return the floors' view of each document: its title above its text."""
    return under_prefixes([document.title for document in documents], [document.text for document in documents])


def exact_search(vectors: NDArray[np.float32], k: int) -> Callable[[NDArray[np.float32]], Rows]:
    """Return a function to the k rows of vectors [n, d] with the largest products with a query's."""
    k = min(k, len(vectors))

    def search(vector: NDArray[np.float32]) -> Rows:
        scores = vectors @ vector
        best = np.argpartition(-scores, k - 1)[:k]
        best = best[np.argsort(-scores[best])]
        return list(zip(best.tolist(), scores[best].tolist(), strict=True))

    return search


def bm25s_search(texts: Sequence[str], k: int) -> Callable[[str], Rows]:
    """Return the k texts that bm25s ranks first, with English stop words and stemmer."""
    stemmer, k = Stemmer.Stemmer("english"), min(k, len(texts))
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)

    def search(query: str) -> Rows:
        tokens = bm25s.tokenize(query, stopwords="en", stemmer=stemmer, show_progress=False)
        rows, scores = index.retrieve(tokens, k=k, show_progress=False)
        return list(zip(rows[0].tolist(), scores[0].tolist(), strict=True))

    return search


def fuse(rankings: Sequence[Rows]) -> Rows:
    """Return every row of the rankings by the sum of 1 / (60 + its ranks)."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, (row, _) in enumerate(ranking, start=1):
            scores[row] = scores.get(row, 0.0) + 1 / (RRF_K + rank)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def run_floors(collection: BeirCollection, vectors: NDArray[np.float32], embedder: Embedder) -> Mapping[str, BenchRun]:
    """Return the floors' rankings of a collection's queries, each query alone; `vectors` are those of `floor_texts`."""
    exact, lexical = exact_search(vectors, DEPTH), bm25s_search(floor_texts(collection.documents), DEPTH)
    names = ("dense", "bm25s", "fused")
    rankings: dict[str, dict[str, Ranking]] = {name: {} for name in names}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for query, text in collection.queries.items():
        vector, model_ms = timed(partial(embedder.embed_query, text))
        nearest, exact_ms = timed(partial(exact, vector))
        matching, lexical_ms = timed(partial(lexical, text))
        fused, fusion_ms = timed(partial(fuse, [nearest, matching]))
        for name, rows in zip(names, (nearest, matching, fused), strict=True):
            rankings[name][query] = _named(rows, collection)
        times["dense"].append((model_ms, exact_ms))
        times["bm25s"].append((0.0, lexical_ms))
        times["fused"].append((model_ms, exact_ms + lexical_ms + fusion_ms))
    return {
        name: BenchRun(rankings[name], [sum(pair) for pair in times[name]], [ms for _, ms in times[name]])
        for name in names
    }


def _named(rows: Rows, collection: BeirCollection) -> Ranking:
    best: dict[str, float] = {}
    for row, score in rows[:DEPTH]:
        document = collection.documents[row]
        best.setdefault(document.page if collection.of_pages else document.id, score)
    return list(best.items())


def timed(call: Callable[[], Found]) -> tuple[Found, float]:
    """Return a call's result, and its milliseconds."""
    started = time.perf_counter()
    result = call()
    return result, (time.perf_counter() - started) * 1000


QUERIES, WARM, NEAREST = 200, 20, 80
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
    command = [sys.executable, "-m", "evals.bench.speed", str(built.config.home)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    found: dict[str, float] = json.loads(done.stdout)
    return {
        "chunks": built.chunks,
        "seconds": {name: round(value, 1) for name, value in built.seconds.items()},
        "bytes": _bytes(built.config),
        "indexing": built.indexing,
        "latency_ms": latency,
        "throughput_per_s": throughput,
        "over_http_per_s": {str(count): over_http(built.config, asked, k, count) for count in sorted({1, cores()})},
        "serving": found,
        "recall_at_80": _recall(built, embedder, asked[:50]),
    }


def _latency(pipeline: Pipeline, embedder: Embedder, built: Built, asked: Sequence[str], k: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {}
    bm25, exact = bm25s_search(built.texts, NEAREST), exact_search(built.vectors, NEAREST)

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
    store = Store(Path(config.home))
    folder = store.generation(TENANT, store.current(TENANT) or "")
    sizes = {path.relative_to(folder).parts[0]: 0 for path in folder.rglob("*") if path.is_file()}
    for path in folder.rglob("*"):
        if path.is_file():
            sizes[path.relative_to(folder).parts[0]] += path.stat().st_size
    chroma = sum(path.stat().st_size for path in store.chroma(TENANT).rglob("*") if path.is_file())
    return {**sizes, "chroma": chroma}


def _recall(built: Built, embedder: Embedder, asked: Sequence[str]) -> dict[str, float | str]:
    """Share of the `NEAREST` nearest that the serving search, and Chroma alone, find; against float64 products."""
    store = Store(Path(built.config.home))
    generation = Generation.open(store, TENANT, store.current(TENANT) or "", built.config)
    vectors = [embedder.embed_query(query) for query in asked]
    wanted = [_nearest(built.vectors, vector) for vector in vectors]

    def recall(search: Callable[[NDArray[np.float32]], Any]) -> float:
        found = [{hit.row for hit in search(vector)} for vector in vectors]
        return round(float(np.mean([len(a & b) / len(b) for a, b in zip(found, wanted, strict=True)])), 4)

    shares: dict[str, float | str] = {"serving": recall(lambda vector: generation.dense(vector, NEAREST, _EVERYONE))}
    try:
        if not generation.manifest.shards:
            raise DenseError("no graphs are built")
        shares["chroma"] = recall(lambda vector: generation.approximate(vector, NEAREST))
        started = time.perf_counter()
        for vector in vectors:
            generation.approximate(vector, NEAREST)
        shares["chroma_ms"] = round((time.perf_counter() - started) * 1000 / len(vectors), 3)
    except DenseError as error:
        shares["chroma"] = str(error)
    generation.close()
    return shares


def _nearest(vectors: NDArray[np.float32], vector: NDArray[np.float32]) -> set[int]:
    scores = np.concatenate(
        [vectors[start : start + 65_536].astype(np.float64) @ vector for start in range(0, len(vectors), 65_536)]
    )
    return set(np.argpartition(-scores, NEAREST)[:NEAREST].tolist())


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
