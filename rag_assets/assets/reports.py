"""The assets for analysts: each is a report of one tenant, or of one day."""

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from evals.evaluation.compare import is_run, saved_runs
from evals.evaluation.evaluate import EvaluationError
from evals.evaluation.gold import GoldError, live_pages, tenant_gold
from evals.evaluation.metrics import to_csv
from evals.evaluation.ragas_scores import RagasScores, ragas_samples, ragas_scores
from evals.reports import ablation, dedup, plots, quality, ragas, retrieval, telemetry, telemetry_days
from evals.reports import contradictions as report
from evals.reports.costs import cost_tables, read_build_costs
from evals.reports.report import (
    Plot,
    Report,
    forget_days,
    markdown,
    markdown_table,
    report_url,
    reports_folder,
    write_report,
)
from rag_assets import asset_checks, metadata
from rag_assets.partitions import DAYS, TENANTS
from rag_assets.resources import Context, Installation, StepReporter, of_tenant, opened
from rag_assets.state.contradictions import acknowledged_of, tenant_findings
from rag_assets.state.planning import chunk_digests
from rag_assets.state.records import read_publish_state
from rag_assets.steps.chunks.select import select_chunks
from rag_assets.steps.contradictions.findings import HEADINGS, counted, is_open
from rag_assets.steps.dedup import SCOPES, Effect, effectiveness
from rag_serving.artifacts.schema import CHUNKS, DEDUP_MAP
from rag_serving.artifacts.signed_files import read_signed
from rag_serving.artifacts.store import Store, StoreError, read_json, read_table, write_json, write_text
from rag_serving.config.loading import Config, ConfigError
from rag_serving.escaping.targets import for_markdown
from rag_serving.indexes.catalog import (
    CONTRADICTIONS,
    EVAL_REPORT,
    QUALITY,
    RETRIEVAL,
    TELEMETRY,
    current_generation,
    evaluations,
    published_at,
)
from rag_serving.telemetry.recorder import TelemetryError

if TYPE_CHECKING:
    from sqlalchemy import Engine

Found = TypeVar("Found")


def report_asset(
    *after: str,
    version: int,
    partitions: dg.PartitionsDefinition[str] = TENANTS,
    one_run: bool = False,
    checks: Sequence[dg.AssetCheckSpec] = (),
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Return the decorator of a report that is made after these assets. With `one_run` all requested partitions are
    made in one run; otherwise each has its own, like sources and tenants, so that a failure affects no other."""

    def decorated(report: Callable[..., Any]) -> dg.AssetsDefinition:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)  # of backfill policies; the version is pinned
            return dg.asset(
                partitions_def=partitions,
                deps=list(after),
                group_name="reports",
                kinds={"html"},
                owners=["team:analytics"],
                code_version=str(version),
                check_specs=checks,
                backfill_policy=dg.BackfillPolicy.single_run() if one_run else None,
            )(report)

    return decorated


def shown(
    report: Report, installation: Installation, tenant: str, name: str, plots: Sequence[Plot] = ()
) -> dict[str, dg.MetadataValue]:
    """Write a tenant's report with plots and return it as metadata, with where its file and its page are."""
    report = replace(report, plots=[*report.plots, *plots])
    config, store = opened(installation)
    return metadata.of_report(
        report, write_report(store, tenant, name, report), report_url(config.serving, tenant, name)
    )


_DAYS = 30  # of questions that count for a page's frequency


@report_asset("published_generation", version=report.VERSION, checks=[asset_checks.NOTHING_TO_MEND])
def contradictions(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """Return statements of two pages that give another value for the same thing, links that lead nowhere, pages past
    their review date or without an owner, and copies that drift apart.

    The same as `citelock lint --tenant`. It quotes pages regardless of their readers: the report is for operators.
    Findings acknowledged in `acknowledged/TENANT.yaml` beside the gold sets are left out.
    """
    tenant, config, store = of_tenant(context.partition_key, installation)
    reporter.begin(tenant, "contradictions")
    today = datetime.now(UTC).date()
    try:
        known = acknowledged_of(config, tenant)
        advance = reporter.track("pages", context.log.info)
        generation, _, findings = tenant_findings(config, store, tenant, today, advance)
    except (StoreError, ConfigError) as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    findings = counted(findings, telemetry_days.asked_about(config, tenant, context.log.warning))
    left = [one for one in findings if is_open(one, known, today)]
    facts = {"questions without an answer": report_url(config.serving, tenant, QUALITY)}
    made = report.contradictions_report(tenant, generation, left, len(findings) - len(left), facts)
    counts = Counter(one.kind for one in left)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(left),
            "acknowledged": len(findings) - len(left),
            **{kind: counts[kind] for kind in HEADINGS},
            **shown(made, installation, tenant, CONTRADICTIONS),
        },
        check_results=[asset_checks.nothing_to_mend(left)],
    )


