"""The assets of both jobs: each calls a function of `making` under a lock and reports metadata.

A chunk has one vector, or one for each window of a long one, computed once for every text.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any, TypeAlias, cast, get_args

import dagster as dg
import pyarrow.compute as pc

from evals.evaluation.candidate import VERSION as EVALUATION_VERSION
from evals.evaluation.candidate import CandidateGeneration, evaluate_candidate, quality_results
from evals.reports import plots
from evals.reports.evaluation import evaluation_report, measured
from evals.reports.report import Plot, html, page_url, report_url
from rag_assets import asset_checks, metadata
from rag_assets.embedding_usage import BuildVectors, PageUsage, WaitFigures
from rag_assets.making import generations
from rag_assets.making.selections import make_contexts, make_selection
from rag_assets.making.tables import make_chunks, make_pages, make_sections
from rag_assets.monitoring.alerts import Event, send
from rag_assets.partitions import SOURCES, TENANTS
from rag_assets.resources import (
    Context,
    Installation,
    StepReporter,
    of_source_step,
    of_tenant,
    of_tenant_step,
    override_of,
    writing,
)
from rag_assets.sources.base import READING_VERSION
from rag_assets.state.content_cache import VERSION as VECTORS_VERSION
from rag_assets.state.records import read_checked, write_checked
from rag_assets.steps.chunks import chunking
from rag_assets.steps.contexts import contextualize
from rag_assets.steps.contexts.contextualize import VERSION as CONTEXTS_VERSION
from rag_assets.steps.dedup import SCOPES, effectiveness
from rag_assets.steps.dedup import VERSION as DEDUP_VERSION
from rag_assets.steps.formats.macros import Outcome
from rag_assets.steps.sections import splitting
from rag_assets.steps.sections.anchors import anchor_figures, landings
from rag_assets.traced import traced
from rag_serving.artifacts.manifest import FORMAT
from rag_serving.artifacts.schema import CHUNKS, DEDUP_MAP, GENERATION_CHUNKS, PAGES, SECTIONS
from rag_serving.artifacts.signed_files import read_signed, write_signed_text
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.config.serving import Serving
from rag_serving.hooks import Event as AuditEvent
from rag_serving.hooks import record
from rag_serving.indexes import chroma, lexical
from rag_serving.indexes.catalog import EVAL_HTML, EVAL_REPORT, evaluation_name
from rag_serving.models import open_embedder

Decorator: TypeAlias = Callable[[Callable[..., Any]], dg.AssetsDefinition]


_OWNERS = ["team:data-engineering"]


def ingest_asset(**options: Any) -> Decorator:
    """Return the decorator of an asset that is made for each source."""
    return _traced(dg.asset(partitions_def=SOURCES, group_name="ingest", owners=_OWNERS, **options))


def publish_asset(**options: Any) -> Decorator:
    """Return the decorator of an asset that is made for each tenant."""
    return _traced(dg.asset(partitions_def=TENANTS, group_name="publish", owners=_OWNERS, **options))


def _traced(asset: Any) -> Decorator:
    return lambda step: cast(dg.AssetsDefinition, asset(traced(step)))


def retry_after(seconds: int) -> dg.RetryPolicy:
    """Return a policy that tries twice more, after so many seconds and then twice as many."""
    return dg.RetryPolicy(max_retries=2, delay=seconds, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)


@ingest_asset(
    check_specs=[asset_checks.SYNC_COMPLETE],
    kinds={"confluence", "parquet"},
    code_version=str(READING_VERSION),
    pool="confluence",
    retry_policy=retry_after(5),
)
def pages(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
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


@ingest_asset(
    deps=["pages"], kinds={"parquet"}, code_version=str(splitting.VERSION), check_specs=[asset_checks.MACROS_LOST]
)
def sections(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """Each page's text split at its headings: Markdown, the heading path, and the anchor for links.

    Only pages whose content changed are read. `macro_ledger.parquet` beside it counts every macro as rendered,
    resolved, unresolved, navigation, hidden or lost. A page that shows text or lists of others is read again each time.
    """
    making = of_source_step(context, installation, reporter)
    folder = making.store.source(making.key)
    with writing(making.config, folder):
        update, pages, unrendered_before = make_sections(making)
    macros = update.outcomes()
    anchors, landed = anchor_figures(update.sections), [one.target for one in landings(update.sections, pages)]
    shown = ["heading_path", "anchor", "text"]
    return dg.MaterializeResult(
        metadata={
            **metadata.of_table(update.sections, SECTIONS, folder / "sections.parquet", shown),
            "pages_read": update.read,
            "sections_failed": len(update.failed),
            "why_failed": dg.MetadataValue.md(metadata.named_reasons(update.failed)),
            "pages_cut_short": len(update.cut),
            "why_cut_short": dg.MetadataValue.md(metadata.named_reasons(update.cut)),
            **{f"macros_{outcome}": macros.get(outcome, 0) for outcome in get_args(Outcome)},
            "sections_of_other_pages": len(update.sections) - update.sections["included_from"].null_count,
            "anchor_validity": anchors.validity,
            "anchors_repeated": anchors.repeated,
            "anchors_unconfirmed": anchors.unconfirmed,
            "anchor_rules": dict(anchors.rules),
            "links_to_anchors": len(landed),
            "links_to_anchors_dead": landed.count(None),
        },
        check_results=[asset_checks.macros_lost(update, unrendered_before)],
    )


@ingest_asset(
    deps=["pages", "sections"],
    kinds={"parquet"},
    code_version=str(chunking.VERSION),
    check_specs=[asset_checks.PAGES_ACCOUNTED_FOR, asset_checks.CHUNKS_HAVE_ANCHORS],
)
def chunks(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
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


@publish_asset(
    deps=[dg.AssetDep("chunks", partition_mapping=dg.AllPartitionMapping())],
    kinds={"parquet"},
    code_version=str(DEDUP_VERSION),
)
def dedup_map(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """The chunk that replaces each dropped one: the newest near-duplicate stays, with the other places of its text.

    Chunks under a dropped label and boilerplate are left out first, and every page without a chunk is explained. A
    chunk is dropped only if all its readers may read the one that stays. Two sources that share a page id are refused.
    If a model writes contexts, `contexts_estimate` gives the number of requests in the next asset, and their cost.
    """
    making = of_tenant_step(context, installation, reporter)
    file = making.store.tenant(making.key) / "dedup_map.parquet"
    with writing(making.config, file.parent):
        made = make_selection(making)
    duplicates, chunks = made.duplicates, made.candidates.chunks
    effects = effectiveness(chunks, duplicates)
    rows = [{"space": e.space, "chunks": e.chunks, **{s: e.dropped.get(s, 0) for s in SCOPES}} for e in effects]
    by_space = {effect.space: [effect.dropped.get(scope, 0) for scope in SCOPES] for effect in effects}
    return dg.MaterializeResult(
        metadata={
            **metadata.of_table(duplicates, DEDUP_MAP, file, DEDUP_MAP.columns.names),
            "duplicates_dropped": len(duplicates),
            "includes_across_sources": made.includes_across_sources,
            "chunks_kept": len(made.kept),
            "scopes": dict(Counter(duplicates["scope"].to_pylist())),
            "identical": pc.sum(pc.equal(duplicates["jaccard"], 1.0)).as_py() or 0,
            "effectiveness": dg.MetadataValue.md(metadata.markdown_table(rows, ["space", "chunks", *SCOPES])),
            "dropped": dg.MetadataValue.md(metadata.stacked_bars(by_space, SCOPES, "Duplicates dropped", "chunks")),
            "fingerprints_computed": made.fingerprints_computed,
            "seconds": round(made.seconds, 2),
            **({"contexts_estimate": made.estimate.facts()} if made.estimate else {}),
            "sources": dict(Counter(chunks["source"].to_pylist())),
            "chunks_left_out": len(made.left_out.excluded),
            "why_left_out": made.left_out.reasons(),
            "pages_explained": len(made.state.explained),
            "why_explained": dg.MetadataValue.md(metadata.named_reasons(made.state.explained)),
        }
    )


@publish_asset(deps=["dedup_map"], kinds={"parquet"}, pool="context", code_version=str(CONTEXTS_VERSION))
def contexts(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """The prefix of every indexed chunk, above its text in both indexes.

    A model's contexts are stored as they arrive: a killed run resumes, and a restarted one requests only what is
    missing.
    """
    making = of_tenant_step(context, installation, reporter)
    tenant, config, store = making.key, making.config, making.store

    def observe(name: str, facts: dict[str, Any]) -> None:
        context.log_event(dg.AssetObservation(context.asset_key, partition=tenant, metadata={name: facts}))

    with writing(config, store.tenant(tenant)):
        prefixes, chunks, results, event = make_contexts(making, observe)
    shown = ["chunk_id", "source", "prefix", "text"]
    return dg.MaterializeResult(
        metadata={
            **metadata.of_table(chunks, GENERATION_CHUNKS, store.candidate(tenant) / "chunks.parquet", shown),
            "levels": dict(Counter(prefixes["level"].to_pylist())),
            **results.tally.facts(),
            "alert": _tell(context, event, config) if event else "nothing to tell",
            "failures": dg.MetadataValue.md(metadata.named_reasons(results.failures, "chunk")),
            **_quality(prefixes["quality"].drop_null().to_pylist()),
        }
    )


def _tell(context: Context, event: Event, config: Config) -> str:
    """Log an event, hand it to the receivers in `monitoring`, and return the outcome."""
    result = "; ".join(send(event, config.monitoring)) or "none is configured"
    context.log.warning("%s (alert: %s)", event["text"], result)
    return result


def _quality(scores: list[float]) -> dict[str, dg.MetadataValue]:
    if not scores:
        return {}
    return {"quality": dg.MetadataValue.md(metadata.histogram(scores, "Quality of contexts", "score"))}


_USAGE = ("page_id", "texts", "tokens", "cost")


@publish_asset(
    deps=["contexts"],
    kinds={"onnx", "numpy"},
    pool="embedding",
    code_version=f"{VECTORS_VERSION}.{contextualize.WINDOWS_VERSION}",
    retry_policy=retry_after(3),
)
def embeddings(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """Vectors of prefix and text, and of the sentences that answers are extracted from (`indexing.sentence_vectors`);
    what was embedded before comes from the tenant's cache, whatever page it is on. A passage that is longer than the
    model reads at once has a vector for each of its windows, of which the nearest to a question counts.

    The cache is written every 64 texts, or every second: a run that is killed goes on where it was.
    """
    making = of_tenant_step(context, installation, reporter)
    config, folder = making.config, making.store.tenant(making.key)

    def dead(build: BuildVectors) -> None:
        figures = taken(build.usage(), build.waits)
        observation = dg.AssetObservation(context.asset_key, partition=making.key, metadata=figures)
        context.instance.report_runless_asset_event(observation)  # an event of the run would be lost with the step

    with writing(config, folder, context.run.run_id):
        made = generations.make_embeddings(making, dead)
    embedded, sentences = made.embedded, made.sentences
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": made.chunks,
            "dagster/column_schema": metadata.column_schema(GENERATION_CHUNKS),
            "file": dg.MetadataValue.path(str(making.store.candidate(making.key) / "embeddings")),
            "model": made.model,
            "dimension": int(embedded.vectors.shape[1]),
            "texts_embedded": embedded.computed,
            "texts_from_cache": embedded.texts - embedded.computed,
            "vectors": len(embedded.vectors),
            "sentences": sentences.sentences,
            "sentences_embedded": sentences.embedded,
            "sentences_bytes": sentences.bytes,
            "seconds": round(made.seconds, 2),
            "texts_per_second": round(embedded.computed / made.seconds, 1) if embedded.computed else 0.0,
            **taken(made.usage, made.waits),
        }
    )


def taken(usage: Mapping[str, PageUsage], waits: WaitFigures | None) -> dict[str, Any]:
    """Return the usage of embedding as metadata: tokens, cost, the dearest pages, and the figures of the queue."""
    pages = usage.values()
    dearest = sorted(pages, key=lambda page: (page.cost, page.tokens, page.page_id), reverse=True)[: metadata.NAMED]
    told: dict[str, Any] = {
        "tokens": sum(page.tokens for page in pages),
        "cost": round(sum(page.cost for page in pages), 6),
        "pages_embedded": dg.MetadataValue.md(metadata.markdown_table(map(asdict, dearest), _USAGE)),
    }
    return told | ({f"queue_{name}": value for name, value in asdict(waits).items()} if waits else {})


@publish_asset(deps=["embeddings"], kinds={"chroma"}, code_version=str(chroma.FORMAT))
def dense_index(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """Nearest-neighbour shards, named by the digest of their content: an unchanged one is named again, not rebuilt."""
    making = of_tenant_step(context, installation, reporter)
    with writing(making.config, making.store.tenant(making.key), context.run.run_id):
        built = generations.make_dense_index(making)
    rows = [shard.model_dump() for shard in built.shards[: metadata.NAMED]]
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": built.chunks,
            "shards_built": built.built,
            "shards_reused": built.reused,
            "dimension": built.dimension,
            "shards": dg.MetadataValue.md(metadata.markdown_table(rows, ["name", "collection", "chunks"])),
        }
    )


@publish_asset(deps=["contexts"], kinds={"bm25"}, code_version=str(lexical.FORMAT))
def lexical_index(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """BM25 over prefix and text of every chunk, with terms that know identifiers."""
    making = of_tenant_step(context, installation, reporter)
    with writing(making.config, making.store.tenant(making.key), context.run.run_id):
        built = generations.make_lexical_index(making)
    return dg.MaterializeResult(metadata={"dagster/row_count": built.chunks, "terms": built.terms})


@publish_asset(
    deps=["dense_index", "lexical_index"],
    kinds={"folder"},
    code_version=str(FORMAT),
    check_specs=asset_checks.GENERATION,
)
def generation(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """An immutable candidate: one folder, one manifest that names every chunk and every shard. Nobody reads it yet.

    Its checks block: a candidate that fails one stays unpublished and can be inspected. Documents that a check
    names are left out of the next build, where they are few.
    """
    making = of_tenant_step(context, installation, reporter)
    store, tenant = making.store, making.key
    with writing(making.config, store.tenant(tenant)):
        manifest, results, originals = generations.make_generation(making)
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
def published_generation(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """The generation that questions are answered from: one atomic rename moves the tenant's `current` pointer to it.

    `citelock generations rollback` moves it back. Older generations are kept for that, as `keep_generations` says.
    """
    making = of_tenant_step(context, installation, reporter)
    tenant, config, store = making.key, making.config, making.store
    with writing(config, store.tenant(tenant)):
        gates = quality_results(store, tenant, read_checked(store, tenant).generation)
        checked, publication, pruned = generations.make_publication(making, gates)
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


@publish_asset(
    deps=["generation"],
    kinds={"json"},
    code_version=str(EVALUATION_VERSION),
    check_specs=[asset_checks.QUALITY_GATES, asset_checks.GOLD_STANDS],
)
def eval_report(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """The tenant's gold set, run against the unpublished candidate through the pipeline that readers use.

    A failing gate stops the publication and names the questions; the candidate remains for inspection. The run tag
    `citelock/override_gates` with a reason publishes it anyway, and is recorded.
    """
    tenant, config, store = of_tenant(context.partition_key, installation)
    reporter.begin(tenant, "evaluation")
    with writing(config, store.tenant(tenant)):
        checked = read_checked(store, tenant)
        embedder = open_embedder(config.embedding)
        override = override_of(context)
        progress = reporter.track("questions asked", context.log.info)
        candidate = CandidateGeneration(store, tenant, checked.generation, config, embedder)
        evaluation = evaluate_candidate(candidate, override, progress)
        gates = {name: passed for name, passed in checked.gates.items() if not name.startswith("quality: ")}
        gates |= {f"quality: {verdict.gate}": verdict.passed for verdict in evaluation.verdicts}
        overridden = override if evaluation.failed else None
        if overridden:
            failed = [verdict.gate for verdict in evaluation.failed]
            details = {"reason": config.privacy.redactor().redacted(overridden), "gates": failed}
            record(config, tenant, AuditEvent("gates.overridden", subject=checked.generation, details=details))
        write_checked(store, tenant, checked.model_copy(update={"gates": gates, "override": overridden}))
    file = store.generation(tenant, checked.generation) / EVAL_REPORT
    facts = evaluation.payload
    if facts["note"]:
        context.log.warning(facts["note"])
    return dg.MaterializeResult(
        metadata={
            "generation": checked.generation,
            "questions_asked": facts["gold"]["asked"],
            "gates_failed": len(evaluation.failed),
            "override": overridden or "none",
            "seconds": facts["seconds"],
            "file": dg.MetadataValue.path(str(file)),
            **{name.replace("@", "_at_"): figure["mean"] for name, figure in facts["summary"].items()},
            **_told(context, store, tenant, facts, config.serving),
        },
        check_results=[
            asset_checks.quality_gates(
                evaluation.verdicts, overridden, {name: figure["mean"] for name, figure in facts["summary"].items()}
            ),
            asset_checks.gold_stands([stale.line() for stale in evaluation.stale], facts["gold"]["questions"]),
        ],
    )


def _told(
    context: Context, store: Store, tenant: str, facts: Mapping[str, Any], serving: Serving
) -> dict[str, dg.MetadataValue]:
    """Return the report on the page and as a file; nothing if it cannot be made, for publishing does not wait for
    it."""
    try:
        other = facts["compared_with"]
        is_other = other not in (None, facts["generation"])
        before = read_signed(store, store.generation(tenant, other) / EVAL_REPORT) if is_other else None
        report = replace(evaluation_report(facts, before), plots=_plots(facts, before))
        file = store.generation(tenant, facts["generation"]) / EVAL_HTML
        write_signed_text(store, file, html(report))
        url = report_url(serving, tenant, evaluation_name(facts["generation"]))
        return metadata.of_report(report, file, url)
    except Exception as error:  # whatever it is, the gates have spoken
        context.log.warning(f"no report: {type(error).__name__}: {error}")
        return {}


def _plots(facts: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[Plot]:
    values = measured(facts, before)
    parts = ["this generation", "before"] if before else ["this generation"]
    return [Plot("Measures", plots.bars(values, parts, "Measures", "mean over the questions"))] if values else []
