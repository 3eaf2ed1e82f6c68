"""The floors against results worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from evals.bench.speed import bm25s_search, exact_search, fuse, run_floors
from evals.evaluation.beir import BeirCollection, BeirDocument
from rag_serving.config.loading import parse_config
from rag_serving.models import open_embedder

TEXTS = ("The crane lifts cargo.", "The operator signs the log book.", "Vessels moor at the second berth.")


def test_the_largest_products_come_first() -> None:
    vectors = np.array([[0.6, 0.8], [1, 0], [0, 1]], np.float32)
    found = exact_search(vectors, 2)(np.array([1, 0], np.float32))
    assert [row for row, _ in found] == [1, 0]
    assert [score for _, score in found] == pytest.approx([1, 0.6])


def test_fewer_rows_than_asked_for_are_all_given() -> None:
    assert len(exact_search(np.eye(2, dtype=np.float32), 5)(np.array([1, 0], np.float32))) == 2
    assert len(bm25s_search(TEXTS, 5)("crane")) == 3


def test_bm25s_stems_words() -> None:
    rows = bm25s_search(TEXTS, 1)("mooring of a vessel")
    assert rows[0][0] == 2


def test_ranks_are_fused_by_the_published_sum() -> None:
    fused = fuse([[(7, 0.9), (8, 0.1)], [(8, 30.0), (9, 20.0)]])
    assert [row for row, _ in fused] == [8, 7, 9]
    assert dict(fused) == pytest.approx({8: 1 / 62 + 1 / 61, 7: 1 / 61, 9: 1 / 62})


@pytest.mark.parametrize("of_pages", [False, True])
def test_every_floor_ranks_every_query_and_times_it(of_pages: bool) -> None:
    documents = tuple(BeirDocument(f"d{n}", "", text, f"p{n // 2}", n) for n, text in enumerate(TEXTS))
    wanted = "p0" if of_pages else "d1"
    collection = BeirCollection(documents, {"q": "Who signs the log?"}, {"q": {wanted: 1}}, of_pages)
    embedder = open_embedder(parse_config({}).embedding)
    runs = run_floors(collection, embedder.embed_documents(TEXTS), embedder)
    assert list(runs) == ["dense", "bm25s", "fused"]
    for run in runs.values():
        names = [name for name, _ in run.rankings["q"]]
        assert names[0] == wanted
        assert len(names) == len(set(names)) == (2 if of_pages else 3)
    assert runs["fused"].total_ms[0] > runs["fused"].search_ms[0] > runs["bm25s"].search_ms[0]
    assert runs["bm25s"].total_ms == runs["bm25s"].search_ms
