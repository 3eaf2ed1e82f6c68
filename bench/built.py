"""Sentences as published generations of any size, with vectors made by the product's own model.

Belongs here: which sentences, their vectors, building and publishing. Does not belong here: timing (`speed`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.real_text import Sentence, read_sentences
from rag_serving.config import Config, parse_config
from rag_serving.evaluation.beir import Document
from rag_serving.evaluation.bench import TENANT, Report, chunk_table
from rag_serving.generation import Generation
from rag_serving.indexes.build import build_generation
from rag_serving.models import open_embedder, open_tokenizer
from rag_serving.models.vector_cache import VectorCache
from rag_serving.store import Store

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


def build(home: Path, size: int, cache: Path, report: Report) -> Built:
    """Index and publish `size` chunks under `home`; vectors are kept in `cache`.

    Where there are fewer distinct sentences they are used again: each time with a vector that another sentence's,
    `_NOISE` long, was added to, which keeps the distribution and makes no two equal.
    """
    config = parse_config({"home": str(home), "tenants": {TENANT: {}}})
    sentences, chosen = _choose(read_sentences(), size)
    started = time.perf_counter()
    vectors = _vectors(config, sentences, cache, report)
    embedded = time.perf_counter()
    vectors = _spread(vectors, chosen)
    table, ids = chunk_table(_documents(sentences, chosen), open_tokenizer(config.embedding))
    order = np.array([int(ids[chunk_id]) for chunk_id in table["chunk_id"].to_pylist()])
    keys = pa.array([f"bench:{number}" for number in order], pa.string())
    table = table.set_column(table.column_names.index("vector_key"), "vector_key", keys)
    prepared = time.perf_counter()
    indexing = partial(report, "chunks indexed")
    model = open_embedder(config.embedding).name
    generation = build_generation(Store(home), TENANT, table, vectors[order], config, model, progress=indexing)
    publish(config, generation)
    seconds = {"embed": embedded - started, "index_and_publish": time.perf_counter() - prepared}
    return Built(config, size, table["text"].to_pylist(), vectors[order], seconds)


def publish(config: Config, generation: Generation) -> None:
    """Point the tenant at a generation, as publishing does after its checks."""
    generation.close()
    Store(Path(config.home)).point_current(TENANT, generation.id)


def _choose(sentences: list[Sentence], size: int) -> tuple[list[Sentence], NDArray[np.int64]]:
    """The sentences in an order of chance, only as many as needed, and which of them every chunk is made of."""
    order = np.random.default_rng(_SEED).permutation(len(sentences))[:size]
    return [sentences[number] for number in order], np.arange(size) % len(order)


def _vectors(config: Config, sentences: list[Sentence], cache: Path, report: Report) -> NDArray[np.float32]:
    embedder = open_embedder(config.embedding)
    texts = [sentence.text for sentence in sentences]
    return VectorCache(cache, embedder.name).embed(embedder, texts, partial(report, "sentences embedded")).vectors


def _spread(vectors: NDArray[np.float32], chosen: NDArray[np.int64]) -> NDArray[np.float32]:
    spread = vectors[chosen]
    again = np.arange(len(chosen)) >= len(vectors)
    others = np.random.default_rng(_SEED).integers(0, len(vectors), int(again.sum()))
    spread[again] += np.float32(_NOISE) * vectors[others]
    spread /= np.linalg.norm(spread, axis=1, keepdims=True)
    return spread


def _documents(sentences: list[Sentence], chosen: NDArray[np.int64]) -> list[Document]:
    """A chunk each; pages are the documents that the sentences stand in, and are repeated with them."""
    documents = []
    for number, place in enumerate(chosen.tolist()):
        sentence, copy = sentences[place], number // len(sentences)
        page = f"{sentence.document}.{copy}" if copy else sentence.document
        title = sentence.document.rpartition(".")[2]
        documents.append(Document(str(number), title, sentence.passage, page, sentence.number))
    return documents
