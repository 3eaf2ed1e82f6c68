"""Asset checks: conditions declared once, and the results that assets return with their materialization.

A check on a partitioned asset that took the value would load every partition, so each result is made by the step that
has the table in hand. Every check has the partitions of its asset, and with them a history for each source and each
tenant. Only `synced_on_time` also runs alone, when the sensor `watch_sources` has a new verdict.
"""

import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from evals.evaluation.candidate import GateVerdict
from rag_assets import metadata
from rag_assets.metadata import described
from rag_assets.partitions import SOURCES, TENANTS
from rag_assets.publishing.checks import CheckResult
from rag_assets.resources import Installation, of_source
from rag_assets.sources.base import SyncResult
from rag_assets.state.records import last_sync
from rag_assets.steps.contradictions.findings import HEADINGS, LintFinding
from rag_assets.steps.incremental import CompletenessReport, SectionsUpdate
from rag_serving.config.sources import judge

LONG_AGO = datetime.min.replace(tzinfo=UTC)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", dg.PreviewWarning)  # see `asset_checks`

    @dg.asset_check(
        asset="pages",
        partitions_def=SOURCES,
        description="The last complete sync is not older than the source's schedule promises, or than a week "
        "where it has none.",
    )
    def synced_on_time(context: dg.AssetCheckExecutionContext, installation: Installation) -> dg.AssetCheckResult:
        key, config, store = of_source(context.partition_key, installation)
        last, now = last_sync(store, key), datetime.now(UTC)
        verdict = judge(config.sources[key], config.monitoring, now, last_sync=last, known_since=LONG_AGO)
        numbers = {} if verdict.age_hours is None else {"age_hours": verdict.age_hours}
        return dg.AssetCheckResult(
            passed=not verdict.overdue,
            description=described(verdict.detail),
            metadata={
                "last_sync": last.isoformat(timespec="seconds") if last else "never",
                "too_old_before": verdict.oldest.isoformat(timespec="seconds"),
                **numbers,
            },
        )


