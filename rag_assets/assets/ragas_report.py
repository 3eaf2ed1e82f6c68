"""The asset `ragas_report`: RAGAS' metrics of the published generation's evaluation, for analysts."""

from dataclasses import replace
from pathlib import Path

import dagster as dg

from evals.evaluation.gold import live_pages
from evals.evaluation.ragas_scores import RagasScores, ragas_samples, ragas_scores
from evals.reports import plots
from evals.reports.files import reports_folder
from evals.reports.ragas import VERSION, means
from evals.reports.ragas import ragas_report as report_of
from evals.reports.report import Plot
from rag_assets.assets.report_assets import report_asset, shown
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, of_tenant
from rag_serving.artifacts.signed_files import read_signed
from rag_serving.artifacts.store import StoreError, read_json, write_json
from rag_serving.indexes.catalog import EVAL_REPORT, current_generation

SCORES = "ragas.json"


@report_asset("published_generation", version=VERSION)
def ragas_report(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """Return what RAGAS says of the answers that the published generation gave when it was evaluated.

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
    file = reports_folder(store, tenant) / SCORES
    before = _before(file, generation)
    write_json(file, {"generation": generation, **vars(scores)})
    report = report_of(tenant, generation, scores, samples, before)
    report = replace(report, plots=_plots(scores, before))
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(samples),
            "generation": generation,
            "problem": scores.problem or "none",
            **shown(report, installation, tenant, "ragas"),
        }
    )


def _before(file: Path, generation: str) -> RagasScores | None:
    """Return what was written for another generation, when this was made the last time."""
    try:
        content = read_json(file)
    except StoreError:
        return None
    if content["generation"] == generation or content["problem"]:
        return None
    return RagasScores(content["scores"], content["faults"])


def _plots(scores: RagasScores, before: RagasScores | None) -> list[Plot]:
    values = means(scores, before)
    if not values:
        return []
    parts = ["this generation", "before"][: len(next(iter(values.values())))]
    return [Plot("Metrics", plots.bars(values, parts, "Metrics", "mean over the questions"))]
