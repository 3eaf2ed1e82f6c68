"""The asset `contradictions`: what a tenant's published pages say wrong about themselves."""

from collections import Counter
from datetime import UTC, datetime

import dagster as dg

from evals.reports import contradictions as report
from evals.reports import telemetry_days
from evals.reports.report import report_url
from rag_assets import asset_checks
from rag_assets.assets.reports import report_asset, shown
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, of_tenant
from rag_assets.state.contradictions import acknowledged_of, tenant_findings
from rag_assets.steps.contradictions.findings import HEADINGS, counted, is_open
from rag_serving.artifacts.store import StoreError
from rag_serving.config.loading import ConfigError
from rag_serving.indexes.catalog import CONTRADICTIONS, QUALITY

_DAYS = 30  # of questions that count for a page's frequency


@report_asset("published_generation", version=report.VERSION, checks=[asset_checks.NOTHING_TO_MEND])
def contradictions(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """Return statements of two pages that give another value for the same thing, links that lead nowhere, pages past
    their review date or without an owner, and copies that drift apart.

    The same as `citelock lint --tenant`. It quotes pages regardless of their readers: the report is for operators.
    Findings acknowledged in `evaluation.acknowledged` are left out.
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
