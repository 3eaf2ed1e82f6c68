"""The asset `retrieval_report`: how the phases of retrieval do, for analysts."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from evals.reports import telemetry_days
from evals.reports.retrieval import DAYS, VERSION, measures_of
from evals.reports.retrieval import retrieval_report as report_of
from rag_assets.assets.report_assets import report_asset, shown
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, of_tenant
from rag_serving.config.loading import Config
from rag_serving.indexes.reports import RETRIEVAL
from rag_serving.telemetry.recorder import TelemetryError


@report_asset("published_generation", version=VERSION)
def retrieval_report(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """Return how the phases of retrieval did in the last 7 days: match rate, questions that were asked back or had no
    match, time to the passages, and whether any of it asks for another phase.

    A sample of answers is listed for a person to compare with their passages. Without telemetry there is nothing.
    """
    tenant, config, _ = of_tenant(context.partition_key, installation)
    reporter.begin(tenant, "retrieval report")
    today = datetime.now(UTC).date()
    questions, feedback = _rows(context, config, tenant)
    found = measures_of(questions, feedback)
    report = report_of(tenant, today.isoformat(), questions, feedback)
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


def _rows(
    context: dg.AssetExecutionContext, config: Config, tenant: str
) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Return what was asked in the last days and how it was judged; nothing where telemetry is off or away."""
    if not config.telemetry.enabled:
        return [], []
    try:
        with telemetry_days.database(config) as engine:
            return telemetry_days.read_retrieval(engine, tenant, datetime.now(UTC).date(), DAYS)
    except TelemetryError as error:
        context.log.warning("no questions: %s", error)
        return [], []
