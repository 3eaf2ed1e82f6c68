"""Each stage on and off: its gain for retrieval and answers, and its cost.

A variant changes one default, or leaves only the stages that it names. Vectors of questions and sentences are computed
once for all variants, those of passages come from the tenant's cache.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evals.evaluation.beir import BeirCollection
from evals.evaluation.bench import DEPTH, Bench, indexed, measured, run_queries, with_column
from evals.evaluation.evaluate import evaluate, rank_pages
from evals.evaluation.gold import GoldSet
from evals.evaluation.measures import Values, of_answers, of_rankings
from evals.evaluation.metrics import paired_p_value
from rag_assets.publishing.build import build_generation
from rag_assets.publishing.passage_vectors import embed_passages
from rag_assets.state.content_cache import SEAL_PURPOSE, VectorCache
from rag_assets.steps.contexts.contextualize import lexical_prefix
from rag_serving.artifacts.secret import Seal
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config
from rag_serving.config.sections import Retrieval
from rag_serving.indexes.catalog import current_generation
from rag_serving.indexes.current import CurrentGeneration
from rag_serving.indexes.generation import Generation
from rag_serving.models import Embedder, open_embedder, open_input_limit
from rag_serving.models.protocols import Progress
from rag_serving.models.reranker_client import open_reranker
from rag_serving.pipeline.tenant import Services
from rag_serving.receipts.store import ReceiptStore
from rag_serving.retrieval.hybrid import Mode
from rag_serving.retrieval.hygiene import KeywordGate
from rag_serving.retrieval.rerank import LexicalReranker
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
    """Hold what differs from the defaults."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # of `retrieval`
    reshape: Reshape = as_built
    mode: Mode = "hybrid"
    stages: tuple[Stage, ...] = ()  # after those that make candidates
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of other sections

    def of(self, config: Config) -> Config:
        """Return the configuration with the variant's changes."""
        sections = {"retrieval": self.settings, **self.sections}
        update = {name: getattr(config, name).model_copy(update=dict(values)) for name, values in sections.items()}
        return config.model_copy(update=update)


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
    Variant("with RM3", sections={"features": {"FEATURE_RM3": True}}),
    Variant("with MMR 0.5", {"mmr_lambda": 0.5}),
    Variant("with MMR 0.8", {"mmr_lambda": 0.8}),
    Variant("with heuristic reranker", stages=(_BY_WORDS,)),
    Variant("with heuristic reranker, no proximity", stages=(_BY_COVERAGE,)),
    Variant("with keyword gate", stages=(_GATE,)),
    Variant("without cosine floor", {"cosine_floor": -1.0}),
    Variant("without spelling", {"spelling": False}),
    Variant("questions in float32", sections={"embedding": {"query_precision": "float32"}}),
    Variant("context: no definitions", reshape=_without_definitions),
    Variant("context: none", reshape=_bare),
    Variant("context: none, no evidence", _NO_EVIDENCE, _bare),
    Variant("context: prefix for both indexes", reshape=_only_prefix),
    Variant("context: field for BM25 alone", reshape=_only_field),
)


