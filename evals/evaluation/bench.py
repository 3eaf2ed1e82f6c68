"""The quality and speed of the product's own retrieval on a test collection."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa

from evals.evaluation.beir import BeirCollection, BeirDocument, Ranking
from evals.evaluation.metrics import mrr_at_k, ndcg_at_k, percentiles, recall_at_k
from rag_assets.publishing.build import build_generation
from rag_assets.publishing.passage_vectors import embed_passages
from rag_assets.state.content_cache import VectorCache
from rag_assets.steps.contexts.contextualize import lexical_prefixes, metadata_prefix
from rag_serving.access.principals import EVERYONE, Principal
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.indexes.generation import Generation
from rag_serving.models import Embedder, Tokenizer, open_embedder, open_input_limit, open_tokenizer
from rag_serving.models.embedding.factory import Words
from rag_serving.retrieval.hybrid import Mode
from rag_serving.retrieval.search import Search, search_candidates
from rag_serving.retrieval.stage import Stage
from rag_serving.retrieval.stages import SearchOptions
from rag_serving.tracing import StageTrace

TENANT = "bench"
RECALL_AT = (5, 10, 20, 100)
CUTOFF = 10  # of nDCG and MRR
DEPTH = 100
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)

Report = Callable[[str, int, int], None]  # what is done, how much of it, of how much


class BenchError(Exception):
    """The measurement would not be of the product; the message says why."""


@dataclass(frozen=True)
class BenchRun:
    """Rankings by query id, and milliseconds per query: in all, and without embedding the query."""

    rankings: Mapping[str, Ranking]
    total_ms: Sequence[float]
    search_ms: Sequence[float]


@dataclass(frozen=True)
class Bench:
    """The results of a measurement."""

    mode: Mode
    collection: BeirCollection
    run: BenchRun
    index_seconds: float
    embed_seconds: float
    texts_embedded: int
    recall: Mapping[str, float] = field(default_factory=dict)
    ndcg: Mapping[str, float] = field(default_factory=dict)
    mrr: Mapping[str, float] = field(default_factory=dict)

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape of `bench --json`."""
        return {
            "queries": len(self.collection.queries),
            "documents": len(self.collection.documents),
            "mode": self.mode,
            "recall": dict(self.recall),
            "ndcg": dict(self.ndcg),
            "mrr": dict(self.mrr),
            **latencies(self.run),
            "index_seconds": round(self.index_seconds, 3),
            "embed_seconds": round(self.embed_seconds, 3),
            "texts_embedded": self.texts_embedded,
        }


def run_bench(
    collection: BeirCollection, home: Path, config: Config, mode: Mode = "hybrid", report: Report | None = None
) -> Bench:
    """Index a collection under `home` with the product's code, run its queries, measure.

    Anything already under `home` is reused: vectors by their text, shards by their content. The dense index is always
    the embedded one, so that nothing is left on a Chroma server.

    Raises:
        BenchError: an index did not answer a query.
        ModelError, StoreError, DenseError, BuildError: as the parts of the product raise them.
    """
    with indexed(collection, home, config, report) as index:
        run = run_queries(index, collection, config, mode, report)
        bench = Bench(mode, collection, run, index.index_seconds, index.embed_seconds, index.texts_embedded)
    return measured(bench)


@dataclass(frozen=True)
class BenchIndex:
    """A collection indexed: its generation, document ids by chunk id, the model, and what it took."""

    generation: Generation
    ids: Mapping[str, str]
    embedder: Embedder
    index_seconds: float
    embed_seconds: float
    texts_embedded: int


