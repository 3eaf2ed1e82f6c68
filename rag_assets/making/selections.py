"""The indexed parts of a tenant's sources: chunks without near-duplicates, facts of pages, and the prefix of each
chunk.

Belongs here: reading, calling steps, writing. Does not belong here: the tables of one source (`tables`), indexes of the
selection (`generations`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.llm_contexts.tenant import (
    ContextEstimate,
    TenantContexts,
    UsageReporter,
    contexts_event,
    note_run,
    plan_contexts,
    read_last_run,
    write_contexts,
)
from rag_assets.making import Making, listed_pages
from rag_assets.monitoring.alerts import Event
from rag_assets.parsing.reader import LimitedReader
from rag_assets.publishing.narrowing import narrow_readers
from rag_assets.publishing.page_facts import SourceTables, gathered_facts
from rag_assets.publishing.workspace import BuildWorkspace
from rag_assets.sources.attachments import page_kind
from rag_assets.state.content_cache import SignatureCache
from rag_assets.state.observed import chunk_digests, left_out_inputs, shared_pages, still_left_out
from rag_assets.state.records import (
    BEGUN,
    CandidateState,
    SourceAccount,
    chunk_size,
    page_facts,
    pages_digest,
    read_state,
    settled_chunks,
    tenant_inputs,
    write_candidate,
)
from rag_assets.steps.chunks.select import ChunkSelection, join_sources, select_chunks
from rag_assets.steps.contexts.contextualize import Template, build_contexts, contextualized, token_counter
from rag_assets.steps.dedup import EXACT, find_duplicates, without_duplicates
from rag_assets.steps.sections.splitting import IncludingSource, with_other_sources
from rag_serving.artifacts.schema import CONTEXTS, DEDUP_MAP, GENERATION_CHUNKS, PAGES, SELECTED_CHUNKS
from rag_serving.artifacts.store import Store, StoreError, read_table, write_table, write_text
from rag_serving.config.loading import Config
from rag_serving.hooks import open_budgets
from rag_serving.models import open_embedder, open_tokenizer


@dataclass(frozen=True)
class MadeSelection:
    """The chunks that are indexed, the duplicates that are not, and what it took."""

    candidates: ChunkSelection  # near-duplicates included
    kept: pa.Table
    left_out: ChunkSelection
    duplicates: pa.Table
    state: CandidateState
    includes_across_sources: int
    fingerprints_computed: int
    seconds: float
    estimate: ContextEstimate | None  # where a model writes contexts


def make_selection(making: Making) -> MadeSelection:
    """Write `selected.parquet`, `dedup_map.parquet` and the facts of the pages behind the next generation.

    Raises:
        StoreError: no source has chunks yet.
        CollisionError: two sources share a page id.
    """
    tenant, config, store = making.key, making.config, making.store
    folder = store.candidate(tenant)
    making.reporter.begin(tenant, "dedup map")
    if (folder / BEGUN).exists():  # the build before was killed, perhaps, which no hook of a failure notices
        narrow_readers(config, tenant, making.log.warning)
    write_text(folder / BEGUN, "")
    sources = sorted(chunk_digests(config, store, tenant))
    if not sources:
        raise StoreError(f"no source of tenant {tenant!r} has chunks yet; run `citelock build`")
    known = page_facts(store, sources)  # of the tables that are read below, or of older ones: then one builds again
    settled = {key: settled_chunks(store, key) for key in sources}
    across = _across_sources(config, store, settled)
    everything = join_sources(across.chunks, lambda key, page_id: page_kind(page_id, config.sources[key]))
    ingestion = config.ingestion
    selection = select_chunks(everything, ingestion.drop_labels, ingestion.drop_boilerplate)
    embedder = open_embedder(config.embedding).name
    faults = still_left_out(store, tenant, everything, embedder)
    selection = selection.without_pages(faults)
    started, duplicates, computed = monotonic(), DEDUP_MAP.empty(), 0
    if ingestion.dedup_enabled:
        texts = (selection.chunks[name].to_pylist() for name in ("text", "text_hash"))
        cache, threshold = store.cache(tenant), ingestion.dedup_threshold
        prints, computed = SignatureCache(cache, signed=threshold < EXACT).fingerprints(*texts)
        duplicates = find_duplicates(selection.chunks, prints, threshold)
    seconds = monotonic() - started
    chunks = without_duplicates(selection.chunks, duplicates)
    left_out = selection.without(duplicates["dropped_id"].to_pylist(), "near-duplicate")
    accounts = {key: account for key, (_, account) in settled.items()}
    explained = {page: why for account in accounts.values() for page, why in account.explained.items()}
    for page in everything["page_id"].to_pylist():  # one may have no text but that of another source
        explained.pop(page, None)
    explained |= {page: why for page, why in faults.items() if page not in explained}
    state = CandidateState(
        inputs=tenant_inputs(
            config,
            {k: account.digest for k, account in accounts.items()},
            embedder,
            across.pages | left_out_inputs(store, tenant),
            known,
        ),
        embedder=embedder,
        sources={key: account.fingerprint for key, account in accounts.items()},
        enumerated={key: account.enumerated for key, account in accounts.items()},
        explained={**explained, **left_out.pages_without_chunks(everything)},
        duplicates_dropped=len(duplicates),
        selected=dict(Counter(chunks["source"].to_pylist())),
    )
    write_table(store.tenant(tenant) / "dedup_map.parquet", duplicates, DEDUP_MAP)
    write_table(folder / "selected.parquet", chunks, SELECTED_CHUNKS)
    tables = {key: SourceTables.read(store.source(key)) for key in sources}
    told, indexed = selection.told_in_sets(everything, faults), chunks["chunk_id"].to_pylist()
    pages = gathered_facts(tables, config, told, {*told["chunk_id"].to_pylist()}.difference(indexed), faults)
    BuildWorkspace.of(store, tenant).write_facts(pages, indexed)
    write_candidate(store, tenant, state)
    plan = plan_contexts(chunks, config.context, store.cache(tenant), store.home)
    expected = plan.estimate(read_last_run(store, tenant)) if plan else None
    return MadeSelection(
        selection, chunks, left_out, duplicates, state, across.resolved, computed, seconds, expected
    )  # fmt: skip


class _Across(NamedTuple):
    """Each source's chunks with included text of other sources, and the digests of the pages looked at."""

    chunks: dict[str, pa.Table]
    pages: dict[str, str]
    resolved: int = 0