class Remembering:
    """An embedder that embeds each query and each text once: variants differ in what comes after."""

    def __init__(self, embedder: Embedder) -> None:
        self.name, self.dimension, self.check = embedder.name, embedder.dimension, embedder.check
        self._embedder = embedder
        self._queries: dict[str, NDArray[np.float32]] = {}
        self._texts: dict[str, NDArray[np.float32]] = {}

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector [dimension] of a query."""
        if text not in self._queries:
            self._queries[text] = self._embedder.embed_query(text)
        return self._queries[text]

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        """Return the vectors [n, dimension] of texts."""
        if missing := [text for text in dict.fromkeys(texts) if text not in self._texts]:
            self._texts.update(zip(missing, self._embedder.embed_documents(missing, progress), strict=True))
        return np.stack([self._texts[text] for text in texts])


def ablate(
    collection: BeirCollection, home: Path, config: Config, variants: tuple[Variant, ...] = VARIANTS
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
                changed = variant.of(config)
                is_other = "embedding" in variant.sections
                asked = replace(index, embedder=open_embedder(changed.embedding) if is_other else remembering)
                run = run_queries(asked, collection, changed, variant.mode, stages=variant.stages)
                bench = Bench(variant.mode, collection, run, index.index_seconds, index.embed_seconds, 0)
                yield variant, measured(bench)


Report = Callable[[str, int, int], None]

_OF_RETRIEVAL = (
    "defaults", "dense only", "lexical only", "fusion: ranks (RRF)", "without best passage of the page",
    "without mean over the page", "with RM3", "with MMR 0.5", "without cosine floor", "without spelling",
    "context: none",
)  # fmt: skip


_BY_WORDS_ALONE = {"FEATURE_HEURISTIC_RERANKER": True, "FEATURE_PROXIMITY": False}
ANSWER_VARIANTS = (
    *(variant for variant in VARIANTS if variant.name in _OF_RETRIEVAL),
    Variant("without the sidecar", sections={"features": {"FEATURE_RERANKER": False}}),
    Variant("with the heuristic reranker", sections={"features": {"FEATURE_HEURISTIC_RERANKER": True}}),
    Variant("with the heuristic reranker, no proximity", sections={"features": _BY_WORDS_ALONE}),
    Variant("without keyword gate", {"min_keyword_overlap": 0}),
    Variant(
        "without hygiene", {"min_keyword_overlap": 0, "cosine_floor": -1.0}, sections={"ingestion": {"drop_labels": []}}
    ),
    Variant("without gates", sections={"gates": {"min_confidence": 0.0, "min_similarity": -1.0, "min_coverage": 0.0}}),
)


def ablate_answers(
    config: Config,
    tenant: str,
    gold: GoldSet,
    report: Report | None = None,
    variants: Sequence[Variant] = ANSWER_VARIANTS,
) -> list[dict[str, Any]]:
    """Return the results of the gold set on the tenant's published generation with every variant: a row each, defaults
    first.

    Columns: `variant`, the mean of every measure, `p` (paired randomization test of `answerability` against the
    defaults), `total_ms_p50`. A variant that changes nothing of this configuration is not measured: its row has
    `variant` and `same_as` ("defaults") alone.

    Raises:
        EvaluationError: a part of the product is down.
        StoreError, ModelError, DenseError, BuildError: as the parts of the product raise them.
    """
    config = config.of_tenant(tenant)
    embedder = Remembering(open_embedder(config.embedding))
    rows: list[dict[str, Any]] = []
    defaults: Values = {}
    for done, variant in enumerate(variants, start=1):
        if defaults and changes_nothing(variant, config, tenant):
            rows.append({"variant": variant.name, "same_as": variants[0].name})
        else:
            with _pipeline(variant, config, tenant, embedder) as pipeline:
                if not defaults:
                    evaluate(pipeline, gold)  # what the model computes once is in no variant's time
                row, answered = _answered(pipeline, gold, defaults)
            rows.append({"variant": variant.name, **row})
            defaults = defaults or answered
        if report:
            report("variants measured", done, len(variants))
    return rows


def _answered(pipeline: Pipeline, gold: GoldSet, defaults: Values) -> tuple[dict[str, Any], Values]:
    """The means of every measure beside the answerability of the `defaults`, and its values by question."""
    evaluation = evaluate(pipeline, gold)
    pages = {each.id: each.pages for each in gold.questions if each.answerable}
    measures = {**of_answers(evaluation.judged), **of_rankings(rank_pages(pipeline, gold), pages)}
    answered = measures["answerability"]
    means = {name: round(fmean(values.values()), 6) for name, values in measures.items()}
    chance = round(paired_p_value([*(defaults or answered).values()], [*answered.values()]), 6)
    return {**means, "p": chance, "total_ms_p50": evaluation.latency_ms.get("total", {}).get("p50")}, answered


def changes_nothing(variant: Variant, config: Config, tenant: str) -> bool:
    """Return whether questions are answered with a variant as they are without it."""
    # Pydantic compares the keys of a section, not its constants.
    is_other = any(getattr(config.retrieval, name) != value for name, value in variant.settings.items())
    if variant.mode != "hybrid" or is_other or _effective(variant.of(config)) != _effective(config):
        return False
    return variant.reshape is as_built or _published_table(config, tenant, variant.reshape)[1]


def _effective(config: Config) -> tuple[Config, bool]:
    """Return the configuration with the switches at rest that nothing reads, whether a sidecar ranks decides about
    others, and whether words count by their distance."""
    features = config.features
    sidecar = features.FEATURE_RERANKER and config.reranker.url is not None
    by_words = features.FEATURE_HEURISTIC_RERANKER and not sidecar
    update = {
        "FEATURE_RERANKER": sidecar,
        "FEATURE_HEURISTIC_RERANKER": by_words,
        "FEATURE_HEURISTIC_FALLBACK": True,  # a fallback's answers are not measured: the evaluation stops
    }
    is_near = features.FEATURE_PROXIMITY or not by_words
    return config.model_copy(update={"features": features.model_copy(update=update)}), is_near


@contextmanager
def _pipeline(variant: Variant, config: Config, tenant: str, embedder: Embedder) -> Iterator[Pipeline]:
    """Yield the tenant's pipeline with a variant; one that reshapes the indexed text has a generation of its own, for
    now."""
    changed = variant.of(config)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="citelock-ablate-")))
        if variant.reshape is not as_built:
            changed = changed.model_copy(update={"home": home})
            store, there = Store(config.home), Store(home)
            table, _ = _published_table(config, tenant, variant.reshape)
            cache = VectorCache(store.cache(tenant), embedder.name, Seal(store.home, SEAL_PURPOSE))
            embedded = embed_passages(cache, embedder, table, open_input_limit(config.embedding))
            local = config.model_copy(
                update={"home": home, "indexing": config.indexing.model_copy(update={"chroma_url": None})}
            )
            made = build_generation(there, tenant, embedded.chunks, embedded.vectors, local, embedder.name)
            made.close()
            there.point_current(tenant, made.id)
        published = CurrentGeneration(Store(changed.home), tenant, changed)
        reranker = open_reranker(changed.features, changed.reranker)
        services = Services(embedder, ReceiptStore(home / "receipts.db"), reranker)
        pipeline = Pipeline(changed, tenant, published, services)
        stack.callback(pipeline.close)
        pipeline.mode = variant.mode
        yield pipeline


def _published_table(config: Config, tenant: str, reshape: Reshape) -> tuple[pa.Table, bool]:
    """Return the published generation's chunks with other text in the indexes, and whether it is the same text."""
    store = Store(config.home)
    published = Generation.open(store, tenant, current_generation(store, tenant), config)
    try:
        table = reshape(published.table)
        return table, bool(table.equals(published.table))
    finally:
        published.close()