def _spec(
    name: str, asset: str, partitions: dg.PartitionsDefinition[str], description: str, blocking: bool = False
) -> dg.AssetCheckSpec:
    """Return a check that has a result for each partition. Dagster calls that a preview and warns of changes between
    versions; ours is pinned, and tests read the histories."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(
            name, asset=asset, partitions_def=partitions, description=description, blocking=blocking
        )


SYNC_COMPLETE = _spec(
    "sync_complete",
    "pages",
    SOURCES,
    blocking=True,
    description="Enumerated = indexed + excluded + failed: no page was lost between the listing and the table.",
)
MACROS_LOST = _spec(
    "macros_lost",
    "sections",
    SOURCES,
    description="No more macros than in the sync before lost their content, or show pages that could not be found. A "
    "warning: what was lost can be neither found nor cited.",
)
PAGES_ACCOUNTED_FOR = _spec(
    "pages_accounted_for",
    "chunks",
    SOURCES,
    blocking=True,
    description="Every page the source enumerated has chunks, is excluded, or failed with a reason.",
)
CHUNKS_HAVE_ANCHORS = _spec(
    "chunks_have_anchors",
    "chunks",
    SOURCES,
    blocking=True,
    description="Every chunk has an anchor and a link that ends in it, so that every citation opens at its heading.",
)
GENERATION = [
    _spec(name, "generation", TENANTS, blocking=True, description=description)
    for name, description in {
        "opens": "The candidate opens as a reader opens it.",
        "files": "Every file is, to the bit, what the manifest says.",
        "ids": "Dense shards, lexical index and chunk table hold the same chunks, with the same readers.",
        "vectors": "All vectors are finite and of length 1.",
        "embedder": "The vectors are of the model that questions are embedded with.",
        "found_by_own_vector": "Sampled chunks find themselves.",
        "ann_recall": "Recall@10 of the dense index against exact search is what the configuration asks for.",
        "page_versions": "No page is there in two versions, none belongs to two sources.",
        "coverage": "Every enumerated page is indexed or explained, and nothing else is indexed.",
        "embedded_again": "Sampled chunks have the vectors that the configured model gives their texts now.",
        "analyzed_again": "Sampled chunks have the terms in the lexical index that their texts have now.",
        "counts": "Of every source as many chunks are indexed as were selected.",
        "anchors": "Anchors name the heading above their text, not another of the page.",
    }.items()
]
QUALITY_GATES = _spec(
    "quality_gates",
    "eval_report",
    TENANTS,
    blocking=True,
    description="The answers to the gold set reach every floor, and are not significantly worse than those of the "
    "published generation (evals/gates.toml). A person can override it with a reason.",
)
GOLD_STANDS = _spec(
    "gold_stands",
    "eval_report",
    TENANTS,
    description="Quotes and anchors of the gold set still stand in the pages. A warning: an entry that does not is not "
    "asked until somebody mends it.",
)

NOTHING_TO_MEND = _spec(
    "nothing_to_mend",
    "contradictions",
    TENANTS,
    description="Pages contradict each other nowhere, no link leads nowhere, no review is overdue, but for what is "
    "acknowledged. A warning: nothing waits for it.",
)


def generation_results(results: Sequence[CheckResult]) -> list[dg.AssetCheckResult]:
    """Return the results of `publishing.check_generation`; a check that was not reached has not passed."""
    by_name = {result.name: result for result in results}
    unreached = "not reached: another check failed first"
    return [
        dg.AssetCheckResult(
            check_name=spec.name,
            passed=by_name[spec.name].passed if spec.name in by_name else False,
            description=metadata.described(by_name[spec.name].detail) if spec.name in by_name else unreached,
            metadata={"reached": spec.name in by_name, **(by_name[spec.name].metadata if spec.name in by_name else {})},
        )
        for spec in GENERATION
    ]


def quality_gates(
    verdicts: Sequence[GateVerdict], override: str | None, measures: Mapping[str, float]
) -> dg.AssetCheckResult:
    """Return a failed gate stops the publication, unless a person said why it should not; `measures`: means by name."""
    failed = [verdict for verdict in verdicts if not verdict.passed]
    summary = "; ".join(
        f"{verdict.gate}: {verdict.detail}" + (f" (see {', '.join(verdict.questions)})" if verdict.questions else "")
        for verdict in failed
    )
    rows = [
        {
            "gate": verdict.gate,
            "passed": "yes" if verdict.passed else "NO",
            "found": verdict.detail,
            "questions": ", ".join(verdict.questions),
        }
        for verdict in verdicts
    ]
    return dg.AssetCheckResult(
        check_name=QUALITY_GATES.name,
        passed=not failed,
        severity=dg.AssetCheckSeverity.WARN if override else dg.AssetCheckSeverity.ERROR,
        description=metadata.described(f"{summary}; overridden: {override}" if override else summary)
        if summary
        else None,
        metadata={
            "failed": len(failed),
            "judged": len(verdicts),
            **{name.replace("@", "_at_"): mean for name, mean in measures.items()},
            "gates": dg.MetadataValue.md(metadata.markdown_table(rows, ["gate", "passed", "found", "questions"])),
        },
    )


def gold_stands(stale: Sequence[str], questions: int) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=GOLD_STANDS.name,
        passed=not stale,
        severity=dg.AssetCheckSeverity.WARN,
        description=metadata.described("; ".join(stale[:5])) or None,
        metadata={"questions": questions, "stale": len(stale), "entries": dg.MetadataValue.md(metadata.listed(stale))},
    )


def nothing_to_mend(findings: Sequence[LintFinding]) -> dg.AssetCheckResult:
    """Return a warning where something is left that nobody acknowledged."""
    first = [f"{HEADINGS[finding.kind]}: {finding.about}" for finding in findings[: metadata.NAMED]]
    return dg.AssetCheckResult(
        check_name=NOTHING_TO_MEND.name,
        passed=not findings,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{len(findings)} to look at" if findings else None,
        metadata={"found": len(findings), "first": dg.MetadataValue.md(metadata.listed(first))},
    )


def sync_complete(result: SyncResult) -> dg.AssetCheckResult:
    equation = (
        f"{result.seen} enumerated = {result.indexed} indexed + {len(dict(result.excluded))} excluded + "
        f"{result.failed} failed"
    )
    return dg.AssetCheckResult(
        check_name=SYNC_COMPLETE.name,
        passed=result.unaccounted == 0,
        description=equation + (f", which is off by {result.unaccounted}" if result.unaccounted else ""),
        metadata={
            "unaccounted": result.unaccounted,
            "enumerated": result.seen,
            "indexed": result.indexed,
            "excluded": len(dict(result.excluded)),
            "failed": result.failed,
            "hidden": len(result.hidden),
        },
    )


def macros_lost(update: SectionsUpdate, before: int) -> dg.AssetCheckResult:
    """Compared with the lost and unresolved macros of the sync before; the first one should lose none."""
    lost, unresolved = update.macros("lost"), update.macros("unresolved")
    total = sum(lost.values()) + sum(unresolved.values())
    rows = [
        {"macro": name, "outcome": outcome, "count": count}
        for outcome, macros in (("lost", lost), ("unresolved", unresolved))
        for name, count in macros.items()
    ]
    return dg.AssetCheckResult(
        check_name=MACROS_LOST.name,
        passed=total <= before,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{total} macros lost their content or their page, {before} in the sync before",
        metadata={
            "lost": sum(lost.values()),
            "unresolved": sum(unresolved.values()),
            "before": before,
            "macros": dg.MetadataValue.md(metadata.markdown_table(rows, ["macro", "outcome", "count"])),
        },
    )


def pages_accounted_for(account: CompletenessReport) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=PAGES_ACCOUNTED_FOR.name,
        passed=account.even,
        description=metadata.described(f"without a place: {', '.join(account.unexplained)}")
        if account.unexplained
        else None,
        metadata={
            "enumerated": account.enumerated,
            "with_chunks": account.chunked,
            "excluded": len(account.excluded),
            "failed": len(account.failed),
            "why_excluded": dg.MetadataValue.md(metadata.named_reasons(account.excluded)),
            "why_failed": dg.MetadataValue.md(metadata.named_reasons(account.failed)),
        },
    )


def chunks_have_anchors(chunks: pa.Table) -> dg.AssetCheckResult:
    has_anchor = pc.greater(pc.utf8_length(pc.fill_null(chunks["anchor"], "")), 0)
    has_link = pc.match_substring_regex(pc.fill_null(chunks["url"], ""), "#.")
    without = chunks.filter(pc.invert(pc.and_(has_anchor, has_link)))["chunk_id"].to_pylist()
    return dg.AssetCheckResult(
        check_name=CHUNKS_HAVE_ANCHORS.name,
        passed=not without,
        description=metadata.described(f"without an anchor: {', '.join(without[: metadata.NAMED])}")
        if without
        else None,
        metadata={"chunks": len(chunks), "without_anchor": len(without)},
    )