@report_asset("published_generation", version=ablation.VERSION)
def ablation_report(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """Return the results of the tenant's gold set on the published generation with each stage on and off.

    Started by hand: it runs every question some fifteen times. The same as `citelock evaluate --ablate`; CSV and JSON
    are beside the HTML file.
    """
    from evals.evaluation.ablation import ablate_answers

    tenant, config, store = of_tenant(context.partition_key, installation)
    reporter.begin(tenant, "ablation report")
    track = reporter.track("variants measured", context.log.info)
    try:
        gold = tenant_gold(config.evaluation.gold, tenant)
        rows = ablate_answers(config, tenant, gold, lambda _, done, total: track(done, total)) if gold else []
    except (GoldError, StoreError, EvaluationError) as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    folder = reports_folder(store, tenant)
    write_json(folder / "ablation.json", rows)
    write_text(folder / "ablation.csv", to_csv(rows))
    report = ablation.ablation_report(tenant, store.current(tenant) or "", rows)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(rows),
            "csv": dg.MetadataValue.path(str((folder / "ablation.csv").absolute())),
            **shown(report, installation, tenant, "ablation", _ablation_plots(rows)),
        }
    )


def _ablation_plots(rows: Sequence[Mapping[str, Any]]) -> list[Plot]:
    """Plot the first concerns of readers: is the question answered, is the citation right, is the page found."""
    shown = [
        name for name in ("answerability", "citation_recall", "ndcg@10") if rows and name in ablation.measures_of(rows)
    ]
    titles = {name: f"{name.replace('_', ' ')} against the defaults" for name in shown}
    return [
        Plot(title, plots.bars(ablation.differences(rows, name), ["difference"], title, "difference"))
        for name, title in titles.items()
    ]


@report_asset("dedup_map", version=dedup.VERSION)
def dedup_report(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """Return how much of a tenant's text occurs in several places, where, and which occurrence is indexed.

    The dedup map is that of the last publish run. Chunks synced since then are listed by id alone.
    """
    tenant, config, store = of_tenant(context.partition_key, installation)
    reporter.begin(tenant, "dedup report")
    try:
        duplicates = read_table(store.tenant(tenant) / "dedup_map.parquet", DEDUP_MAP)
        tables = [
            read_table(store.source(key) / "chunks.parquet", CHUNKS) for key in chunk_digests(config, store, tenant)
        ]
    except StoreError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    everything = pa.concat_tables(tables) if tables else CHUNKS.empty()
    chunks = select_chunks(everything, config.ingestion.drop_labels, config.ingestion.drop_boilerplate).chunks
    effects = effectiveness(chunks, duplicates.filter(pc.is_in(duplicates["dropped_id"], chunks["chunk_id"])))
    report = dedup.dedup_report(tenant, chunks.select(dedup.COLUMNS), duplicates, effects)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(duplicates),
            "duplicates_dropped": len(duplicates),
            "chunks": len(chunks),
            **shown(report, installation, tenant, "dedup", _dedup_plots(duplicates, effects)),
        }
    )


def _dedup_plots(duplicates: pa.Table, effects: Sequence[Effect]) -> list[Plot]:
    if not len(duplicates):
        return []
    by_space = {effect.space: [effect.dropped.get(scope, 0) for scope in SCOPES] for effect in effects}
    drawn = [Plot("Dropped by space", plots.stacked_bars(by_space, SCOPES, "Dropped by space", "chunks"))]
    alike = duplicates["jaccard"].to_pylist()
    if len(set(alike)) > 1:
        title = "How alike dropped and kept chunks are"
        drawn.append(Plot(title, plots.histogram(alike, title, "Jaccard of word shingles")))
    return drawn


