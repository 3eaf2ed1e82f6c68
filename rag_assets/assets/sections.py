"""The asset `sections`: clean text under its headings, with anchors, and what became of every macro."""

from typing import get_args

import dagster as dg

from rag_assets import asset_checks, metadata
from rag_assets.assets.groups import ingest_asset
from rag_assets.parsing.reader import LimitedReader
from rag_assets.progress import Reporter
from rag_assets.resources import Installation, is_full, listed_pages, of_source, previous_table, writing
from rag_assets.state.records import SectionsState, pages_digest, read_state, source_sections_settings, update_state
from rag_assets.steps.formats.macros import Outcome
from rag_assets.steps.incremental import update_sections
from rag_assets.steps.sections.anchors import anchor_figures, landings
from rag_assets.steps.sections.splitting import VERSION
from rag_serving.artifacts.schema import MACRO_LEDGER, PAGES, SECTIONS
from rag_serving.artifacts.store import read_table, write_table


@ingest_asset(
    deps=["pages"],
    kinds={"parquet"},
    code_version=str(VERSION),
    check_specs=[asset_checks.MACROS_LOST],
)
def sections(
    context: dg.AssetExecutionContext, installation: Installation, reporter: dg.ResourceParam[Reporter]
) -> dg.MaterializeResult:
    """Each page's text split at its headings: Markdown, the heading path, and the anchor that a link needs.

    Only pages whose content changed are read. `macro_ledger.parquet` beside it counts every macro as rendered,
    resolved, unresolved, navigation, hidden or lost. A page that shows text or lists of others is read again each time.
    """
    key, config, store = of_source(context.partition_key, installation)
    folder, settings = store.source(key), source_sections_settings(config, key)
    reporter.begin(key, "sections")
    with writing(config, folder), LimitedReader(config.documents) as reader:
        built = read_state(store, key).sections
        fits = built is not None and built.settings == settings and not is_full(context)
        pages, source = read_table(folder / "pages.parquet", PAGES), config.sources[key]
        update = update_sections(
            pages,
            previous_table(folder / "sections.parquet", SECTIONS) if fits else SECTIONS.empty(),
            previous_table(folder / "macro_ledger.parquet", MACRO_LEDGER) if fits else MACRO_LEDGER.empty(),
            config.ingestion.max_page_bytes,
            listed_pages(pages, source.id_prefix) if source.resolve_lists else None,
            reader,
            built.cut if built is not None and fits else {},
        )
        write_table(folder / "macro_ledger.parquet", update.ledger, MACRO_LEDGER)
        write_table(folder / "sections.parquet", update.sections, SECTIONS)
        macros = update.outcomes()
        state = SectionsState(
            settings=settings,
            failed=dict(update.failed),
            cut=dict(update.cut),
            macros_lost=macros.get("lost", 0),
            macros_unresolved=macros.get("unresolved", 0),
            missed=list(update.missed),
            pages=pages_digest(pages),
        )
        update_state(store, key, sections=state)
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
        check_results=[asset_checks.macros_lost(update, built.macros_lost + built.macros_unresolved if built else 0)],
    )
