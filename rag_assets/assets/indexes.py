"""The assets `dense_index` and `lexical_index`: the two ways in which a chunk is found."""

import dagster as dg

from rag_assets import metadata
from rag_assets.assets.groups import publish_asset
from rag_assets.progress import Reporter
from rag_assets.publishing.build import build_dense, build_lexical_index
from rag_assets.publishing.passage_vectors import count_vectors
from rag_assets.publishing.publish import discard_failed
from rag_assets.publishing.workspace import load_vectors
from rag_assets.resources import Installation, of_tenant, writing
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import read_json, read_table
from rag_serving.indexes import chroma, lexical


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
