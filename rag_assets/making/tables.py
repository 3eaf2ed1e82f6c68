"""The tables of a source: its pages, their sections, and the chunks of these."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_assets.making import Making, listed_pages, previous_table
from rag_assets.parsing.reader import FOLDER as OCR
from rag_assets.parsing.reader import LimitedReader, opened_scans
from rag_assets.publishing.documents import settle_documents
from rag_assets.sources import open_source
from rag_assets.sources.base import ORIGINALS_FOLDER as ORIGINALS
from rag_assets.sources.base import SyncResult
from rag_assets.state.records import (
    ChunksState,
    PagesState,
    SectionsState,
    SourceAccount,
    chunk_size,
    chunks_settings,
    facts_digest,
    ingest_settings,
    last_sync,
    pages_digest,
    read_state,
    source_sections_settings,
    table_digest,
    update_state,
    write_account,
    write_sync,
)
from rag_assets.steps import incremental
from rag_assets.steps.chunks.document_fields import with_book_places, with_document_fields
from rag_serving.artifacts.schema import CHUNKS, MACRO_LEDGER, PAGES, SECTIONS
from rag_serving.artifacts.store import StoreError, read_json, read_table, write_table
from rag_serving.documents.noted import EVERYTHING, NotedPages
from rag_serving.models import open_tokenizer
from rag_serving.models.language_detector import page_language


def make_pages(making: Making) -> tuple[SyncResult, PagesState]:
    """Sync a source: write `pages.parquet` and `sync_state.json`; return result and record. Only what changed is
    fetched. What is noted is read, whatever else is; a sync of noted pages alone leaves that of the whole as due as
    before."""
    key, config, store = making.key, making.config, making.store
    folder = store.source(key)
    making.reporter.begin(key, "pages")
    scans = opened_scans(config.documents, folder / OCR)
    with LimitedReader(config.documents, scans=scans) as reader:
        before = previous_table(folder / "pages.parquet", PAGES)
        # What a source remembers is of no use without the pages it belongs to: it would fetch only what is newer.
        known = _previous_sync(folder) if len(before) and not making.full else {}
        noted = NotedPages(folder)
        due = noted.take()
        only = due if known and making.of_notes and EVERYTHING not in due else frozenset[str]()
        if due and not only:
            known = {**known, "listed_at": 0}  # no other listing shows moves and restrictions
        settings, kept, address = config.sources[key], folder / ORIGINALS, config.serving.public_url
        source = open_source(key, settings, folder, reader, kept, public_url=address, only=only)
        fingerprint = source.fingerprint()
        result = source.sync(before, known, making.reporter.track("pages", making.log.info))
        write_sync(folder, fingerprint, result, scans)
    state = PagesState(
        fingerprint=fingerprint,
        pages_seen=result.seen,
        pages_changed=result.changed,
        pages_deleted=result.deleted,
        pages_failed=result.failed,
        facts=facts_digest(result.pages),
        synced_at=last_sync(store, key) if only else datetime.now(UTC),
    )
    update_state(store, key, pages=state)
    if not making.of_notes:  # else they stay until what was read is published
        noted.forget()
    return result, state


def _previous_sync(folder: Path) -> dict[str, Any]:
    """Return the source's memory of its last sync; empty if unreadable."""
    try:
        state = read_json(folder / "sync_state.json")["state"]
    except (StoreError, KeyError, TypeError):
        return {}
    return dict(state) if isinstance(state, dict) else {}


def make_sections(making: Making) -> tuple[incremental.SectionsUpdate, pa.Table, int]:
    """Write `sections.parquet` and `macro_ledger.parquet`; return all sections, the pages they are of, and how many
    macros were not rendered before. Only pages whose content changed are read."""
    key, config, store = making.key, making.config, making.store
    folder, settings = store.source(key), source_sections_settings(config, key)
    making.reporter.begin(key, "sections")
    built = read_state(store, key).sections
    fits = built is not None and built.settings == settings and not making.full
    pages, source = read_table(folder / "pages.parquet", PAGES), config.sources[key]
    with LimitedReader(config.documents) as reader:
        update = incremental.update_sections(
            pages,
            previous_table(folder / "sections.parquet", SECTIONS) if fits else SECTIONS.empty(),
            previous_table(folder / "macro_ledger.parquet", MACRO_LEDGER) if fits else MACRO_LEDGER.empty(),
            config.ingestion.max_page_bytes,
            listed_pages(pages, source.id_prefix) if source.resolve_lists else None,
            reader,
            built.cut if built is not None and fits else {},
        )
    write_table(folder / "macro_ledger.parquet", update.ledger, MACRO_LEDGER)
    write_table(folder / "sections.parquet", update.sections, SECTIONS)
    macros = update.outcomes()
    state = SectionsState(
        settings=settings,
        failed=dict(update.failed),
        cut=dict(update.cut),
        macros_lost=macros.get("lost", 0),
        macros_unresolved=macros.get("unresolved", 0),
        missed=list(update.missed),
        pages=pages_digest(pages),
    )
    update_state(store, key, sections=state)
    return update, pages, (built.macros_lost + built.macros_unresolved if built else 0)


def make_chunks(making: Making) -> tuple[pa.Table, incremental.ChunksUpdate, incremental.CompletenessReport]:
    """Write `chunks.parquet` and the account of pages; return all chunks, what it took, and what became of each page.
    Only pages that changed are cut again."""
    key, config, store = making.key, making.config, making.store
    folder, cut_by = store.source(key), chunks_settings(config, key)
    making.reporter.begin(key, "chunks")
    state = read_state(store, key)
    pages = read_table(folder / "pages.parquet", PAGES)
    fits = state.chunks is not None and state.chunks.cut_by == cut_by and not making.full
    update = incremental.update_chunks(
        read_table(folder / "sections.parquet", SECTIONS),
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
    account = incremental.take_account(
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
    return table, update, account
