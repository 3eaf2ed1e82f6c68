"""The assets `generation` and `published_generation`: a checked candidate, and the pointer that readers follow."""

from datetime import timedelta

import dagster as dg

from evals.evaluation.candidate import quality_results
from evals.reports.report import page_url
from rag_assets import asset_checks, metadata
from rag_assets.assets.groups import publish_asset
from rag_assets.making.generations import make_generation, make_publication
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, of_tenant_step, writing
from rag_assets.state.records import (
    read_checked,
)
from rag_serving.artifacts.manifest import FORMAT
from rag_serving.artifacts.schema import GENERATION_CHUNKS


@publish_asset(
    deps=["dense_index", "lexical_index"],
    kinds={"folder"},
    code_version=str(FORMAT),
    check_specs=asset_checks.GENERATION,
)
def generation(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """An immutable candidate: one folder, one manifest that names every chunk and every shard. Nobody reads it yet.

    Its checks block: a candidate that fails one stays unpublished and can be inspected. Documents that a check
    names are left out of the next build, where they are few.
    """
    making = of_tenant_step(context, installation, reporter)
    store, tenant = making.store, making.key
    with writing(making.config, store.tenant(tenant)):
        manifest, results, originals = make_generation(making)
    rows = [{"check": r.name, "passed": "yes" if r.passed else "NO", "found": r.detail} for r in results]
    return dg.MaterializeResult(
        data_version=dg.DataVersion(manifest.id),
        metadata={
            "dagster/row_count": manifest.chunks,
            "dagster/column_schema": metadata.column_schema(GENERATION_CHUNKS),
            "generation": manifest.id,
            "chunks": manifest.chunks,
            "pages": {source: pages.pages for source, pages in manifest.pages.items()},
            "shards": len(manifest.shards),
            "originals": originals,
            "bytes": sum(file.bytes for file in manifest.files.values()),
            "folder": dg.MetadataValue.path(str(store.generation(tenant, manifest.id))),
            "checks": dg.MetadataValue.md(metadata.markdown_table(rows, ["check", "passed", "found"])),
        },
        check_results=asset_checks.generation_results(results),
    )


@publish_asset(
    deps=["eval_report"],
    code_version=str(FORMAT),
    # Wide, because a tenant whose pages do not change is not published again; how fresh a sync is, `pages` says.
    freshness_policy=dg.FreshnessPolicy.time_window(warn_window=timedelta(days=7), fail_window=timedelta(days=30)),
)
def published_generation(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """The generation that questions are answered from: one atomic rename moves the tenant's `current` pointer to it.

    `citelock generations rollback` moves it back. Older generations are kept for that, as `keep_generations` says.
    """
    making = of_tenant_step(context, installation, reporter)
    tenant, config, store = making.key, making.config, making.store
    with writing(config, store.tenant(tenant)):
        gates = quality_results(store, tenant, read_checked(store, tenant).generation)
        checked, publication, pruned = make_publication(making, gates)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(checked.generation),
        metadata={
            "dagster/row_count": checked.chunks,
            "generation": checked.generation,
            "previous": publication.previous or "none",
            "published": publication.changed,
            "gates_overridden": checked.override or "no",
            "generations_removed": len(pruned.generations),
            "collections_removed": len(pruned.collections),
            "originals_removed": len(pruned.originals),
            **{f"{config.index.kind}_{name}": value for name, value in publication.database.items()},
            "ask": dg.MetadataValue.url(page_url(config.serving)),
        },
    )
