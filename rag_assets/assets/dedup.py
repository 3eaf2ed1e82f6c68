"""The asset `dedup_map`: the chunks of a tenant that are indexed, without near-duplicates."""

from collections import Counter

import dagster as dg
import pyarrow.compute as pc

from rag_assets import metadata
from rag_assets.assets.groups import publish_asset
from rag_assets.making.selections import make_selection
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, of_tenant_step, writing
from rag_assets.steps.dedup import SCOPES, VERSION, effectiveness
from rag_serving.artifacts.schema import DEDUP_MAP


@publish_asset(
    deps=[dg.AssetDep("chunks", partition_mapping=dg.AllPartitionMapping())],
    kinds={"parquet"},
    code_version=str(VERSION),
)
def dedup_map(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """The chunk that replaces each dropped one: the newest near-duplicate stays, with the other places of its text.

    Chunks under a dropped label and boilerplate are left out first, and every page without a chunk is explained. A
    chunk is dropped only if all its readers may read the one that stays. Two sources that share a page id are refused.
    If a model writes contexts, `contexts_estimate` gives the number of requests in the next asset, and their cost.
    """
    making = of_tenant_step(context, installation, reporter)
    file = making.store.tenant(making.key) / "dedup_map.parquet"
    with writing(making.config, file.parent):
        made = make_selection(making)
    duplicates, chunks = made.duplicates, made.candidates.chunks
    effects = effectiveness(chunks, duplicates)
    rows = [{"space": e.space, "chunks": e.chunks, **{s: e.dropped.get(s, 0) for s in SCOPES}} for e in effects]
    by_space = {effect.space: [effect.dropped.get(scope, 0) for scope in SCOPES] for effect in effects}
    return dg.MaterializeResult(
        metadata={
            **metadata.of_table(duplicates, DEDUP_MAP, file, DEDUP_MAP.columns.names),
            "duplicates_dropped": len(duplicates),
            "includes_across_sources": made.includes_across_sources,
            "chunks_kept": len(made.kept),
            "scopes": dict(Counter(duplicates["scope"].to_pylist())),
            "identical": pc.sum(pc.equal(duplicates["jaccard"], 1.0)).as_py() or 0,
            "effectiveness": dg.MetadataValue.md(metadata.markdown_table(rows, ["space", "chunks", *SCOPES])),
            "dropped": dg.MetadataValue.md(metadata.stacked_bars(by_space, SCOPES, "Duplicates dropped", "chunks")),
            "fingerprints_computed": made.fingerprints_computed,
            "seconds": round(made.seconds, 2),
            **({"contexts_estimate": made.estimate.facts()} if made.estimate else {}),
            "sources": dict(Counter(chunks["source"].to_pylist())),
            "chunks_left_out": len(made.left_out.excluded),
            "why_left_out": made.left_out.reasons(),
            "pages_explained": len(made.state.explained),
            "why_explained": dg.MetadataValue.md(metadata.named_reasons(made.state.explained)),
        }
    )