@report_asset("published_generation", version=quality.VERSION)
def quality_report(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """Return the key measures of every generation that was evaluated, any two of the newest side by side, and the
    questions of the last 30 days that were not answered.

    Generations that were removed since stay in the trend. Runs that `citelock evaluate --save NAME` kept can be put
    beside generations.
    """
    tenant, config, store = of_tenant(context.partition_key, installation)
    reporter.begin(tenant, "quality report")
    evaluated = evaluations(store, tenant)
    file = reports_folder(store, tenant) / f"{QUALITY}.json"
    history = quality.history_of(evaluated, published_at(store, tenant), _known_history(file))
    write_json(file, history)
    today = datetime.now(UTC).date()
    read = partial(telemetry_days.read_questions, tenant=tenant, last=today, days=quality.DAYS)
    questions = _of_telemetry(context, config, read, _NO_ROWS)
    runs: dict[str, Mapping[str, Any]] = {
        name: facts for name, facts in evaluated.items() if is_run(facts) and facts["cases"]
    }
    runs |= {f"run {name}": facts for name, facts in saved_runs(store, tenant).items()}
    runs = dict(sorted(runs.items(), key=lambda pair: str(pair[1].get("created_at", ""))))
    report = quality.quality_report(tenant, store.current(tenant), history, runs, questions)
    values, places = quality.trend(history)
    title = "Key measures over generations"
    drawn = [Plot(title, plots.lines(values, places, title, "mean"))] if values and len(places) > 1 else []
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(history),
            "generations": len(history),
            "side_by_side": len(report.pairs),
            "questions_without_answer": len(report.tables[0].rows),
            **shown(report, installation, tenant, QUALITY, drawn),
        }
    )


def _known_history(file: Path) -> list[Mapping[str, Any]]:
    """Return the history as it was written the last time; without one it begins anew."""
    try:
        content = read_json(file)
    except StoreError:
        return []
    rows = content if isinstance(content, list) else []
    return [row for row in rows if isinstance(row, dict) and {"generation", "measures", "created_at"} <= row.keys()]


_NO_ROWS = list[dict[str, Any]]()


def _of_telemetry(context: Context, config: Config, read: Callable[["Engine"], Found], nothing: Found) -> Found:
    """Return what is read of the last days; nothing if telemetry is off or its database unavailable."""
    if not config.telemetry.enabled:
        return nothing
    try:
        with telemetry_days.database(config) as engine:
            return read(engine)
    except TelemetryError as error:
        context.log.warning("no questions: %s", error)
        return nothing


@report_asset("published_generation", version=ragas.VERSION)
def ragas_report(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """Return RAGAS' scores of the answers that the published generation gave when it was evaluated.

    Metrics that need no model always; faithfulness, answer relevancy, context precision and recall where `generation`
    names one. Where the extra is not installed, or fails, the report says so and nothing stops.
    """
    tenant, config, store = of_tenant(context.partition_key, installation)
    reporter.begin(tenant, "RAGAS report")
    try:
        generation = current_generation(store, tenant)
        cases = read_signed(store, store.generation(tenant, generation) / EVAL_REPORT)["cases"]
    except StoreError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    samples = ragas_samples(cases, live_pages(store, config, tenant))
    scores = ragas_scores(samples, config)
    if scores.problem:
        context.log.warning("RAGAS: %s", scores.problem)
    file = reports_folder(store, tenant) / "ragas.json"
    before = _scores_before(file, generation)
    write_json(file, {"generation": generation, **vars(scores)})
    report = ragas.ragas_report(tenant, generation, scores, samples, before)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(samples),
            "generation": generation,
            "problem": scores.problem or "none",
            **shown(report, installation, tenant, "ragas", _ragas_plots(scores, before)),
        }
    )


def _scores_before(file: Path, generation: str) -> RagasScores | None:
    try:
        content = read_json(file)
    except StoreError:
        return None
    if content["generation"] == generation or content["problem"]:
        return None
    return RagasScores(content["scores"], content["faults"])


def _ragas_plots(scores: RagasScores, before: RagasScores | None) -> list[Plot]:
    values = ragas.means(scores, before)
    if not values:
        return []
    parts = ["this generation", "before"][: len(next(iter(values.values())))]
    return [Plot("Metrics", plots.bars(values, parts, "Metrics", "mean over the questions"))]