def _across_sources(config: Config, store: Store, settled: dict[str, tuple[pa.Table, SourceAccount]]) -> _Across:
    """Take in what pages show of other sources' pages.

    A source whose pages are newer than its sections is being synced; it is left as it is, and published again when that
    is done, for its digest differs.
    """
    chunks = {key: table for key, (table, _) in settled.items()}
    if not shared_pages(store, chunks):
        return _Across(chunks, {})
    pages = {key: read_table(store.source(key) / "pages.parquet", PAGES) for key in chunks}
    digests = {key: pages_digest(table) for key, table in pages.items()}
    tokenizer, max_bytes = open_tokenizer(config.embedding), config.ingestion.max_page_bytes
    tables, resolved = dict(chunks), 0
    for key, table in chunks.items():
        state, source = read_state(store, key).sections, config.sources[key]
        if state is None or not state.missed or state.pages != digests[key]:
            continue
        listed = listed_pages(pages[key], source.id_prefix) if source.resolve_lists else None
        others = {other: rows for other, rows in pages.items() if other != key}
        missed = sorted(set(state.missed) & set(settled[key][1].enumerated))
        with LimitedReader(config.documents) as reader:
            including = IncludingSource(table, pages[key], missed, listed)
            across = with_other_sources(including, others, tokenizer, chunk_size(config, key), max_bytes, reader)
        tables[key], resolved = across.chunks, resolved + across.resolved
    return _Across(tables, digests, resolved)


class MadeContexts(NamedTuple):
    """The prefixes and their chunks, a model's contexts, and the figures for people."""

    prefixes: pa.Table
    chunks: pa.Table
    results: TenantContexts
    event: Event | None


def make_contexts(making: Making, observe: Callable[[str, dict[str, Any]], object] = lambda *_: None) -> MadeContexts:
    """Write `contexts.parquet`, and `chunks.parquet` with the prefix of every chunk of the selection.

    A model's contexts are stored as they arrive. `observe` receives an estimate and progress by name, if a model is
    used.
    """
    tenant, config, store = making.key, making.config, making.store
    folder, log = store.candidate(tenant), making.log
    making.reporter.begin(tenant, "contexts")
    watch = UsageReporter(
        making.reporter.track("contexts", log.info), log.info, lambda facts: observe("progress", facts)
    )
    selected = read_table(folder / "selected.parquet", SELECTED_CHUNKS)
    plan = plan_contexts(selected, config.context, store.cache(tenant), store.home)
    before = read_last_run(store, tenant)
    if plan:
        expected = plan.estimate(before)
        log.info(expected.line())
        observe("estimate", expected.facts())
    budget = open_budgets(config, [tenant], always=True).get(tenant) if plan else None
    results = write_contexts(plan, watch, budget)
    if budget:
        budget.close()
    template: Template = "none" if config.context.provider == "none" else "metadata"
    count_tokens = token_counter(open_tokenizer(config.embedding))
    prefixes = build_contexts(selected, template, results.written, results.failures, count_tokens)
    chunks = contextualized(selected, prefixes)
    write_table(folder / "contexts.parquet", prefixes, CONTEXTS)
    write_table(folder / "chunks.parquet", chunks, GENERATION_CHUNKS)
    after = note_run(store, tenant, results.failures, results.tally)
    if results.tally.total:
        log.info(results.tally.line())
    event = contexts_event(tenant, results.failures, before, after, datetime.now(UTC)) if plan else None
    return MadeContexts(prefixes, chunks, results, event)
