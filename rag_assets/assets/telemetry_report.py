"""The asset `telemetry_report`: a day's questions, for analysts."""

from datetime import UTC, date, datetime

import dagster as dg

from rag_assets import telemetry_days
from rag_assets.partitions import DAYS
from rag_assets.progress import Reporter
from rag_assets.report_assets import report_asset
from rag_assets.report_files import TELEMETRY, forget_days, write_report
from rag_assets.resources import Installation, opened
from rag_assets.state import read_publish_state
from rag_assets.steps.report import markdown, markdown_table
from rag_assets.steps.telemetry_report import VERSION, dedup_table, overview
from rag_assets.steps.telemetry_report import telemetry_report as report_of
from rag_serving.store import Store
from rag_serving.telemetry.recorder import TelemetryError


@report_asset(version=VERSION, partitions=DAYS)
def telemetry_report(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """What was asked on a day (UTC), how well and how fast it was answered, and what readers complained of.

    The page shows every tenant; a file for each lies in its own folder. What is older than `telemetry.retention_days`
    is deleted, from the database and of these files. Without opting in there is no text of a question.
    """
    day = context.partition_key
    config, store = opened(installation)
    reporter.begin(day, "telemetry report")
    try:
        with telemetry_days.database(config) as engine:
            days = {name: telemetry_days.read_day(engine, name, date.fromisoformat(day)) for name in config.tenants}
    except TelemetryError as error:
        raise dg.Failure(str(error)) from error
    pages, files = [], {}
    for tenant, each in days.items():
        dedup = dedup_table({tenant: _dedup(store, tenant)})
        told = report_of(tenant, day, each.kpis, each.complaints, telemetry_days.plots_of(each.kpis), [dedup])
        files[tenant] = write_report(store, tenant, f"{TELEMETRY}{day}", told)
        forget_days(store, tenant, config.telemetry.retention_days, datetime.now(UTC).date())
        pages.append(f"## {told.title}\n\n{markdown(told)}")
    figures = {tenant: each.kpis for tenant, each in days.items()}
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": sum(each.questions + each.searches for each in figures.values()),
            "questions": sum(each.questions for each in figures.values()),
            "complaints": sum(len(each.complaints) for each in days.values()),
            "tenants": dg.MetadataValue.md(markdown_table(overview(figures))),
            "report": dg.MetadataValue.md("\n\n".join(pages) or "no tenant is configured"),
            **{f"html {tenant}": dg.MetadataValue.path(str(path.absolute())) for tenant, path in files.items()},
        }
    )


def _dedup(store: Store, tenant: str) -> tuple[int, int]:
    """Chunks that the published generation was made of, and those dropped as duplicates."""
    state = read_publish_state(store, tenant)
    return (state.chunks + state.duplicates_dropped, state.duplicates_dropped) if state else (0, 0)
