"""The asset `dedup_report`: what was dropped as a near-duplicate, for analysts."""

from collections.abc import Sequence
from dataclasses import replace

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from evals.reports import plots
from evals.reports.dedup import COLUMNS, VERSION
from evals.reports.dedup import dedup_report as report_of
from evals.reports.report import Plot
from rag_assets.assets.report_assets import report_asset, shown
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, of_tenant
from rag_assets.state.observed import chunk_digests
from rag_assets.steps.chunks.select import select_chunks
from rag_assets.steps.dedup.duplicates import SCOPES, Effect, effectiveness
from rag_serving.artifacts.schema import CHUNKS, DEDUP_MAP
from rag_serving.artifacts.store import StoreError, read_table


@report_asset("dedup_map", version=VERSION)
def dedup_report(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """Return how much of a tenant's text stands in several places, where, and which of them is indexed.

    The dedup map is that of the last publish run. Chunks that were synced since then are told by their id alone.
    """
    tenant, config, store = of_tenant(context.partition_key, installation)
    reporter.begin(tenant, "dedup report")
    try:
        duplicates = read_table(store.tenant(tenant) / "dedup_map.parquet", DEDUP_MAP)
        tables = [
            read_table(store.source(key) / "chunks.parquet", CHUNKS) for key in chunk_digests(config, store, tenant)
        ]
    except StoreError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    everything = pa.concat_tables(tables) if tables else CHUNKS.empty()
    chunks = select_chunks(everything, config.ingestion.drop_labels, config.ingestion.drop_boilerplate).chunks
    effects = effectiveness(chunks, duplicates.filter(pc.is_in(duplicates["dropped_id"], chunks["chunk_id"])))
    report = report_of(tenant, chunks.select(COLUMNS), duplicates, effects)
    report = replace(report, plots=_plots(duplicates, effects))
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(duplicates),
            "duplicates_dropped": len(duplicates),
            "chunks": len(chunks),
            **shown(report, installation, tenant, "dedup"),
        }
    )


def _plots(duplicates: pa.Table, effects: Sequence[Effect]) -> list[Plot]:
    if not len(duplicates):
        return []
    by_space = {effect.space: [effect.dropped.get(scope, 0) for scope in SCOPES] for effect in effects}
    drawn = [Plot("Dropped by space", plots.stacked_bars(by_space, SCOPES, "Dropped by space", "chunks"))]
    alike = duplicates["jaccard"].to_pylist()
    if len(set(alike)) > 1:
        title = "How alike dropped and kept chunks are"
        drawn.append(Plot(title, plots.histogram(alike, title, "Jaccard of word shingles")))
    return drawn
