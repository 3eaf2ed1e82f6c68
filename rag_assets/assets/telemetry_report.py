"""The asset `telemetry_report`: a day's questions, for analysts."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from evals.reports import telemetry_days
from evals.reports.costs import cost_tables, read_build_costs
from evals.reports.files import forget_days, report_url, write_report
from evals.reports.report import markdown, markdown_table
from evals.reports.telemetry import VERSION, dedup_table, overview
from evals.reports.telemetry import telemetry_report as report_of
from rag_assets.assets.report_assets import report_asset
from rag_assets.partitions import DAYS
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, opened
from rag_assets.state.records import read_publish_state
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.escaping.markdown import for_markdown
from rag_serving.indexes.reports import TELEMETRY
from rag_serving.telemetry.recorder import TelemetryError

if TYPE_CHECKING:
    from sqlalchemy import Engine


@report_asset(version=VERSION, partitions=DAYS, one_run=True)
def telemetry_report(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """Return what was asked on a day (UTC), how well and how fast it was answered, and what readers complained of.

    The page shows every tenant; a file for each lies in its own folder. What is older than `telemetry.retention_days`
    is deleted, from the database and of these files. Without opting in there is no text of a question.
    """
    config, store = opened(installation)
    reporter.begin(_days(context.partition_keys), "telemetry report")
    track = reporter.track("days reported", context.log.info)
    try:
        with telemetry_days.database(config) as engine:
            for done, day in enumerate(context.partition_keys, 1):
                context.add_asset_metadata(_report_day(engine, config, store, day), partition_key=day)
                track(done, len(context.partition_keys))
    except TelemetryError as error:
        raise dg.Failure(str(error)) from error
    for tenant in config.tenants:
        forget_days(store, tenant, config.telemetry.retention_days, datetime.now(UTC).date())
    return dg.MaterializeResult()


def _days(keys: Sequence[str]) -> str:
    return keys[0] if len(keys) == 1 else f"{keys[0]} to {keys[-1]}"


def _report_day(engine: "Engine", config: Config, store: Store, day: str) -> dict[str, Any]:
    """Write a day's report for each tenant, and return what the asset says of the day."""
    days = {name: telemetry_days.read_day(engine, name, date.fromisoformat(day)) for name in config.tenants}
    pages, files = [], {}
    for tenant, read in days.items():
        costs = cost_tables(config, tenant, read.kpis, read_build_costs(engine, tenant, day))
        report = report_of(tenant, day, read, [*costs, dedup_table(tenant, *_dedup(store, tenant))])
        report = replace(report, plots=telemetry_days.plots_of(read.kpis))
        files[tenant] = write_report(store, tenant, f"{TELEMETRY}{day}", report)
        pages.append(f"## {for_markdown(report.title)}\n\n{markdown(report)}")
    figures = {tenant: read.kpis for tenant, read in days.items()}
    urls = {tenant: report_url(config.serving, tenant, f"{TELEMETRY}{day}") for tenant in files}
    return {
        "dagster/row_count": sum(kpis.questions + kpis.searches for kpis in figures.values()),
        "questions": sum(kpis.questions for kpis in figures.values()),
        "complaints": sum(len(read.complaints) for read in days.values()),
        "tenants": dg.MetadataValue.md(markdown_table(overview(figures))),
        "report": dg.MetadataValue.md("\n\n".join(pages) or "no tenant is configured"),
        **{f"open {tenant}": dg.MetadataValue.url(urls[tenant]) for tenant in files},
        **{f"html {tenant}": dg.MetadataValue.path(str(path.absolute())) for tenant, path in files.items()},
    }


def _dedup(store: Store, tenant: str) -> tuple[int, int]:
    """Return chunks that the published generation was made of, and those dropped as duplicates."""
    state = read_publish_state(store, tenant)
    return (state.chunks + state.duplicates_dropped, state.duplicates_dropped) if state else (0, 0)
