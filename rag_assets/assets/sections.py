"""The asset `sections`: clean text under its headings, with anchors, and what became of every macro."""

from typing import get_args

import dagster as dg

from rag_assets import asset_checks, metadata
from rag_assets.assets.groups import ingest_asset
from rag_assets.making.tables import make_sections
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, of_source_step, writing
from rag_assets.steps.formats.macros import Outcome
from rag_assets.steps.sections.anchors import anchor_figures, landings
from rag_assets.steps.sections.splitting import VERSION
from rag_serving.artifacts.schema import SECTIONS


@ingest_asset(
    deps=["pages"],
    kinds={"parquet"},
    code_version=str(VERSION),
    check_specs=[asset_checks.MACROS_LOST],
)
def sections(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """Each page's text split at its headings: Markdown, the heading path, and the anchor for links.

    Only pages whose content changed are read. `macro_ledger.parquet` beside it counts every macro as rendered,
    resolved, unresolved, navigation, hidden or lost. A page that shows text or lists of others is read again each time.
    """
    making = of_source_step(context, installation, reporter)
    folder = making.store.source(making.key)
    with writing(making.config, folder):
        update, pages, unrendered_before = make_sections(making)
    macros = update.outcomes()
    anchors, landed = anchor_figures(update.sections), [one.target for one in landings(update.sections, pages)]
    shown = ["heading_path", "anchor", "text"]
    return dg.MaterializeResult(
        metadata={
            **metadata.of_table(update.sections, SECTIONS, folder / "sections.parquet", shown),
            "pages_read": update.read,
            "sections_failed": len(update.failed),
            "why_failed": dg.MetadataValue.md(metadata.named_reasons(update.failed)),
            "pages_cut_short": len(update.cut),
            "why_cut_short": dg.MetadataValue.md(metadata.named_reasons(update.cut)),
            **{f"macros_{outcome}": macros.get(outcome, 0) for outcome in get_args(Outcome)},
            "sections_of_other_pages": len(update.sections) - update.sections["included_from"].null_count,
            "anchor_validity": anchors.validity,
            "anchors_repeated": anchors.repeated,
            "anchors_unconfirmed": anchors.unconfirmed,
            "anchor_rules": dict(anchors.rules),
            "links_to_anchors": len(landed),
            "links_to_anchors_dead": landed.count(None),
        },
        check_results=[asset_checks.macros_lost(update, unrendered_before)],
    )