@contextmanager
def indexed(
    collection: BeirCollection,
    home: Path,
    config: Config,
    report: Report | None = None,
    reshape: Callable[[pa.Table], pa.Table] = lambda table: table,
) -> Iterator[BenchIndex]:
    """Yield a collection as a generation under `home`; `reshape` changes its rows of GENERATION_CHUNKS before."""
    config = config.model_copy(update={"indexing": config.indexing.model_copy(update={"chroma_url": None})})
    store = Store(home)
    embedder = open_embedder(config.embedding)
    table, ids = chunk_table(collection.documents, open_tokenizer(config.embedding), config.context.provider != "none")
    chunks = reshape(table)
    started = time.perf_counter()
    cache = VectorCache(store.cache(TENANT), embedder.name)
    limit = open_input_limit(config.embedding)
    embedded = embed_passages(cache, embedder, chunks, limit, _part(report, "texts embedded"))
    embed_seconds = time.perf_counter() - started
    started = time.perf_counter()
    progress = _part(report, "chunks indexed")
    generation = build_generation(
        store, TENANT, embedded.chunks, embedded.vectors, config, embedder.name, progress=progress
    )
    index_seconds = time.perf_counter() - started
    try:
        yield BenchIndex(generation, ids, embedder, index_seconds, embed_seconds, embedded.computed)
    finally:
        generation.close()


def chunk_table(
    documents: Sequence[BeirDocument], tokenizer: Tokenizer, contexts: bool = True
) -> tuple[pa.Table, dict[str, str]]:
    """Return every document as one chunk of GENERATION_CHUNKS that everyone may read, and document ids by chunk id.

    The title is the page's, and part of the prefix as for any page. Documents of one file are chunks of one page, in
    the order of their positions.
    """
    ordered = sorted(documents, key=lambda document: (document.page, document.position))
    counts = [len(offsets) for offsets in tokenizer.offsets([document.text for document in ordered])]
    rows: list[Mapping[str, object]] = []
    ids: dict[str, str] = {}
    page, index = None, 0
    section: tuple[tuple[str, ...], int] = ((), 0)  # headings, and where they begin
    for document, tokens in zip(ordered, counts, strict=True):
        index = index + 1 if document.page == page else 0
        section = section if index and document.headings == section[0] else (document.headings, index)
        page = document.page
        row = _row(document, index, section[1], tokens, contexts)
        ids[str(row["chunk_id"])] = document.id
        rows.append(row)
    table = GENERATION_CHUNKS.table(rows)
    return (with_column(table, "lexical_prefix", lexical_prefixes(table)) if contexts else table), ids


def _row(document: BeirDocument, number: int, section: int, tokens: int, contexts: bool) -> dict[str, Any]:
    """Return a document as a chunk, readable for everyone: the paragraph `number` of its page, `tokens` long; `section`
    is the number of the first one of its section."""
    path = [*([document.title] if document.title else []), *document.headings]
    named = {"title": document.title, "heading_path": path, "parent_id": document.parent, "text": document.text}
    place = {"page_id": document.page, "version": 1, "chunk_idx": number, "start": 0, "end": len(document.text)}
    empty = ("anchor", "url", "context_before", "context_after", "text_hash", "structure", "lexical_prefix", "shard")
    return {
        **dict.fromkeys(empty, ""),
        **named,
        **place,
        "chunk_id": f"{document.page}:1:{number}",
        "section_id": f"{document.page}:1:s{section}",
        "space": TENANT,
        "source": TENANT,
        "kind": "page",
        "token_count": tokens,
        "content_type": "paragraph",
        "labels": [],
        "readers": EVERYONE,
        "is_boilerplate": False,
        "updated_at": _NEVER,
        "places": [],
        "prefix": metadata_prefix(document.title, path) if contexts else "",
        "vector_keys": [""],
    }


def with_column(table: pa.Table, column: str, values: Sequence[object]) -> pa.Table:
    """Return the table with other values in a column."""
    place = table.column_names.index(column)
    field = table.schema.field(column)
    return table.set_column(place, field, pa.array(values, field.type))


