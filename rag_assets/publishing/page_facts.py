"""Tables for queries about sets beside the chunks: facts of each page, and the texts that dedup left out.

Belongs here: both tables, made of those of the sources.
Does not belong here: leaving texts out (`steps.dedup`), the visible rows (`rag_serving.indexes.set_tables`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.sources.attachments import page_kind
from rag_assets.steps.sections.anchors import Link, PageTargets
from rag_serving.access.principals import EVERYONE
from rag_serving.artifacts.columns import strings
from rag_serving.artifacts.schema import DUPLICATES, PAGE_FACTS, PAGES, SECTIONS
from rag_serving.artifacts.store import read_table
from rag_serving.config.loading import Config
from rag_serving.indexes.set_tables import Facts

Row = dict[str, Any]
_OF_PAGES = [
    *("page_id", "version", "title", "space", "url", "status", "updated_at", "labels", "ancestors", "ancestor_titles"),
    *("author", "space_name", "source", "category", "lang", "readers"),
]
_OF_SECTIONS = ["page_id", "included_from", "also_readers", "links"]


class SourceTables(NamedTuple):
    """Hold what facts of one source are taken from: columns of PAGES and of SECTIONS."""

    pages: pa.Table
    sections: pa.Table

    @classmethod
    def read(cls, folder: Path) -> SourceTables:
        """Return those in the folder of a source.

        Raises:
            StoreError: one is missing, damaged or of another version.
        """
        return cls(
            read_table(folder / "pages.parquet", PAGES, _OF_PAGES),
            read_table(folder / "sections.parquet", SECTIONS, _OF_SECTIONS),
        )


def gathered_facts(
    tables: Mapping[str, SourceTables],
    config: Config,
    texts: pa.Table,
    dropped: Collection[str],
    left_out: Collection[str] = (),
) -> Facts:
    """Return the facts of the pages of some sources, and the texts of dropped chunks.

    Args:
        tables: of each source.
        config: with the labels that exclude pages, and the kinds of sources' pages.
        texts: CHUNKS with `source` and `kind`: those of the generation, and the dropped ones.
        dropped: ids of the chunks that are not indexed.
        left_out: ids of pages left out of the generation.
    """
    unwanted = {label.casefold() for label in config.ingestion.drop_labels}
    pages, links = list[Row](), defaultdict[str, list[Link]](list)
    for source, (its_pages, sections) in sorted(tables.items()):
        for row in its_pages.select(_OF_PAGES).to_pylist():
            if row["page_id"] not in left_out and unwanted.isdisjoint(map(str.casefold, row["labels"] or ())):
                pages.append({**row, "kind": page_kind(row["page_id"], config.sources[source])})
        own = pc.and_(pc.is_null(sections["included_from"]), pc.equal(sections["also_readers"], EVERYONE))
        for row in sections.filter(own).select(["page_id", "links"]).to_pylist():
            links[row["page_id"]] += row["links"]
    return Facts(page_facts(pages, links, texts), duplicates_of(texts, dropped))


def page_facts(pages: Iterable[Row], links: Mapping[str, list[Link]], texts: pa.Table) -> pa.Table:
    """Return PAGE_FACTS.

    Args:
        pages: rows of PAGES with their `kind`.
        links: those of each page's own text.
        texts: the columns page_id, text, lang, readers, page_readers and included_from of CHUNKS, dropped ones too.
    """
    rows = sorted(pages, key=lambda row: str(row["page_id"]))
    targets = PageTargets(row for row in rows if row["kind"] != "comments")
    languages = dict(zip(texts["page_id"].to_pylist(), texts["lang"].to_pylist(), strict=True))
    words, included = _words(texts), defaultdict[str, set[str]](set)
    for page_id, other in zip(texts["page_id"].to_pylist(), texts["included_from"].to_pylist(), strict=True):
        included[page_id] |= {other} - {None, page_id}
    return PAGE_FACTS.table(
        [
            {
                **row,
                "space_name": row["space_name"] or row["space"],
                "lang": row["lang"] or languages.get(row["page_id"]),
                "words": words.get(row["page_id"], 0),
                "includes": sorted(included[row["page_id"]]),
                "links": _targets(row, links.get(row["page_id"], []), targets),
                **{name: row[name] or [] for name in ("labels", "ancestors", "ancestor_titles")},
            }
            for row in rows
        ]
    )


def duplicates_of(texts: pa.Table, dropped: Collection[str]) -> pa.Table:
    """Return DUPLICATES: the rows of CHUNKS with `source` and `kind` that are not indexed, by page and place."""
    rows = texts.filter(pc.is_in(texts["chunk_id"], value_set=strings(dropped)))
    return rows.select(DUPLICATES.columns.names).cast(DUPLICATES.arrow)


def _words(texts: pa.Table) -> dict[str, int]:
    """Return how many words each page has that all of its readers may read."""
    shown = texts.filter(pc.equal(texts["readers"], texts["page_readers"]))
    counted = pa.table({"page": shown["page_id"], "words": pc.count_substring_regex(shown["text"], r"\S+")})
    sums = counted.group_by("page").aggregate([("words", "sum")])
    return dict(zip(sums["page"].to_pylist(), sums["words_sum"].to_pylist(), strict=True))


def _targets(page: Row, links: Iterable[Link], targets: PageTargets) -> list[Row]:
    """Return the distinct targets of a page's links, in order, without files and places on the page itself."""
    found: dict[tuple[str | None, str | None], None] = {}
    for link in links:
        if link["kind"] == "page" or (link["kind"] == "url" and not link["target"].startswith("#")):
            target = targets.of(link, page["space"])
            found[target, link["target"] if link["kind"] == "url" else None] = None
    return [
        {"page_id": page_id, "url": url} for page_id, url in found if (page_id or url) and page_id != page["page_id"]
    ]
