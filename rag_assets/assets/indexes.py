"""The assets `embeddings`, `dense_index` and `lexical_index`: vectors of chunks, and the two ways in which one is
found.

A chunk has one vector, or one for each window of a long one, computed once for every text.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dagster as dg

from rag_assets import metadata
from rag_assets.assets.groups import publish_asset, retry_after
from rag_assets.embedding_usage import BuildVectors, DeadTextsError, build_vectors
from rag_assets.progress import Reporter
from rag_assets.publishing.build import build_dense, build_lexical_index
from rag_assets.publishing.documents import EmbeddingProgress, begin_embedding
from rag_assets.publishing.passage_vectors import (
    BudgetedEmbedder,
    EmbeddedPassages,
    SentencesBuild,
    build_sentences,
    count_vectors,
    embed_passages,
    embedding_through,
    wants_sentences,
)
from rag_assets.publishing.publish import discard_failed
from rag_assets.publishing.workspace import BuildWorkspace, load_vectors, save_vectors
from rag_assets.resources import Installation, of_tenant, writing
from rag_assets.state.content_cache import VERSION
from rag_assets.steps.contexts import contextualize
from rag_serving.artifacts.manifest import EmbedderFacts
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import commit_folder, read_json, read_table, remove_folder, write_json, write_table
from rag_serving.config.loading import Config
from rag_serving.hooks import BudgetError, BudgetsAwayError, open_budgets
from rag_serving.indexes import chroma, lexical
from rag_serving.models import open_embedder, open_input_limit
from rag_serving.models.protocols import Embedder

_USAGE = ("page_id", "texts", "tokens", "cost")


@publish_asset(
    deps=["contexts"],
    kinds={"onnx", "numpy"},
    pool="embedding",
    code_version=f"{VERSION}.{contextualize.WINDOWS_VERSION}",
    retry_policy=retry_after(3),
)
def embeddings(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """Vectors of prefix and text, and of the sentences that answers are extracted from (`indexing.sentence_vectors`);
    what was embedded before comes from the tenant's cache, whatever page it is on. A passage that is longer than the
    model reads at once has a vector for each of its windows, of which the nearest to a question counts.

    The cache is written every 64 texts, or every second: a run that is killed goes on where it was.
    """
    tenant, config, store = of_tenant(context.partition_key, installation)
    folder = store.candidate(tenant)
    reporter.begin(tenant, "embeddings")
    begin_embedding(config, tenant)
    with writing(config, store.tenant(tenant), context.run.run_id):
        chunks = read_table(folder / "chunks.parquet", GENERATION_CHUNKS)
        embedder = open_embedder(config.embedding)
        limit = open_input_limit(config.embedding)
        documents = EmbeddingProgress(config, tenant)
        with (
            within_budget(config, tenant, embedder) as embedder,
            build_vectors(config, tenant, embedder, documents, context.log.info) as build,
            told_of_dead(context, build),
        ):
            started = time.monotonic()
            track = reporter.track("texts embedded", context.log.info)
            embedded = embed_passages(build.vectors, embedder, chunks, limit, track)
            seconds = time.monotonic() - started
            write_vectors(folder, embedded, embedder.name)
            made = SentencesBuild()
            if wants_sentences(config):
                track = reporter.track("sentences embedded", context.log.info)
                model = EmbedderFacts(name=embedder.name, dimension=embedded.vectors.shape[1])
                embed = embedding_through(build.vectors, embedder, track)
                made = build_sentences(store, tenant, chunks, embed, model)
            else:
                BuildWorkspace.of(store, tenant).without_sentences()
            figures = taken(build)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(chunks),
            "dagster/column_schema": metadata.column_schema(GENERATION_CHUNKS),
            "file": dg.MetadataValue.path(str(folder / "embeddings")),
            "model": embedder.name,
            "dimension": int(embedded.vectors.shape[1]),
            "texts_embedded": embedded.computed,
            "texts_from_cache": embedded.texts - embedded.computed,
            "vectors": len(embedded.vectors),
            "sentences": made.sentences,
            "sentences_embedded": made.embedded,
            "sentences_bytes": made.bytes,
            "seconds": round(seconds, 2),
            "texts_per_second": round(embedded.computed / seconds, 1) if embedded.computed else 0.0,
            **figures,
        }
    )


def write_vectors(folder: Path, embedded: EmbeddedPassages, model: str) -> None:
    """Write the vectors of a candidate's passages, all or nothing."""
    working = folder / ".embeddings"
    remove_folder(working)
    write_table(working / "chunks.parquet", embedded.chunks, GENERATION_CHUNKS)
    save_vectors(working, embedded.vectors)
    write_json(working / "model.json", {"embedder": model, "dimension": embedded.vectors.shape[1]})
    commit_folder(working, folder / "embeddings")


