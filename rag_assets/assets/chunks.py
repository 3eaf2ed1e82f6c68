"""The asset `chunks`: the passages that are embedded, found and cited."""

from collections import Counter

import dagster as dg

from rag_assets import asset_checks, metadata
from rag_assets.assets.groups import ingest_asset
from rag_assets.progress import Reporter
from rag_assets.publishing.documents import settle_documents
from rag_assets.resources import Installation, is_full, of_source, previous_table, writing
from rag_assets.state.records import (
    ChunksState,
    SourceAccount,
    chunk_size,
    chunks_settings,
    ingest_settings,
    read_state,
    table_digest,
    update_state,
    write_account,
)
from rag_assets.steps.chunks.chunking import VERSION
from rag_assets.steps.chunks.document_fields import with_book_places, with_document_fields
from rag_assets.steps.incremental import take_account, update_chunks
from rag_serving.artifacts.schema import CHUNKS, PAGES, SECTIONS
from rag_serving.artifacts.store import read_json, read_table, write_table
from rag_serving.models import open_tokenizer
from rag_serving.models.language_detector import page_language


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
    key, config, store = of_source(context.partition_key, installation)
    folder, cut_by = store.source(key), chunks_settings(config, key)
    reporter.begin(key, "chunks")
    with writing(config, folder):
        state = read_state(store, key)
        pages = read_table(folder / "pages.parquet", PAGES)
        sections = read_table(folder / "sections.parquet", SECTIONS)
        fits = state.chunks is not None and state.chunks.cut_by == cut_by and not is_full(context)
        update = update_chunks(
            sections,
            pages,
            previous_table(folder / "chunks.parquet", CHUNKS) if fits else CHUNKS.empty(),
            open_tokenizer(config.embedding),
            chunk_size(config, key),
            page_language,
        )
        documents = with_document_fields(update.chunks, pages)
        table = with_book_places(documents, pages, is_book=config.profiles.name_of(config.sources[key]) == "book")
        sync = read_json(folder / "sync_state.json")
        failed = {**sync["failed"], **(state.sections.failed if state.sections else {})}
        page_ids = pages["page_id"].to_pylist()
        enumerated = sorted({*page_ids, *sync["excluded"], *sync["failed"]})
        account = take_account(
            enumerated=enumerated,
            sectioned=[page_id for page_id in page_ids if page_id not in failed],
            chunked=table["page_id"].to_pylist(),
            excluded=sync["excluded"],
            failed=failed,
        )
        digest = table_digest(table)
        write_table(folder / "chunks.parquet", table, CHUNKS)
        account_of = SourceAccount(
            digest=digest, fingerprint=sync["fingerprint"], enumerated=enumerated, explained=account.explained
        )
        write_account(store, key, account_of)
        made = ChunksState(
            settings=ingest_settings(config, key),
            cut_by=cut_by,
            fingerprint=sync["fingerprint"],
            digest=digest,
            chunks=len(table),
            chunks_new=update.new,
        )
        update_state(store, key, chunks=made)
        settle_documents(config, config.sources[key].tenant, key)
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
