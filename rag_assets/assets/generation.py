"""The assets `generation` and `published_generation`: a checked candidate, and the pointer that readers follow."""

from collections import Counter
from datetime import timedelta

import dagster as dg

from evals.evaluation.candidate import quality_results
from evals.reports.files import page_url
from rag_assets import asset_checks, metadata
from rag_assets.assets.groups import publish_asset
from rag_assets.progress import Reporter
from rag_assets.publishing.build import commit_generation
from rag_assets.publishing.checks import Coverage, check_generation, documents_at_fault
from rag_assets.publishing.documents import gather_originals, settle_documents
from rag_assets.publishing.publish import prune, publish
from rag_assets.publishing.remade import checks_made_again
from rag_assets.resources import Installation, of_tenant, writing
from rag_assets.state.observed import leave_out
from rag_assets.state.records import (
    BEGUN,
    PublishState,
    read_candidate,
    read_checked,
    write_checked,
    write_publish_state,
)
from rag_serving.artifacts.manifest import FORMAT
from rag_serving.artifacts.schema import CONTEXTS, GENERATION_CHUNKS
from rag_serving.artifacts.store import read_table
from rag_serving.models import open_embedder, open_input_limit


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
    tenant, config, store = of_tenant(context.partition_key, installation)
    reporter.begin(tenant, "generation")
    with writing(config, store.tenant(tenant)):
        candidate = read_candidate(store, tenant)
        levels = Counter(
            read_table(store.candidate(tenant) / "contexts.parquet", CONTEXTS, ["level"])["level"].to_pylist()
        )
        originals = gather_originals(store, tenant, candidate.sources)
        manifest = commit_generation(store, tenant, config, candidate.sources, levels)
        coverage = Coverage(candidate.enumerated, candidate.explained)
        reporter.begin(tenant, "checks")
        embedder = open_embedder(config.embedding)
        folder = store.generation(tenant, manifest.id)
        again = checks_made_again(embedder, open_input_limit(config.embedding), folder, candidate.selected)
        results = check_generation(store, tenant, manifest.id, config, coverage, embedder.name, again)
        checked = PublishState(
            generation=manifest.id,
            inputs=candidate.inputs,
            chunks=manifest.chunks,
            shards=len(manifest.shards),
            gates={result.name: result.passed for result in results},
            duplicates_dropped=candidate.duplicates_dropped,
        )
        write_checked(store, tenant, checked)
        at_fault = documents_at_fault(results)
        if leave_out(store, tenant, at_fault):
            context.log.warning("the next build leaves out %s, which failed a check", ", ".join(sorted(at_fault)))
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
            "originals": len(originals),
            "bytes": sum(file.bytes for file in manifest.files.values()),
            "folder": dg.MetadataValue.path(str(folder)),
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
    tenant, config, store = of_tenant(context.partition_key, installation)
    reporter.begin(tenant, "publish")
    with writing(config, store.tenant(tenant)):
        checked = read_checked(store, tenant)
        gates = quality_results(store, tenant, checked.generation)
        publication = publish(store, tenant, checked.generation, config, gates)
        write_publish_state(store, tenant, checked)
        (store.candidate(tenant) / BEGUN).unlink(missing_ok=True)
        pruned = prune(store, tenant, config)
        settle_documents(config, tenant, explained=read_candidate(store, tenant).explained)
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
