"""The asset `chunks`: the passages to embed, search and cite."""

from collections import Counter

import dagster as dg

from rag_assets import asset_checks, metadata
from rag_assets.assets.groups import ingest_asset
from rag_assets.making.tables import make_chunks
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, of_source_step, writing
from rag_assets.steps.chunks.chunking import VERSION
from rag_serving.artifacts.schema import CHUNKS


@ingest_asset(
    deps=["pages", "sections"],
    kinds={"parquet"},
    code_version=str(VERSION),
    check_specs=[asset_checks.PAGES_ACCOUNTED_FOR, asset_checks.CHUNKS_HAVE_ANCHORS],
)
def chunks(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """Passages with their place in the page, a link to their heading, and who may read them: a section or a part of it.

    Longer sections are cut at about as many tokens as the source's profile says, shorter ones stay as they are. Only
    pages that changed are cut again. Code blocks stay whole up to 12,000 characters; longer ones become windows that
    overlap.
    """
    making = of_source_step(context, installation, reporter)
    folder = making.store.source(making.key)
    with writing(making.config, folder):
        table, update, account = make_chunks(making)
    tokens = table["token_count"].to_pylist()
    shown = ["chunk_id", "heading_path", "content_type", "token_count", "text"]
    return dg.MaterializeResult(
        metadata={
            **metadata.of_table(table, CHUNKS, folder / "chunks.parquet", shown),
            "chunks_new": update.new,
            "pages_cut": update.read,
            "content_types": dict(Counter(table["content_type"].to_pylist())),
            "readers": dict(Counter(table["readers"].to_pylist()).most_common(metadata.NAMED)),
            "tokens": dg.MetadataValue.md(metadata.histogram(tokens, "Tokens per chunk", "tokens")),
        },
        check_results=[asset_checks.pages_accounted_for(account), asset_checks.chunks_have_anchors(table)],
    )
