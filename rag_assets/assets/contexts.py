"""The asset `contexts`: what tells each chunk where it comes from."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from rag_assets import metadata
from rag_assets.assets.groups import publish_asset
from rag_assets.llm_contexts.tenant import (
    UsageReporter,
    contexts_event,
    note_run,
    plan_contexts,
    read_last_run,
    write_contexts,
)
from rag_assets.monitoring.alerts import Event, send
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, of_tenant, writing
from rag_assets.steps.contexts.contextualize import VERSION, Template, build_contexts, contextualized, token_counter
from rag_serving.artifacts.schema import CONTEXTS, GENERATION_CHUNKS, SELECTED_CHUNKS
from rag_serving.artifacts.store import read_table, write_table
from rag_serving.config.loading import Config
from rag_serving.hooks import open_budgets
from rag_serving.models import open_tokenizer


@publish_asset(
    deps=["dedup_map"],
    kinds={"parquet"},
    pool="context",
    code_version=str(VERSION),
)
def contexts(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """The prefix of every chunk that is indexed, which both indexes see above its text.

    What a model wrote is kept as it comes: a run that is killed goes on where it was, and one that is started again
    asks only about the chunks that have no context yet.
    """
    tenant, config, store = of_tenant(context.partition_key, installation)
    folder = store.candidate(tenant)
    reporter.begin(tenant, "contexts")

    def observe(name: str, facts: dict[str, Any]) -> None:
        context.log_event(dg.AssetObservation(context.asset_key, partition=tenant, metadata={name: facts}))

    watch = UsageReporter(
        reporter.track("contexts", context.log.info), context.log.info, lambda facts: observe("progress", facts)
    )
    with writing(config, store.tenant(tenant)):
        selected = read_table(folder / "selected.parquet", SELECTED_CHUNKS)
        plan = plan_contexts(selected, config.context, store.cache(tenant), store.home)
        before = read_last_run(store, tenant)
        if plan:
            expected = plan.estimate(before)
            context.log.info(expected.line())
            observe("estimate", expected.facts())
        budget = open_budgets(config, [tenant], always=True).get(tenant) if plan else None
        results = write_contexts(plan, watch, budget)
        if budget:
            budget.close()
        template: Template = "none" if config.context.provider == "none" else "metadata"
        count_tokens = token_counter(open_tokenizer(config.embedding))
        prefixes = build_contexts(selected, template, results.written, results.failures, count_tokens)
        chunks = contextualized(selected, prefixes)
        write_table(folder / "contexts.parquet", prefixes, CONTEXTS)
        write_table(folder / "chunks.parquet", chunks, GENERATION_CHUNKS)
        after = note_run(store, tenant, results.failures, results.tally)
    if results.tally.total:
        context.log.info(results.tally.line())
    event = contexts_event(tenant, results.failures, before, after, datetime.now(UTC)) if plan else None
    shown = ["chunk_id", "source", "prefix", "text"]
    return dg.MaterializeResult(
        metadata={
            **metadata.of_table(chunks, GENERATION_CHUNKS, folder / "chunks.parquet", shown),
            "levels": dict(Counter(prefixes["level"].to_pylist())),
            **results.tally.facts(),
            "alert": _tell(context, event, config) if event else "nothing to tell",
            "failures": dg.MetadataValue.md(metadata.named_reasons(results.failures, "chunk")),
            **_quality(prefixes["quality"].drop_null().to_pylist()),
        }
    )


def _tell(context: dg.AssetExecutionContext, event: Event, config: Config) -> str:
    """Log an event, hand it to whom `monitoring` names, and return what became of it."""
    result = "; ".join(send(event, config.monitoring)) or "none is configured"
    context.log.warning("%s (alert: %s)", event["text"], result)
    return result


def _quality(scores: list[float]) -> dict[str, dg.MetadataValue]:
    """Return a plot of the scores of what a model wrote, where it wrote anything."""
    if not scores:
        return {}
    return {"quality": dg.MetadataValue.md(metadata.histogram(scores, "Quality of contexts", "score"))}
