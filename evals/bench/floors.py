"""The floors: what anybody has in a few lines, without this product.

Cormack, Clarke & Büttcher, Reciprocal rank fusion, SIGIR 2009: k = 60.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import bm25s
import numpy as np
import Stemmer
from numpy.typing import NDArray

from evals.evaluation.beir import BeirCollection, BeirDocument, Ranking
from evals.evaluation.bench import DEPTH, BenchRun
from rag_assets.steps.contexts.contextualize import under_prefixes
from rag_serving.models import Embedder

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
