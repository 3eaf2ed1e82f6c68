"""Sentences as published generations of any size, with vectors made by the product's own model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evals.bench.indexing import bench_config, change_pages, index, write_inputs
from evals.bench.real_text import Sentence, read_sentences
from evals.evaluation.beir import BeirDocument
from evals.evaluation.bench import Report, chunk_table, with_column
from rag_assets.publishing.arrange import arranged
from rag_assets.state.content_cache import VectorCache
from rag_serving.config.loading import Config
from rag_serving.models import Tokenizer, open_embedder, open_tokenizer

INPUTS = "inputs"  # under the home: chunks and vectors, kept for a second build
_SEED = 20
_NOISE = 0.35  # length of what is mixed into a vector that is used again


@dataclass(frozen=True)
class Built:
    """A published generation of the bench's tenant, and how long its parts took."""

    config: Config
    chunks: int
    texts: list[str]
    vectors: NDArray[np.float32]
    seconds: dict[str, float]
    indexing: dict[str, float]  # what `indexing.index` measured


def build(home: Path, size: int, cache: Path, report: Report, sentences: Sequence[Sentence] = ()) -> Built:
    """Index and publish `size` chunks under `home`; vectors are stored in `cache`. The sentences are those of the data.

    If there are fewer distinct sentences they are reused: each time with a vector to which another sentence's, `_NOISE`
    long, was added, which preserves the distribution and makes no two equal. The configuration stores no vectors of
    questions: repeated questions are embedded again.
    """
    config = bench_config(home)
    chosen = _choose(sentences or read_sentences(), size)
    embedder = open_embedder(config.embedding)
    started = time.perf_counter()
    texts = [sentence.text for sentence in chosen]
    vectors = VectorCache(cache, embedder.name).embed(embedder, texts, partial(report, "sentences embedded")).vectors
    embedded = time.perf_counter()
    table, order = sentence_table(chosen, size, open_tokenizer(config.embedding), report)
    table, vectors = arranged(table, _spread(vectors, size)[order])  # row by row those of the generation
    write_inputs(home / INPUTS, table, vectors)
    indexed = index(home, home / INPUTS, embedder.name)
    seconds = {"embed": embedded - started, "index_and_publish": indexed["seconds"]}
    return Built(config, size, table["text"].to_pylist(), vectors, seconds, indexed)


def rebuild_changed(built: Built, share: float = 0.01) -> dict[str, float]:
    """Index and publish again with a share of the pages changed; returns the figures."""
    home = Path(built.config.home)
    change_pages(home / INPUTS, share)
    return index(home, home / INPUTS, open_embedder(built.config.embedding).name)


def _choose(sentences: Sequence[Sentence], size: int) -> list[Sentence]:
    """As many as are needed, in an order of chance."""
    return [sentences[number] for number in np.random.default_rng(_SEED).permutation(len(sentences))[:size]]


def _spread(vectors: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """As many vectors as chunks: those of the sentences over and over, after the first pass each with another's."""
    count = len(vectors)
    spread = np.resize(vectors, (size, vectors.shape[1]))
    shifts = np.random.default_rng(_SEED).permutation(np.arange(1, count))
    for number, start in enumerate(range(count, size, count)):
        part = spread[start : start + count]
        part += np.float32(_NOISE) * np.roll(vectors, shifts[number], axis=0)[: len(part)]
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return spread


def sentence_table(
    sentences: Sequence[Sentence], size: int, tokenizer: Tokenizer, report: Report
) -> tuple[pa.Table, NDArray[np.int64]]:
    """Return the chunks, and each one's number: pass by pass over the sentences, because a pass takes a gigabyte to
    make."""
    tables, numbers = [], []
    for start in range(0, size, len(sentences)):
        table, ids = chunk_table(_documents(sentences[: size - start], start), tokenizer)
        order = [int(ids[chunk_id]) for chunk_id in table["chunk_id"].to_pylist()]
        tables.append(with_column(table, "vector_keys", [[f"bench:{number}"] for number in order]))
        numbers += order
        report("chunks made", len(numbers), size)
    return pa.concat_tables(tables), np.array(numbers)


def _documents(sentences: Sequence[Sentence], start: int) -> list[BeirDocument]:
    """Return one chunk per sentence; pages are the sentences' documents, in later passes copies of them."""
    documents = []
    for number, sentence in enumerate(sentences, start):
        page = f"{sentence.document}.{start}" if start else sentence.document
        title = sentence.document.rpartition(".")[2]
        documents.append(BeirDocument(str(number), title, sentence.passage, page, sentence.number))
    return documents
