"""The asset `contexts`: which chunks of a tenant are indexed, and what tells each where it comes from."""

from collections import Counter

import dagster as dg

from rag_assets import metadata
from rag_assets.facts import chunk_digests
from rag_assets.inputs import tenant_inputs
from rag_assets.partitions import TENANTS
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, writing
from rag_assets.state import CandidateState, settled_chunks, write_candidate
from rag_assets.steps.contextualize import VERSION, build_contexts, contextualized
from rag_assets.steps.select import join_sources, select_chunks
from rag_serving.models import open_embedder
from rag_serving.schema import CONTEXTS, GENERATION_CHUNKS
from rag_serving.store import StoreError, write_table


@dg.asset(
    partitions_def=TENANTS,
    deps=[dg.AssetDep("chunks", partition_mapping=dg.AllPartitionMapping())],
    group_name="publish",
    kinds={"parquet"},
    owners=["team:data-engineering"],
    code_version=str(VERSION),
)
def contexts(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """The chunks of a tenant's sources that are indexed, each with the prefix that both indexes see above its text.

    Chunks under a dropped label and boilerplate are left out, and every page without a chunk is explained. Two sources
    that share a page id are refused.
    """
    tenant = context.partition_key
    config, store = installation.config(), installation.store()
    folder = store.candidate(tenant)
    reporter.begin(tenant, "contexts")
    with writing(store.tenant(tenant)):
        sources = sorted(chunk_digests(config, store, tenant))
        if not sources:
            raise StoreError(f"no source of tenant {tenant!r} has chunks yet; run `citelock build`")
        settled = {key: settled_chunks(store, key) for key in sources}
        everything = join_sources({key: table for key, (table, _) in settled.items()})
        selection = select_chunks(everything, config.ingestion.drop_labels, config.ingestion.drop_boilerplate)
        prefixes = build_contexts(selection.chunks, config.context.provider)
        chunks = contextualized(selection.chunks, prefixes)
        embedder = open_embedder(config.embedding).name
        accounts = {key: account for key, (_, account) in settled.items()}
        explained = {page: why for account in accounts.values() for page, why in account.explained.items()}
        state = CandidateState(
            inputs=tenant_inputs(config, {key: account.digest for key, account in accounts.items()}, embedder),
            embedder=embedder,
            sources={key: account.fingerprint for key, account in accounts.items()},
            enumerated={key: account.enumerated for key, account in accounts.items()},
            explained={**explained, **selection.pages_without_chunks(everything)},
        )
        write_table(folder / "contexts.parquet", prefixes, CONTEXTS)
        write_table(folder / "chunks.parquet", chunks, GENERATION_CHUNKS)
        write_candidate(store, tenant, state)
    return dg.MaterializeResult(
        metadata={
            **metadata.of_table(chunks, folder / "chunks.parquet", ["chunk_id", "source", "prefix", "text"]),
            "sources": dict(Counter(chunks["source"].to_pylist())),
            "chunks_left_out": len(selection.excluded),
            "why_left_out": selection.reasons(),
            "pages_explained": len(state.explained),
            "why_explained": dg.MetadataValue.md(metadata.named_reasons(state.explained)),
            "levels": dict(Counter(prefixes["level"].to_pylist())),
            "contexts_generated": 0 if config.context.provider in ("metadata", "none") else len(chunks),
        }
    )
