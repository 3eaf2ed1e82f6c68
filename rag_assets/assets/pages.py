"""The asset `pages`: the current contents of a source."""

import dagster as dg

from rag_assets import asset_checks, metadata
from rag_assets.assets.groups import ingest_asset, retry_after
from rag_assets.making.tables import make_pages
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, of_source_step, writing
from rag_assets.sources.base import READING_VERSION
from rag_serving.artifacts.schema import PAGES


@ingest_asset(
    check_specs=[asset_checks.SYNC_COMPLETE],
    kinds={"confluence", "parquet"},
    code_version=str(READING_VERSION),
    pool="confluence",
    retry_policy=retry_after(5),
)
def pages(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """Every page of a source as it is now: raw body, version, and readers.

    Only changes are fetched; a run for pages announced by a wiki checks these alone. A page counts as deleted only
    after a complete enumeration, and a failed sync leaves the table unchanged. `sync_state.json` beside it names every
    excluded and failed page with its reason.
    """
    making = of_source_step(context, installation, reporter)
    folder = making.store.source(making.key)
    with writing(making.config, folder):
        result, state = make_pages(making)
    shown = ["page_id", "version", "title", "readers"]
    return dg.MaterializeResult(
        metadata={
            **metadata.of_table(result.pages, PAGES, folder / "pages.parquet", shown),
            **state.model_dump(exclude={"fingerprint", "facts", "synced_at"}),
            "pages_indexed": result.indexed,
            "pages_excluded": len(dict(result.excluded)),
            "pages_hidden": len(result.hidden),
            "why_excluded": dg.MetadataValue.md(metadata.named_reasons(dict(result.excluded))),
            "why_failed": dg.MetadataValue.md(metadata.named_reasons(dict(result.failures))),
            "why_hidden": dg.MetadataValue.md(metadata.named_reasons(dict(result.hidden))),
            "notes": dg.MetadataValue.md(metadata.listed(result.notes)),
        },
        check_results=[asset_checks.sync_complete(result)],
    )
