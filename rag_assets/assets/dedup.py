"""The asset `dedup_map`: the chunks of a tenant that are indexed, without near-duplicates."""

from collections import Counter
from time import monotonic
from typing import NamedTuple

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets import metadata
from rag_assets.assets.groups import publish_asset
from rag_assets.llm_contexts.tenant import plan_contexts, read_last_run
from rag_assets.parsing.reader import LimitedReader
from rag_assets.progress import Reporter
from rag_assets.publishing.narrowing import narrow_readers
from rag_assets.publishing.page_facts import SourceTables, gathered_facts
from rag_assets.publishing.workspace import BuildWorkspace
from rag_assets.resources import Installation, listed_pages, of_tenant, writing
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
from rag_assets.steps.chunks.select import join_sources, select_chunks
from rag_assets.steps.dedup import SCOPES, VERSION, effectiveness, find_duplicates, without_duplicates
from rag_assets.steps.sections.splitting import IncludingSource, with_other_sources
from rag_serving.artifacts.schema import DEDUP_MAP, PAGES, SELECTED_CHUNKS
from rag_serving.artifacts.store import Store, StoreError, read_table, write_table, write_text
from rag_serving.config.loading import Config
from rag_serving.models import open_embedder, open_tokenizer


@publish_asset(
    deps=[dg.AssetDep("chunks", partition_mapping=dg.AllPartitionMapping())],
    kinds={"parquet"},
    code_version=str(VERSION),
)
def dedup_map(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """Which chunk is dropped for which: the newest of near-duplicates stays, and remembers where its text stands too.

    Chunks under a dropped label and boilerplate are left out before, and every page without a chunk is explained. A
    chunk is dropped only if whoever may read it may read the one that stays. Two sources that share a page id are
    refused. Where a model writes contexts, `contexts_estimate` tells what the next asset will ask of it, and its cost.
    """
    tenant, config, store = of_tenant(context.partition_key, installation)
    folder = store.candidate(tenant)
    reporter.begin(tenant, "dedup map")
    with writing(config, store.tenant(tenant)):
        if (folder / BEGUN).exists():  # the build before was killed, perhaps, which no hook of a failure notices
            narrow_readers(config, tenant, context.log.warning)
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
            prints, computed = SignatureCache(store.cache(tenant)).fingerprints(*texts)
            duplicates = find_duplicates(selection.chunks, prints, ingestion.dedup_threshold)
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
        pages = gathered_facts(tables, config, selection.chunks, duplicates["dropped_id"].to_pylist(), faults)
        BuildWorkspace.of(store, tenant).write_facts(pages, chunks["chunk_id"].to_pylist())
        write_candidate(store, tenant, state)
        plan = plan_contexts(chunks, config.context, store.cache(tenant), store.home)
        expected = plan.estimate(read_last_run(store, tenant)) if plan else None
    effects = effectiveness(selection.chunks, duplicates)
    rows = [{"space": e.space, "chunks": e.chunks, **{s: e.dropped.get(s, 0) for s in SCOPES}} for e in effects]
    by_space = {effect.space: [effect.dropped.get(scope, 0) for scope in SCOPES] for effect in effects}
    return dg.MaterializeResult(
        metadata={
            **metadata.of_table(
                duplicates, DEDUP_MAP, store.tenant(tenant) / "dedup_map.parquet", DEDUP_MAP.columns.names
            ),
            "duplicates_dropped": len(duplicates),
            "includes_across_sources": across.resolved,
            "chunks_kept": len(chunks),
            "scopes": dict(Counter(duplicates["scope"].to_pylist())),
            "identical": pc.sum(pc.equal(duplicates["jaccard"], 1.0)).as_py() or 0,
            "effectiveness": dg.MetadataValue.md(metadata.markdown_table(rows, ["space", "chunks", *SCOPES])),
            "dropped": dg.MetadataValue.md(metadata.stacked_bars(by_space, SCOPES, "Duplicates dropped", "chunks")),
            "fingerprints_computed": computed,
            "seconds": round(seconds, 2),
            **({"contexts_estimate": expected.facts()} if expected else {}),
            "sources": dict(Counter(selection.chunks["source"].to_pylist())),
            "chunks_left_out": len(left_out.excluded),
            "why_left_out": left_out.reasons(),
            "pages_explained": len(state.explained),
            "why_explained": dg.MetadataValue.md(metadata.named_reasons(state.explained)),
        }
    )


class _Across(NamedTuple):
    """Each source's chunks with text that its pages show of other sources, and the digests of the pages looked at."""

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
