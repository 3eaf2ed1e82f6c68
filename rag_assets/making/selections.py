"""The indexed parts of a tenant's sources: chunks without near-duplicates, facts of pages, and the prefix of each
chunk."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.llm_contexts.tenant import (
    ContextEstimate,
    UsageReporter,
    contexts_event,
    note_run,
    plan_contexts,
    read_last_run,
    write_contexts,
)
from rag_assets.llm_contexts.writer import Contexts
from rag_assets.making import Making, listed_pages
from rag_assets.monitoring.alerts import Event
from rag_assets.parsing.reader import LimitedReader
from rag_assets.publishing.publish import narrow_readers
from rag_assets.publishing.workspace import BuildWorkspace
from rag_assets.sources.envelope import page_kind
from rag_assets.state import records
from rag_assets.state.content_cache import SignatureCache
from rag_assets.state.planning import chunk_digests, left_out_inputs, shared_pages, still_left_out
from rag_assets.steps.chunks.select import ChunkSelection, join_sources, select_chunks
from rag_assets.steps.contexts.contextualize import Template, build_contexts, contextualized, token_counter
from rag_assets.steps.dedup import EXACT, find_duplicates, without_duplicates
from rag_assets.steps.sections.anchors import Link, PageTargets
from rag_assets.steps.sections.splitting import IncludingSource, with_other_sources
from rag_serving.access.principals import EVERYONE
from rag_serving.artifacts.columns import strings
from rag_serving.artifacts.schema import (
    CONTEXTS,
    DEDUP_MAP,
    DUPLICATES,
    GENERATION_CHUNKS,
    PAGE_FACTS,
    PAGES,
    SECTIONS,
    SELECTED_CHUNKS,
)
from rag_serving.artifacts.store import Store, StoreError, read_table, write_table, write_text
from rag_serving.config.loading import Config
from rag_serving.hooks import open_budgets
from rag_serving.indexes.set_tables import Facts
from rag_serving.models import open_embedder, open_tokenizer

Row = dict[str, Any]
_OF_PAGES = [
    *("page_id", "version", "title", "space", "url", "status", "updated_at", "labels", "ancestors", "ancestor_titles"),
    *("author", "space_name", "source", "category", "lang", "readers"),
]
_OF_SECTIONS = ["page_id", "included_from", "also_readers", "links"]


class SourceTables(NamedTuple):
    """Hold what facts of one source are taken from: columns of PAGES and of SECTIONS."""

    pages: pa.Table
    sections: pa.Table

    @classmethod
    def read(cls, folder: Path) -> SourceTables:
        """Return those in the folder of a source. Raises StoreError: one is missing, damaged or of another version."""
        return cls(
            read_table(folder / "pages.parquet", PAGES, _OF_PAGES),
            read_table(folder / "sections.parquet", SECTIONS, _OF_SECTIONS),
        )


def gathered_facts(
    tables: Mapping[str, SourceTables],
    config: Config,
    texts: pa.Table,
    dropped: Collection[str],
    left_out: Collection[str] = (),
) -> Facts:
    """Return the facts of the pages of some sources, and the texts of dropped chunks. `texts`: CHUNKS with `source` and
    `kind`, of the generation and dropped ones; `dropped`: ids of chunks that are not indexed; `left_out`: ids of pages
    left out of the generation."""
    unwanted = {label.casefold() for label in config.ingestion.drop_labels}
    pages, links = list[Row](), defaultdict[str, list[Link]](list)
    for source, (its_pages, sections) in sorted(tables.items()):
        for row in its_pages.select(_OF_PAGES).to_pylist():
            if row["page_id"] not in left_out and unwanted.isdisjoint(map(str.casefold, row["labels"] or ())):
                pages.append({**row, "kind": page_kind(row["page_id"], config.sources[source])})
        own = pc.and_(pc.is_null(sections["included_from"]), pc.equal(sections["also_readers"], EVERYONE))
        for row in sections.filter(own).select(["page_id", "links"]).to_pylist():
            links[row["page_id"]] += row["links"]
    return Facts(page_facts(pages, links, texts), duplicates_of(texts, dropped))


def page_facts(pages: Iterable[Row], links: Mapping[str, list[Link]], texts: pa.Table) -> pa.Table:
    """Return PAGE_FACTS of rows of PAGES with their `kind`; `links`: those of each page's own text, `texts`: the
    columns page_id, text, lang, readers, page_readers and included_from of CHUNKS, dropped ones too."""
    rows = sorted(pages, key=lambda row: str(row["page_id"]))
    targets = PageTargets(row for row in rows if row["kind"] != "comments")
    languages = dict(zip(texts["page_id"].to_pylist(), texts["lang"].to_pylist(), strict=True))
    words, included = _words(texts), defaultdict[str, set[str]](set)
    for page_id, other in zip(texts["page_id"].to_pylist(), texts["included_from"].to_pylist(), strict=True):
        included[page_id] |= {other} - {None, page_id}
    return PAGE_FACTS.table(
        [
            {
                **row,
                "space_name": row["space_name"] or row["space"],
                "lang": row["lang"] or languages.get(row["page_id"]),
                "words": words.get(row["page_id"], 0),
                "includes": sorted(included[row["page_id"]]),
                "links": _targets(row, links.get(row["page_id"], []), targets),
                **{name: row[name] or [] for name in ("labels", "ancestors", "ancestor_titles")},
            }
            for row in rows
        ]
    )


def duplicates_of(texts: pa.Table, dropped: Collection[str]) -> pa.Table:
    """Return DUPLICATES: the rows of CHUNKS with `source` and `kind` that are not indexed, by page and place."""
    rows = texts.filter(pc.is_in(texts["chunk_id"], value_set=strings(dropped)))
    return rows.select(DUPLICATES.columns.names).cast(DUPLICATES.arrow)


def _words(texts: pa.Table) -> dict[str, int]:
    shown = texts.filter(pc.equal(texts["readers"], texts["page_readers"]))
    counted = pa.table({"page": shown["page_id"], "words": pc.count_substring_regex(shown["text"], r"\S+")})
    sums = counted.group_by("page").aggregate([("words", "sum")])
    return dict(zip(sums["page"].to_pylist(), sums["words_sum"].to_pylist(), strict=True))


def _targets(page: Row, links: Iterable[Link], targets: PageTargets) -> list[Row]:
    """Return the distinct targets of a page's links, in order, without files and places on the page itself."""
    found: dict[tuple[str | None, str | None], None] = {}
    for link in links:
        if link["kind"] == "page" or (link["kind"] == "url" and not link["target"].startswith("#")):
            target = targets.of(link, page["space"])
            found[target, link["target"] if link["kind"] == "url" else None] = None
    return [
        {"page_id": page_id, "url": url} for page_id, url in found if (page_id or url) and page_id != page["page_id"]
    ]


