"""The assets `embeddings`, `dense_index` and `lexical_index`: vectors of chunks, and their two indexes.

A chunk has one vector, or one for each window of a long one, computed once for every text.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import dagster as dg

from rag_assets import metadata
from rag_assets.assets.groups import publish_asset, retry_after
from rag_assets.embedding_usage import BuildVectors, PageUsage, WaitFigures
from rag_assets.making.generations import make_dense_index, make_embeddings, make_lexical_index
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, of_tenant_step, writing
from rag_assets.state.content_cache import VERSION
from rag_assets.steps.contexts import contextualize
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.indexes import chroma, lexical

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
    making = of_tenant_step(context, installation, reporter)
    config, folder = making.config, making.store.tenant(making.key)

    def dead(build: BuildVectors) -> None:
        figures = taken(build.usage(), build.waits)
        observation = dg.AssetObservation(context.asset_key, partition=making.key, metadata=figures)
        context.instance.report_runless_asset_event(observation)  # an event of the run would be lost with the step

    with writing(config, folder, context.run.run_id):
        made = make_embeddings(making, dead)
    embedded, sentences = made.embedded, made.sentences
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": made.chunks,
            "dagster/column_schema": metadata.column_schema(GENERATION_CHUNKS),
            "file": dg.MetadataValue.path(str(making.store.candidate(making.key) / "embeddings")),
            "model": made.model,
            "dimension": int(embedded.vectors.shape[1]),
            "texts_embedded": embedded.computed,
            "texts_from_cache": embedded.texts - embedded.computed,
            "vectors": len(embedded.vectors),
            "sentences": sentences.sentences,
            "sentences_embedded": sentences.embedded,
            "sentences_bytes": sentences.bytes,
            "seconds": round(made.seconds, 2),
            "texts_per_second": round(embedded.computed / made.seconds, 1) if embedded.computed else 0.0,
            **taken(made.usage, made.waits),
        }
    )


def taken(usage: Mapping[str, PageUsage], waits: WaitFigures | None) -> dict[str, Any]:
    """Return the usage of embedding as metadata: tokens, cost, the dearest pages, and the figures of the queue."""
    pages = usage.values()
    dearest = sorted(pages, key=lambda page: (page.cost, page.tokens, page.page_id), reverse=True)[: metadata.NAMED]
    told: dict[str, Any] = {
        "tokens": sum(page.tokens for page in pages),
        "cost": round(sum(page.cost for page in pages), 6),
        "pages_embedded": dg.MetadataValue.md(metadata.markdown_table(map(asdict, dearest), _USAGE)),
    }
    return told | ({f"queue_{name}": value for name, value in asdict(waits).items()} if waits else {})


@publish_asset(
    deps=["embeddings"],
    kinds={"chroma"},
    code_version=str(chroma.FORMAT),
)
def dense_index(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """Nearest-neighbour shards, named by the digest of their content: an unchanged one is named again, not rebuilt."""
    making = of_tenant_step(context, installation, reporter)
    with writing(making.config, making.store.tenant(making.key), context.run.run_id):
        built = make_dense_index(making)
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
    making = of_tenant_step(context, installation, reporter)
    with writing(making.config, making.store.tenant(making.key), context.run.run_id):
        built = make_lexical_index(making)
    return dg.MaterializeResult(metadata={"dagster/row_count": built.chunks, "terms": built.terms})