@contextmanager
def within_budget(config: Config, tenant: str, embedder: Embedder) -> Iterator[Embedder]:
    """Yield a model that stops when the tenant's budget is spent, which ends the step; workers look themselves."""
    budget = open_budgets(config, [tenant]).get(tenant)
    is_limited_here = budget is not None and config.jobs.embedding == "in_process"
    try:
        yield BudgetedEmbedder(embedder, budget, config.embedding) if budget and is_limited_here else embedder
    except (BudgetError, BudgetsAwayError) as error:
        raise dg.Failure(f"{error}; what was embedded is kept", allow_retries=False) from error
    finally:
        if budget:
            budget.close()


@contextmanager
def told_of_dead(context: dg.AssetExecutionContext, build: BuildVectors) -> Iterator[None]:
    """Show on the asset's page what a build took that fails because texts were put aside."""
    try:
        yield
    except DeadTextsError:
        observation = dg.AssetObservation(context.asset_key, partition=context.partition_key, metadata=taken(build))
        context.instance.report_runless_asset_event(observation)  # an event of the run would be lost with the step
        raise


def taken(build: BuildVectors) -> dict[str, Any]:
    """Return what embedding took as metadata: tokens, cost, the dearest pages, and what the build had of the queue."""
    pages = build.usage().values()
    dearest = sorted(pages, key=lambda page: (page.cost, page.tokens, page.page_id), reverse=True)[: metadata.NAMED]
    told: dict[str, Any] = {
        "tokens": sum(page.tokens for page in pages),
        "cost": round(sum(page.cost for page in pages), 6),
        "pages_embedded": dg.MetadataValue.md(metadata.markdown_table(map(asdict, dearest), _USAGE)),
    }
    return told | ({f"queue_{name}": value for name, value in asdict(build.waits).items()} if build.waits else {})


@publish_asset(
    deps=["embeddings"],
    kinds={"chroma"},
    code_version=str(chroma.FORMAT),
)
def dense_index(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """Nearest-neighbour shards, named by the digest of their content: an unchanged one is named again, not rebuilt."""
    tenant, config, store = of_tenant(context.partition_key, installation)
    folder = store.candidate(tenant) / "embeddings"
    reporter.begin(tenant, "dense index")
    with writing(config, store.tenant(tenant), context.run.run_id):
        chunks = read_table(folder / "chunks.parquet", GENERATION_CHUNKS)
        model = read_json(folder / "model.json")
        if discarded := discard_failed(store, tenant, config):
            context.log.info("removed candidates that had failed their checks: %s", ", ".join(discarded))
        built = build_dense(
            store,
            tenant,
            chunks,
            load_vectors(folder, count_vectors(chunks), model["dimension"]),
            config,
            model["embedder"],
            progress=reporter.track("chunks indexed", context.log.info),
        )
    rows = [shard.model_dump() for shard in built.shards[: metadata.NAMED]]
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": built.chunks,
            "shards_built": built.built,
            "shards_reused": built.reused,
            "dimension": built.dimension,
            "shards": dg.MetadataValue.md(metadata.markdown_table(rows, ["name", "collection", "chunks"])),
        }
    )


@publish_asset(
    deps=["contexts"],
    kinds={"bm25"},
    code_version=str(lexical.FORMAT),
)
def lexical_index(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """BM25 over prefix and text of every chunk, with terms that know identifiers."""
    tenant, config, store = of_tenant(context.partition_key, installation)
    reporter.begin(tenant, "lexical index")
    with writing(config, store.tenant(tenant), context.run.run_id):
        chunks = read_table(store.candidate(tenant) / "chunks.parquet", GENERATION_CHUNKS)
        built = build_lexical_index(store, tenant, chunks, progress=reporter.track("chunks analyzed", context.log.info))
    return dg.MaterializeResult(metadata={"dagster/row_count": built.chunks, "terms": built.terms})
