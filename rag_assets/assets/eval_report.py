"""The asset `eval_report`: how good the answers of a candidate generation are, and whether that is good enough."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dagster as dg

from evals.evaluation.candidate import VERSION, CandidateGeneration, evaluate_candidate
from evals.reports import plots
from evals.reports.evaluation import evaluation_report, measured
from evals.reports.report import Plot, html, report_url
from rag_assets import asset_checks, metadata
from rag_assets.assets.groups import publish_asset
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, of_tenant, override_of, writing
from rag_assets.state.records import read_checked, write_checked
from rag_serving.artifacts.signed_files import read_signed, write_signed_text
from rag_serving.artifacts.store import Store
from rag_serving.config.serving import Serving
from rag_serving.hooks import Event, record
from rag_serving.indexes.catalog import EVAL_HTML, EVAL_REPORT, evaluation_name
from rag_serving.models import open_embedder


@publish_asset(
    deps=["generation"],
    kinds={"json"},
    code_version=str(VERSION),
    check_specs=[asset_checks.QUALITY_GATES, asset_checks.GOLD_STANDS],
)
def eval_report(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
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
            record(config, tenant, Event("gates.overridden", subject=checked.generation, details=details))
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
    context: dg.AssetExecutionContext, store: Store, tenant: str, facts: Mapping[str, Any], serving: Serving
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
