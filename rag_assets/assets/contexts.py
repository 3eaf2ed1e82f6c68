"""The asset `contexts`: each chunk's description of its origin."""

from collections import Counter
from typing import Any

import dagster as dg

from rag_assets import metadata
from rag_assets.assets.groups import publish_asset
from rag_assets.making.selections import make_contexts
from rag_assets.monitoring.alerts import Event, send
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, of_tenant_step, writing
from rag_assets.steps.contexts.contextualize import VERSION
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.config.loading import Config


@publish_asset(
    deps=["dedup_map"],
    kinds={"parquet"},
    pool="context",
    code_version=str(VERSION),
)
def contexts(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """The prefix of every indexed chunk, above its text in both indexes.

    A model's contexts are stored as they arrive: a killed run resumes, and a restarted one requests only what is
    missing.
    """
    making = of_tenant_step(context, installation, reporter)
    tenant, config, store = making.key, making.config, making.store

    def observe(name: str, facts: dict[str, Any]) -> None:
        context.log_event(dg.AssetObservation(context.asset_key, partition=tenant, metadata={name: facts}))

    with writing(config, store.tenant(tenant)):
        prefixes, chunks, results, event = make_contexts(making, observe)
    shown = ["chunk_id", "source", "prefix", "text"]
    return dg.MaterializeResult(
        metadata={
            **metadata.of_table(chunks, GENERATION_CHUNKS, store.candidate(tenant) / "chunks.parquet", shown),
            "levels": dict(Counter(prefixes["level"].to_pylist())),
            **results.tally.facts(),
            "alert": _tell(context, event, config) if event else "nothing to tell",
            "failures": dg.MetadataValue.md(metadata.named_reasons(results.failures, "chunk")),
            **_quality(prefixes["quality"].drop_null().to_pylist()),
        }
    )


def _tell(context: dg.AssetExecutionContext, event: Event, config: Config) -> str:
    """Log an event, hand it to the receivers in `monitoring`, and return the outcome."""
    result = "; ".join(send(event, config.monitoring)) or "none is configured"
    context.log.warning("%s (alert: %s)", event["text"], result)
    return result


def _quality(scores: list[float]) -> dict[str, dg.MetadataValue]:
    """Return a plot of the scores of a model's contexts, if there are any."""
    if not scores:
        return {}
    return {"quality": dg.MetadataValue.md(metadata.histogram(scores, "Quality of contexts", "score"))}
