"""Four versions of Kafka's documentation, against the similarity of every pair.

`python tests/steps/test_duplicates_kafka_docs.py` prints what the docs quote: found, confirmed, and texts per second.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.kafka_docs import FOLDER, RELEASED, kafka_pages

from rag_assets.steps.chunks.chunking import build_chunks
from rag_assets.steps.dedup import (
    effectiveness,
    find_duplicates,
    fingerprints,
    shingles_of,
    signatures,
    words_of,
)
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.config.loading import Config
from rag_serving.models import open_tokenizer

THRESHOLD = 0.92

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/data/kafka-docs is not there")


def kafka_chunks(versions: tuple[str, ...]) -> pa.Table:
    tokenizer = open_tokenizer(Config().embedding)
    tables = []
    for version in versions:
        pages = kafka_pages(version)
        result = build_sections(pages)
        assert not result.failures
        tables.append(build_chunks(result.sections, pages, tokenizer))
    return pa.concat_tables(tables).combine_chunks()


def near_duplicates(chunks: pa.Table) -> NDArray[np.bool_]:
    """Which chunks are like a newer one, by the exact Jaccard similarity of every pair of sets of word triples."""
    from scipy.sparse import csr_matrix

    words = [words_of(text) for text in chunks["text"].to_pylist()]
    triples = [set(zip(w, w[1:], w[2:], strict=False)) if len(w) > 2 else {tuple(w)} for w in words]
    numbers: dict[tuple[str, ...], int] = {}
    columns = [numbers.setdefault(each, len(numbers)) for own in triples for each in own]
    sizes = np.array([len(own) for own in triples])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    matrix = csr_matrix((np.ones(len(columns), np.int32), columns, starts))
    keys = zip(*(chunks[name].to_pylist() for name in ("updated_at", "page_id", "chunk_idx")), strict=True)
    order = sorted((-at.timestamp(), page, index, row) for row, (at, page, index) in enumerate(keys))
    rank = np.empty(len(chunks), np.int64)
    rank[[row for *_, row in order]] = np.arange(len(chunks))
    near = np.zeros(len(chunks), np.bool_)
    for start in range(0, len(chunks), 1000):
        common = (matrix[start : start + 1000] @ matrix.T).tocoo()
        rows, others = common.row + start, common.col
        similarity = common.data / (sizes[rows] + sizes[others] - common.data)
        near[rows[(similarity >= THRESHOLD) & (rank[others] < rank[rows])]] = True
    return near


def confirmed(chunks: pa.Table, found: pa.Table) -> float:
    """The share of drops whose similarity, computed from sets of word triples, reaches the threshold."""
    texts = dict(zip(chunks["chunk_id"].to_pylist(), chunks["text"].to_pylist(), strict=True))
    right = 0
    for row in found.to_pylist():
        one, two = (words_of(texts[row[name]]) for name in ("dropped_id", "kept_id"))
        first, second = (set(zip(w, w[1:], w[2:], strict=False)) if len(w) > 2 else {tuple(w)} for w in (one, two))
        right += len(first & second) / len(first | second) >= THRESHOLD
    return right / len(found)


def test_near_duplicates_of_two_versions_are_dropped_and_every_drop_is_one() -> None:
    chunks = kafka_chunks(("38", "39"))
    found = find_duplicates(chunks, fingerprints(chunks["text"].to_pylist()), THRESHOLD)
    near = near_duplicates(chunks)
    dropped = np.isin(chunks["chunk_id"].to_pylist(), found["dropped_id"].to_pylist())
    assert (dropped & near).sum() / near.sum() >= 0.90
    assert confirmed(chunks, found) >= 0.995


def rate(count: int, started: float) -> str:
    seconds = time.perf_counter() - started
    return f"{count / seconds:>9,.0f}/s  ({seconds:.2f} s)"


def measure() -> None:
    """Print the figures."""
    chunks = kafka_chunks(tuple(RELEASED))
    texts, count = chunks["text"].to_pylist(), len(chunks)
    fingerprints(texts[:10])  # imports
    started = time.perf_counter()
    known = fingerprints(texts)
    print(f"fingerprints, all of it        {rate(count, started)}")
    words = [words_of(text) for text in texts]
    started = time.perf_counter()
    shingles = shingles_of(words)
    print(f"  shingles                     {rate(count, started)}")
    started = time.perf_counter()
    signatures(shingles)
    print(f"  signatures                   {rate(count, started)}")
    started = time.perf_counter()
    found = find_duplicates(chunks, known, THRESHOLD)
    print(f"find_duplicates                {rate(count, started)}")
    near = near_duplicates(chunks)
    dropped = np.isin(chunks["chunk_id"].to_pylist(), found["dropped_id"].to_pylist())
    alike = found["jaccard"].to_numpy() == 1
    print(f"{count} chunks, {near.sum()} near-duplicates, {len(found)} dropped, {alike.sum()} of them identical")
    print(
        f"near-duplicates dropped {(dropped & near).sum() / near.sum():.4f}, confirmed {confirmed(chunks, found):.4f}"
    )
    for effect in effectiveness(chunks, found):
        print(f"{effect.space}: {effect.chunks} chunks, dropped {effect.dropped}")


if __name__ == "__main__":
    measure()
