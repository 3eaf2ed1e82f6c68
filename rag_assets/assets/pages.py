"""The asset `pages`: what a source holds now."""

from datetime import UTC, datetime

import dagster as dg

from rag_assets import asset_checks, metadata
from rag_assets.assets.groups import ingest_asset, retry_after
from rag_assets.parsing.reader import LimitedReader
from rag_assets.parsing.scanned import FOLDER as OCR
from rag_assets.parsing.scanned import opened_scans
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, is_full, of_source, previous_sync, previous_table, writing
from rag_assets.sources.base import READING_VERSION
from rag_assets.sources.originals import FOLDER as ORIGINALS
from rag_assets.sources.registry import open_source
from rag_assets.state.records import PagesState, facts_digest, update_state
from rag_assets.state.sync_files import write_sync
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
    """Every page of a source as it is now: raw body, version, and who may read it.

    Only what changed is fetched. A page counts as deleted only after a complete enumeration, and a sync that fails
    leaves the table as it was. `sync_state.json` beside it names every excluded and failed page with its reason.
    """
    key, config, store = of_source(context.partition_key, installation)
    folder = store.source(key)
    reporter.begin(key, "pages")
    scans = opened_scans(config.documents, folder / OCR)
    with writing(config, folder), LimitedReader(config.documents, scans=scans) as reader:
        address = config.serving.public_url
        source = open_source(key, config.sources[key], folder, reader, folder / ORIGINALS, public_url=address)
        fingerprint = source.fingerprint()
        before = previous_table(folder / "pages.parquet", PAGES)
        # What a source remembers is of no use without the pages it belongs to: it would fetch only what is newer.
        known = previous_sync(folder) if len(before) and not is_full(context) else {}
        result = source.sync(before, known, reporter.track("pages", context.log.info))
        write_sync(folder, fingerprint, result, scans)
        state = PagesState(
            fingerprint=fingerprint,
            pages_seen=result.seen,
            pages_changed=result.changed,
            pages_deleted=result.deleted,
            pages_failed=result.failed,
            facts=facts_digest(result.pages),
            synced_at=datetime.now(UTC),
        )
        update_state(store, key, pages=state)
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