@dataclass(frozen=True)
class MadeSelection:
    """The chunks that are indexed, the duplicates that are not, and what it took."""

    candidates: ChunkSelection  # near-duplicates included
    kept: pa.Table
    left_out: ChunkSelection
    duplicates: pa.Table
    state: records.CandidateState
    includes_across_sources: int
    fingerprints_computed: int
    seconds: float
    estimate: ContextEstimate | None  # where a model writes contexts


def make_selection(making: Making) -> MadeSelection:
    """Write `selected.parquet`, `dedup_map.parquet` and the facts of the pages behind the next generation. Raises
    StoreError: no source has chunks yet, or pages failed and no other has any. Raises CollisionError: two sources share
    a page id."""
    tenant, config, store = making.key, making.config, making.store
    folder = store.candidate(tenant)
    making.reporter.begin(tenant, "dedup map")
    if (folder / records.BEGUN).exists():  # the build before was killed, perhaps, which no hook of a failure notices
        narrow_readers(config, tenant, making.log.warning)
    write_text(folder / records.BEGUN, "")
    sources = sorted(chunk_digests(config, store, tenant))
    if not sources:
        raise StoreError(f"no source of tenant {tenant!r} has chunks yet; run `citelock build`")
    known = records.page_facts_digests(
        store, sources
    )  # of the tables that are read below, or of older ones: then one builds again
    settled = {key: records.settled_chunks(store, key) for key in sources}
    across = _across_sources(config, store, settled)
    everything = join_sources(across.chunks, lambda key, page_id: page_kind(page_id, config.sources[key]))
    if not len(everything) and (failed := _failed(store, sources)):
        page, why = min(failed.items())
        raise StoreError(
            f"no page of tenant {tenant!r} could be read ({len(failed)} failed, such as {page}: {why}); "
            "nothing is published, and what was, stays"
        )
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
    state = records.CandidateState(
        inputs=records.tenant_inputs(
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
    records.write_candidate(store, tenant, state)
    plan = plan_contexts(chunks, config.context, store.cache(tenant), store.home)
    expected = plan.estimate(read_last_run(store, tenant)) if plan else None
    return MadeSelection(
        selection, chunks, left_out, duplicates, state, across.resolved, computed, seconds, expected
    )  # fmt: skip


def _failed(store: Store, sources: Iterable[str]) -> dict[str, str]:
    failed: dict[str, str] = {}
    for key in sources:
        synced, sections = records.read_last_sync(store.source(key)), records.read_state(store, key).sections
        failed |= (synced.failed if synced else {}) | (sections.failed if sections else {})
    return failed


class _Across(NamedTuple):
    """Each source's chunks with included text of other sources, and the digests of the pages looked at."""

    chunks: dict[str, pa.Table]
    pages: dict[str, str]
    resolved: int = 0


def _across_sources(
    config: Config, store: Store, settled: dict[str, tuple[pa.Table, records.SourceAccount]]
) -> _Across:
    """Take in what pages show of other sources' pages. A source whose pages are newer than its sections is being
    synced; it is left as it is, and published again when that is done, for its digest differs."""
    chunks = {key: table for key, (table, _) in settled.items()}
    if not shared_pages(store, chunks):
        return _Across(chunks, {})
    pages = {key: read_table(store.source(key) / "pages.parquet", PAGES) for key in chunks}
    digests = {key: records.pages_digest(table) for key, table in pages.items()}
    tokenizer, max_bytes = open_tokenizer(config.embedding), config.ingestion.max_page_bytes
    tables, resolved = dict(chunks), 0
    for key, table in chunks.items():
        state, source = records.read_state(store, key).sections, config.sources[key]
        if state is None or not state.missed or state.pages != digests[key]:
            continue
        listed = listed_pages(pages[key], source.id_prefix) if source.resolve_lists else None
        others = {other: rows for other, rows in pages.items() if other != key}
        missed = sorted(set(state.missed) & set(settled[key][1].enumerated))
        with LimitedReader(config.documents) as reader:
            including = IncludingSource(table, pages[key], missed, listed)
            across = with_other_sources(
                including, others, tokenizer, records.chunk_size(config, key), max_bytes, reader
            )
        tables[key], resolved = across.chunks, resolved + across.resolved
    return _Across(tables, digests, resolved)


def make_contexts(
    making: Making, observe: Callable[[str, dict[str, Any]], object] = lambda *_: None
) -> tuple[pa.Table, pa.Table, Contexts, Event | None]:
    """Write `contexts.parquet`, and `chunks.parquet` with the prefix of every chunk of the selection. A model's
    contexts are stored as they arrive. `observe` receives an estimate and progress by name, if a model is used."""
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
    return prefixes, chunks, results, event
