"""Each stage of retrieval on and off: what it brings, and what it costs.

Belongs here: the variants, and a test collection measured with each. Does not belong here: the measurement (`bench`),
the stages.

A variant changes one thing of the defaults, or leaves only what it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evals.evaluation.beir import Collection
from evals.evaluation.bench import DEPTH, Bench, Index, indexed, measured, run_queries, with_column
from rag_assets.steps.contexts.lexical_fields import lexical_prefix
from rag_serving.config.loading import Config
from rag_serving.config.sections import Retrieval
from rag_serving.models import Embedder, open_embedder
from rag_serving.retrieval.hybrid import Mode
from rag_serving.retrieval.hygiene import KeywordGate
from rag_serving.retrieval.lexical_reranker import LexicalReranker
from rag_serving.retrieval.stage import Stage

Reshape = Callable[[pa.Table], pa.Table]

_NO_EVIDENCE = {"page_weight": 0.0, "document_weight": 0.0, "parent_weight": 0.0}


def as_built(table: pa.Table) -> pa.Table:
    """Return the table as it is."""
    return table


def _bare(table: pa.Table) -> pa.Table:
    return _only_field(with_column(table, "lexical_prefix", [""] * len(table)))


def _only_prefix(table: pa.Table) -> pa.Table:
    return with_column(table, "lexical_prefix", table["prefix"].to_pylist())


def _only_field(table: pa.Table) -> pa.Table:
    return with_column(table, "prefix", [""] * len(table))


def _without_definitions(table: pa.Table) -> pa.Table:
    places = zip(table["title"].to_pylist(), table["heading_path"].to_pylist(), strict=True)
    return with_column(table, "lexical_prefix", [lexical_prefix(title, path) for title, path in places])


_BY_WORDS = Stage("lexical_rerank", LexicalReranker())
_BY_COVERAGE = Stage("lexical_rerank", LexicalReranker(proximity=False))
_GATE = Stage("keyword_gate", KeywordGate(Retrieval().min_keyword_overlap, enough=DEPTH))


@dataclass(frozen=True)
class Variant:
    """What differs from the defaults."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # of `retrieval`
    reshape: Reshape = as_built
    mode: Mode = "hybrid"
    rm3: bool = False
    stages: tuple[Stage, ...] = ()  # after those that make candidates
    embedding: Mapping[str, Any] = field(default_factory=dict)  # of `embedding`, for questions


VARIANTS = (
    Variant("defaults"),
    Variant("dense only", mode="dense"),
    Variant("lexical only", mode="lexical"),
    Variant("fusion: ranks (RRF), no evidence", {"fusion": "rrf", **_NO_EVIDENCE}),
    Variant("fusion: 0 to 1, no evidence", {"fusion": "minmax", **_NO_EVIDENCE}),
    Variant("fusion: standard scores, no evidence", _NO_EVIDENCE),
    Variant("fusion: ranks (RRF)", {"fusion": "rrf"}),
    Variant("without best passage of the page", {"page_weight": 0.0}),
    Variant("without mean over the page", {"document_weight": 0.0}),
    Variant("without page above", {"parent_weight": 0.0}),
    Variant("with neighbours", {"neighbour_weight": 0.1}),
    Variant("with RM3", rm3=True),
    Variant("with MMR 0.5", {"mmr_lambda": 0.5}),
    Variant("with MMR 0.8", {"mmr_lambda": 0.8}),
    Variant("with heuristic reranker", stages=(_BY_WORDS,)),
    Variant("with heuristic reranker, no proximity", stages=(_BY_COVERAGE,)),
    Variant("with keyword gate", stages=(_GATE,)),
    Variant("without cosine floor", {"cosine_floor": -1.0}),
    Variant("without spelling", {"spelling": False}),
    Variant("questions in float32", embedding={"query_precision": "float32"}),
    Variant("context: no definitions", reshape=_without_definitions),
    Variant("context: none", reshape=_bare),
    Variant("context: none, no evidence", _NO_EVIDENCE, _bare),
    Variant("context: prefix for both indexes", reshape=_only_prefix),
    Variant("context: field for BM25 alone", reshape=_only_field),
)


class Remembering:
    """An embedder that embeds each query once: variants differ in what comes after."""

    def __init__(self, embedder: Embedder) -> None:
        self.name, self.dimension = embedder.name, embedder.dimension
        self.embed_documents = embedder.embed_documents
        self.check = embedder.check
        self._embedder = embedder
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector [dimension] of a query."""
        if text not in self._vectors:
            self._vectors[text] = self._embedder.embed_query(text)
        return self._vectors[text]


def ablate(
    collection: Collection, home: Path, config: Config, variants: tuple[Variant, ...] = VARIANTS
) -> Iterator[tuple[Variant, Bench]]:
    """Yield the collection measured with each variant; indexes are built under `home`, and used again.

    Raises:
        BenchError, ModelError, StoreError, DenseError, BuildError: as `bench`.
    """
    remembering: Remembering | None = None
    by_index = sorted(variants, key=lambda variant: variant.reshape.__name__)
    for _, group in groupby(by_index, key=lambda variant: variant.reshape.__name__):
        members = list(group)
        with indexed(collection, home, config, reshape=members[0].reshape) as index:
            remembering = remembering or Remembering(index.embedder)
            for variant in members:
                yield variant, _measured(replace(index, embedder=remembering), collection, config, variant)


def _measured(index: Index, collection: Collection, config: Config, variant: Variant) -> Bench:
    update = {
        "retrieval": config.retrieval.model_copy(update=dict(variant.settings)),
        "features": config.features.model_copy(update={"FEATURE_RM3": variant.rm3}),
    }
    if variant.embedding:
        index = replace(index, embedder=open_embedder(config.embedding.model_copy(update=dict(variant.embedding))))
    run = run_queries(index, collection, config.model_copy(update=update), variant.mode, stages=variant.stages)
    return measured(Bench(variant.mode, collection, run, index.index_seconds, index.embed_seconds, 0))