@report_asset("published_generation", version=retrieval.VERSION)
def retrieval_report(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """Return the results of the retrieval phases over the last 7 days: match rate, questions met by a clarifying
    question or without a match, time to the passages, and whether any of it calls for another phase.

    A sample of answers is listed for manual comparison with their passages. Without telemetry the report is empty.
    """
    tenant, config, _ = of_tenant(context.partition_key, installation)
    reporter.begin(tenant, "retrieval report")
    today = datetime.now(UTC).date()
    read = partial(telemetry_days.read_retrieval, tenant=tenant, last=today, days=retrieval.DAYS)
    questions, feedback = _of_telemetry(context, config, read, (_NO_ROWS, _NO_ROWS))
    found = retrieval.measures_of(questions, feedback)
    report = retrieval.retrieval_report(tenant, today.isoformat(), questions, feedback)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": found.questions,
            **{
                name: value
                for name in ("match_rate", "no_match_rate", "clarified_rate", "p50_ms", "p95_ms")
                if (value := getattr(found, name)) is not None
            },
            **shown(report, installation, tenant, RETRIEVAL),
        }
    )


@report_asset(version=telemetry.VERSION, partitions=DAYS, one_run=True)
def telemetry_report(context: Context, installation: Installation, reporter: StepReporter) -> dg.MaterializeResult:
    """Return the questions of a day (UTC), the quality and speed of their answers, and the readers' complaints.

    The page shows every tenant; each tenant's folder has a file of its own. Data older than `telemetry.retention_days`
    is deleted, from the database and from these files. Without opting in there is no text of a question.
    """
    config, store = opened(installation)
    keys = context.partition_keys
    reporter.begin(keys[0] if len(keys) == 1 else f"{keys[0]} to {keys[-1]}", "telemetry report")
    track = reporter.track("days reported", context.log.info)
    try:
        with telemetry_days.database(config) as engine:
            for done, day in enumerate(keys, 1):
                context.add_asset_metadata(_report_day(engine, config, store, day), partition_key=day)
                track(done, len(keys))
    except TelemetryError as error:
        raise dg.Failure(str(error)) from error
    for tenant in config.tenants:
        forget_days(store, tenant, config.telemetry.retention_days, datetime.now(UTC).date())
    return dg.MaterializeResult()


def _report_day(engine: "Engine", config: Config, store: Store, day: str) -> dict[str, Any]:
    days = {name: telemetry_days.read_day(engine, name, date.fromisoformat(day)) for name in config.tenants}
    pages, files = [], {}
    for tenant, read in days.items():
        costs = cost_tables(config, tenant, read.kpis, read_build_costs(engine, tenant, day))
        report = telemetry.telemetry_report(
            tenant, day, read, [*costs, telemetry.dedup_table(tenant, *_dedup_counts(store, tenant))]
        )
        report = replace(report, plots=telemetry_days.plots_of(read.kpis))
        files[tenant] = write_report(store, tenant, f"{TELEMETRY}{day}", report)
        pages.append(f"## {for_markdown(report.title)}\n\n{markdown(report)}")
    figures = {tenant: read.kpis for tenant, read in days.items()}
    urls = {tenant: report_url(config.serving, tenant, f"{TELEMETRY}{day}") for tenant in files}
    return {
        "dagster/row_count": sum(kpis.questions + kpis.searches for kpis in figures.values()),
        "questions": sum(kpis.questions for kpis in figures.values()),
        "complaints": sum(len(read.complaints) for read in days.values()),
        "tenants": dg.MetadataValue.md(markdown_table(telemetry.overview(figures))),
        "report": dg.MetadataValue.md("\n\n".join(pages) or "no tenant is configured"),
        **{f"open {tenant}": dg.MetadataValue.url(urls[tenant]) for tenant in files},
        **{f"html {tenant}": dg.MetadataValue.path(str(path.absolute())) for tenant, path in files.items()},
    }


def _dedup_counts(store: Store, tenant: str) -> tuple[int, int]:
    state = read_publish_state(store, tenant)
    return (state.chunks + state.duplicates_dropped, state.duplicates_dropped) if state else (0, 0)
