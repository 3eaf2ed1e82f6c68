"""The asset `contexts`: what tells each chunk where it comes from."""

from collections import Counter

import dagster as dg

from rag_assets import metadata
from rag_assets.partitions import TENANTS
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, writing
from rag_assets.steps.contextualize import VERSION, build_contexts, contextualized
from rag_serving.schema import CONTEXTS, GENERATION_CHUNKS, SELECTED_CHUNKS
from rag_serving.store import read_table, write_table


@dg.asset(
    partitions_def=TENANTS,
    deps=["dedup_map"],
    group_name="publish",
    kinds={"parquet"},
    owners=["team:data-engineering"],
    code_version=str(VERSION),
)
def contexts(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """The prefix of every chunk that is indexed, which both indexes see above its text."""
    tenant = context.partition_key
    config, store = installation.config(), installation.store()
    folder = store.candidate(tenant)
    reporter.begin(tenant, "contexts")
    with writing(store.tenant(tenant)):
        selected = read_table(folder / "selected.parquet", SELECTED_CHUNKS)
        prefixes = build_contexts(selected, config.context.provider)
        chunks = contextualized(selected, prefixes)
        write_table(folder / "contexts.parquet", prefixes, CONTEXTS)
        write_table(folder / "chunks.parquet", chunks, GENERATION_CHUNKS)
    return dg.MaterializeResult(
        metadata={
            **metadata.of_table(chunks, folder / "chunks.parquet", ["chunk_id", "source", "prefix", "text"]),
            "levels": dict(Counter(prefixes["level"].to_pylist())),
            "contexts_generated": 0 if config.context.provider in ("metadata", "none") else len(chunks),
        }
    )
