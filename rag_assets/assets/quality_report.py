"""The asset `quality_report`: how good answers are, generation by generation, for analysts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from evals.evaluation.compare import is_run, saved_runs
from evals.reports import plots, telemetry_days
from evals.reports.files import reports_folder
from evals.reports.quality import DAYS, VERSION, history_of, trend
from evals.reports.quality import quality_report as report_of
from evals.reports.report import Plot
from rag_assets.assets.report_assets import report_asset, shown
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, of_tenant
from rag_serving.artifacts.store import Store, StoreError, read_json, write_json
from rag_serving.config.loading import Config
from rag_serving.indexes.catalog import published_at
from rag_serving.indexes.reports import QUALITY, evaluations
from rag_serving.telemetry.recorder import TelemetryError


@report_asset("published_generation", version=VERSION)
def quality_report(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """Return the key measures of every generation that was evaluated, any two of the newest side by side, and the
    questions of the last 30 days that were not answered.

    Generations that were removed since stay in the trend. Runs that `citelock evaluate --save NAME` kept can be put
    beside generations.
    """
    tenant, config, store = of_tenant(context.partition_key, installation)
    reporter.begin(tenant, "quality report")
    evaluated = evaluations(store, tenant)
    file = reports_folder(store, tenant) / f"{QUALITY}.json"
    history = history_of(evaluated, published_at(store, tenant), _known(file))
    write_json(file, history)
    questions = _questions(context, config, tenant)
    runs = _runs(store, tenant, evaluated)
    report = report_of(tenant, store.current(tenant), history, runs, questions)
    report = replace(report, plots=_plots(history))
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(history),
            "generations": len(history),
            "side_by_side": len(report.pairs),
            "questions_without_answer": len(report.tables[0].rows),
            **shown(report, installation, tenant, QUALITY),
        }
    )


def _known(file: Path) -> list[Mapping[str, Any]]:
    """Return the history as it was written the last time; without one it begins anew."""
    try:
        content = read_json(file)
    except StoreError:
        return []
    rows = content if isinstance(content, list) else []
    return [row for row in rows if isinstance(row, dict) and {"generation", "measures", "created_at"} <= row.keys()]


def _runs(store: Store, tenant: str, evaluated: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return what can be put side by side, by the name it is chosen by, the oldest first."""
    runs: dict[str, Mapping[str, Any]] = {
        name: facts for name, facts in evaluated.items() if is_run(facts) and facts["cases"]
    }
    runs |= {f"run {name}": facts for name, facts in saved_runs(store, tenant).items()}
    return dict(sorted(runs.items(), key=lambda pair: str(pair[1].get("created_at", ""))))


def _questions(context: dg.AssetExecutionContext, config: Config, tenant: str) -> Sequence[Mapping[str, Any]]:
    """Return what was asked in the last days; nothing where telemetry is off, or its database away."""
    if not config.telemetry.enabled:
        return []
    try:
        with telemetry_days.database(config) as engine:
            return telemetry_days.read_questions(engine, tenant, datetime.now(UTC).date(), DAYS)
    except TelemetryError as error:
        context.log.warning("no questions: %s", error)
        return []


def _plots(history: Sequence[Mapping[str, Any]]) -> list[Plot]:
    """Return how the key measures went, where there is more than one generation to tell of."""
    values, places = trend(history)
    title = "Key measures over generations"
    return [Plot(title, plots.lines(values, places, title, "mean"))] if values and len(places) > 1 else []
