"""The asset `ablation_report`: what each stage brings to a tenant's answers, for analysts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg

from evals.evaluation.evaluate import EvaluationError
from evals.evaluation.gold import GoldError, tenant_gold
from evals.evaluation.metrics import to_csv
from evals.reports import plots
from evals.reports.ablation import VERSION, differences, measures_of
from evals.reports.ablation import ablation_report as report_of
from evals.reports.files import reports_folder
from evals.reports.report import Plot
from rag_assets.assets.report_assets import report_asset, shown
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, of_tenant
from rag_serving.artifacts.store import StoreError, write_json, write_text


@report_asset("published_generation", version=VERSION)
def ablation_report(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """Return the tenant's gold set asked of the published generation with each stage on and off.

    Started by hand: it asks every question some fifteen times. The same as `citelock evaluate --ablate`; CSV and JSON
    lie beside the HTML file.
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
    report = report_of(tenant, store.current(tenant) or "", rows)
    report = replace(report, plots=_plots(rows))
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(rows),
            "csv": dg.MetadataValue.path(str((folder / "ablation.csv").absolute())),
            **shown(report, installation, tenant, "ablation"),
        }
    )


def _plots(rows: Sequence[Mapping[str, Any]]) -> list[Plot]:
    """For what people ask about first: is it answered, is the citation right, is the page found."""
    shown = [name for name in ("answerability", "citation_recall", "ndcg@10") if rows and name in measures_of(rows)]
    titles = {name: f"{name.replace('_', ' ')} against the defaults" for name in shown}
    return [
        Plot(title, plots.bars(differences(rows, name), ["difference"], title, "difference"))
        for name, title in titles.items()
    ]
