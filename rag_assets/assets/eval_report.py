"""The asset `eval_report`: how good the answers of a candidate generation are, and whether that is good enough."""

import dagster as dg

from rag_assets import checks, publishing
from rag_assets.partitions import TENANTS
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, override_of, writing
from rag_assets.state import read_checked, write_checked
from rag_assets.steps.evaluation_report import evaluation_report
from rag_assets.steps.report import markdown
from rag_serving.generations import EVAL_REPORT
from rag_serving.models import open_embedder


@dg.asset(
    partitions_def=TENANTS,
    deps=["generation"],
    group_name="publish",
    kinds={"json"},
    owners=["team:data-engineering"],
    check_specs=[checks.QUALITY_GATES, checks.GOLD_STANDS],
)
def eval_report(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """The tenant's gold set asked of the candidate, through the pipeline that readers use; nobody reads it yet.

    A gate that fails stops the publication and names the questions; the candidate stays to be inspected. The run tag
    `citelock/override_gates` with a reason publishes it all the same, and is written down.
    """
    tenant = context.partition_key
    config, store = installation.config(), installation.store()
    reporter.begin(tenant, "evaluation")
    with writing(store.tenant(tenant)):
        checked = read_checked(store, tenant)
        embedder = open_embedder(config.embedding)
        override = override_of(context)
        progress = reporter.track("questions asked", context.log.info)
        found = publishing.evaluate_candidate(store, tenant, checked.generation, config, embedder, override, progress)
        gates = {name: passed for name, passed in checked.gates.items() if not name.startswith("quality: ")}
        gates |= {f"quality: {verdict.gate}": verdict.passed for verdict in found.verdicts}
        overridden = override if found.failed else None
        write_checked(store, tenant, checked.model_copy(update={"gates": gates, "override": overridden}))
    file = store.generation(tenant, checked.generation) / EVAL_REPORT
    facts = found.payload
    if facts["note"]:
        context.log.warning(facts["note"])
    return dg.MaterializeResult(
        metadata={
            "generation": checked.generation,
            "questions_asked": facts["gold"]["asked"],
            "gates_failed": len(found.failed),
            "override": overridden or "none",
            "seconds": facts["seconds"],
            "file": dg.MetadataValue.path(str(file)),
            **{name.replace("@", "_at_"): told["mean"] for name, told in facts["summary"].items()},
            "report": dg.MetadataValue.md(markdown(evaluation_report(facts))),
        },
        check_results=[
            checks.quality_gates(found.verdicts, overridden),
            checks.gold_stands([stale.line() for stale in found.stale], facts["gold"]["questions"]),
        ],
    )
