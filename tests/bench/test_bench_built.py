"""Generations of any size from few sentences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evals.bench.corpora import Sentence
from evals.bench.indexing import INPUTS, build, change_pages, index
from evals.evaluation.bench import TENANT
from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.models import open_embedder

WORDS = ("crane", "winch", "buoy", "anchor", "hull")
SENTENCES = [
    Sentence(f"book.{n // 2}", n % 2, f"The {word} is oiled weekly.", f"The {word} is oiled weekly. Then it rests.")
    for n, word in enumerate(WORDS)
]


@pytest.mark.parametrize("size", [12, *(pytest.param(size, marks=pytest.mark.nightly) for size in (3, 5))])
def test_sentences_are_used_again_until_there_are_enough_chunks(tmp_path: Path, size: int) -> None:
    told: list[tuple[str, int, int]] = []
    built = build(tmp_path / "home", size, tmp_path / "cache", lambda *what: told.append(what), SENTENCES)
    assert len(built.texts) == len(built.vectors) == built.chunks == size
    assert len(set(built.texts)) == min(size, len(SENTENCES))
    assert np.linalg.norm(built.vectors, axis=1) == pytest.approx(np.ones(size), abs=1e-6)
    assert len(np.unique(built.vectors.round(6), axis=0)) == size
    assert ("chunks made", size, size) in told


def test_a_chunk_has_the_vector_of_its_own_sentence_and_is_found(tmp_path: Path) -> None:
    built = build(tmp_path / "home", 12, tmp_path / "cache", lambda *_: None, SENTENCES)
    likeness = built.vectors @ built.vectors.T
    same = np.array([[one == other for other in built.texts] for one in built.texts])
    assert likeness[same].min() > 0.85
    pipeline = Pipeline.open(built.config, TENANT)
    try:
        with pipeline.published.acquire() as generation:
            np.testing.assert_allclose(generation.vectors(range(12)), built.vectors, atol=1e-6)
        found = pipeline.search(Principal(TENANT), "oil the winch", 3).results
    finally:
        pipeline.close()
    assert all("winch" in result.chunk.text for result in found[:2])


def test_some_pages_change_and_all_is_indexed_again(tmp_path: Path) -> None:
    built = build(tmp_path / "home", 5, tmp_path / "cache", lambda *_: None, SENTENCES)
    home = tmp_path / "home"
    change_pages(home / INPUTS, 0.5)
    again = index(home, home / INPUTS, open_embedder(built.config.embedding).name)
    assert (again["chunks"], again["ann_recall"]) == (5, 1.0)
    assert again["resident_mb"] >= again["resident_before_checks_mb"] > 0
    pipeline = Pipeline.open(built.config, TENANT)
    try:
        texts = [hit.chunk.text for hit in pipeline.search(Principal(TENANT), "crane", 5).results]
    finally:
        pipeline.close()
    assert any(text.endswith("It was changed.") for text in texts)