def run_queries(
    index: BenchIndex,
    collection: BeirCollection,
    config: Config,
    mode: Mode = "hybrid",
    report: Report | None = None,
    stages: Sequence[Stage] = (),
) -> BenchRun:
    """Run every query alone, as a user's comes; the first once more before, because it opens the indexes.

    `stages` come after those that make candidates. The time of a query includes reading the first passages.

    Raises:
        BenchError: an index did not answer a query.
    """
    settings = config.retrieval
    if mode != "hybrid":  # a single index must itself give what recall is measured at
        deep = {"dense_k": max(DEPTH, settings.dense_k), "lexical_k": max(DEPTH, settings.lexical_k)}
        settings = settings.model_copy(update=deep)
    rm3, is_word = config.features.FEATURE_RM3, Words(config.embedding)
    options = SearchOptions(settings, mode, DEPTH, rm3, is_word=is_word)
    view = index.generation.for_reader(Principal(TENANT))
    ask = partial(search_candidates, view, index.embedder, options=options)
    ask(next(iter(collection.queries.values())))
    progress = _part(report, "queries run")
    rankings: dict[str, Ranking] = {}
    total_ms, search_ms = [], []
    for done, (query, text) in enumerate(collection.queries.items(), start=1):
        started = time.perf_counter()
        search = ask(text).then(stages, StageTrace())
        list(search.context.passages.candidates(search.ranking.head(CUTOFF)))
        elapsed = (time.perf_counter() - started) * 1000
        if degraded := search.trace.flags:
            raise BenchError(f"query {query!r} was answered without an index ({', '.join(degraded)})")
        rankings[query] = _ranking(search, index.ids, collection.of_pages)
        total_ms.append(elapsed)
        search_ms.append(elapsed - search.trace.timings_ms.get("embed", 0.0))
        if progress:
            progress(done, len(collection.queries))
    return BenchRun(rankings, total_ms, search_ms)


def _ranking(search: Search, ids: Mapping[str, str], of_pages: bool) -> Ranking:
    """Return ids with scores, best first; of pages each at the place of its best passage."""
    ranking = search.ranking
    chunk_ids = search.context.view.chunk_ids(ranking.rows.tolist())
    scored = list(zip(chunk_ids, ranking.score.tolist(), strict=True))
    if not of_pages:
        return [(ids[chunk_id], score) for chunk_id, score in scored]
    best: dict[str, float] = {}
    for chunk_id, score in scored:
        best.setdefault(chunk_id.rsplit(":", 2)[0], score)
    return list(best.items())


def measured(bench: Bench) -> Bench:
    """Return the same with its metrics."""
    recall, ndcg, mrr = metrics(bench.run.rankings, bench.collection).values()
    return replace(bench, recall=recall, ndcg=ndcg, mrr=mrr)


def metrics(rankings: Mapping[str, Ranking], collection: BeirCollection) -> dict[str, dict[str, float]]:
    """Recall, nDCG and MRR at their cutoffs, each the mean over all queries."""
    pairs = [
        ([document for document, _ in ranking], collection.judgements[query]) for query, ranking in rankings.items()
    ]
    return {
        "recall": {str(k): _mean([recall_at_k(ranking, judged, k) for ranking, judged in pairs]) for k in RECALL_AT},
        "ndcg": {str(CUTOFF): _mean([ndcg_at_k(ranking, judged, CUTOFF) for ranking, judged in pairs])},
        "mrr": {str(CUTOFF): _mean([mrr_at_k(ranking, judged, CUTOFF) for ranking, judged in pairs])},
    }


def latencies(run: BenchRun) -> dict[str, dict[str, float]]:
    """Milliseconds of a query's median and 95th percentile, in all and without its embedding."""
    both = zip(run.total_ms, run.search_ms, strict=True)
    return percentiles({"latency_ms": total, "latency_without_embedding_ms": search} for total, search in both)


def _mean(values: Sequence[float]) -> float:
    return round(fmean(values), 6)


def _part(report: Report | None, what: str) -> Callable[..., None] | None:
    return (lambda done, total, *_: report(what, done, total)) if report else None
