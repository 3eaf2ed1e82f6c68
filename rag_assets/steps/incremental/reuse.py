"""Cost follows change: which rows of a table still hold for the pages as they are now.

Belongs here: telling unchanged pages from changed ones, and carrying rows over to a new page version.
Does not belong here: making rows (`sections`, `chunks.chunking`), which settings shaped the old table
(`rag_assets.state.fingerprints`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.artifacts.columns import sort_rows

Row = Mapping[str, Any]
Stamp = Callable[[Row], tuple[Any, ...]]


@dataclass(frozen=True)
class Reuse:
    """What an incremental step starts from."""

    kept: pa.Table  # previous rows of unchanged pages
    changed: pa.Table  # pages to do again, new ones among them
    deleted: int  # pages of the previous table that are no more


def content_stamp(row: Row) -> tuple[Any, ...]:
    """Return what a page's sections depend on."""
    return (row["content_hash"],)


def page_stamp(row: Row) -> tuple[Any, ...]:
    """Return what a page's chunks depend on: its content, and all that a chunk repeats of its page."""
    return (
        row["content_hash"],
        row["version"],
        row["space"],
        row["url"].partition("#")[0],
        tuple(row["labels"] or ()),
        row["page_readers"] if "page_readers" in row else row["readers"],
        row["updated_at"],
        row["parent_id"] if "parent_id" in row else (row["ancestors"] or [""])[-1],
    )


STAMPED = [
    *("page_id", "content_hash", "version", "space", "url", "labels", "readers", "page_readers", "updated_at"),
    *("ancestors", "parent_id"),
]


def split_unchanged(pages: pa.Table, previous: pa.Table, stamp: Stamp) -> Reuse:
    """Return the previous rows of pages whose stamp is the same, and the pages whose rows must be made again.

    Args:
        pages: rows of PAGES.
        previous: the table as it was; rows of one page have one stamp. An empty one makes everything again.
        stamp: what a row depends on, read from a row of either table.
    """
    before = _stamps(previous, stamp)
    now = _stamps(pages, stamp)
    unchanged = pa.array([page_id for page_id, value in now.items() if before.get(page_id) == value], pa.string())
    return Reuse(
        kept=previous.filter(pc.is_in(previous["page_id"], value_set=unchanged)),
        changed=pages.filter(pc.invert(pc.is_in(pages["page_id"], value_set=unchanged))),
        deleted=len(before.keys() - now.keys()),
    )


def renumbered(rows: pa.Table, pages: pa.Table) -> pa.Table:
    """Return rows of unchanged content under their page's present version: `version`, and `section_id` where there is
    one."""
    versions = dict(zip(pages["page_id"].to_pylist(), pages["version"].to_pylist(), strict=True))
    ids = rows["page_id"].to_pylist()
    old, new = rows["version"].to_pylist(), [versions[page_id] for page_id in ids]
    if old == new:
        return rows
    rows = _replaced(rows, "version", pa.array(new, rows.schema.field("version").type))
    if "section_id" in rows.column_names:
        sections = [
            f"{page_id}:{version}:{section_id.rpartition(':')[2]}"
            for page_id, version, section_id in zip(ids, new, rows["section_id"].to_pylist(), strict=True)
        ]
        rows = _replaced(rows, "section_id", pa.array(sections, pa.string()))
    return rows


def rows_of(table: pa.Table, pages: pa.Table) -> pa.Table:
    """Return the rows that belong to the pages of another table."""
    return table.filter(pc.is_in(table["page_id"], value_set=pc.unique(pages["page_id"])))


def restamped(pages: pa.Table, sections: pa.Table) -> pa.Table:
    """Return pages with the content hash of their sections, which also covers what they show of other pages."""
    hashes = dict(zip(sections["page_id"].to_pylist(), sections["content_hash"].to_pylist(), strict=True))
    own = zip(pages["page_id"].to_pylist(), pages["content_hash"].to_pylist(), strict=True)
    stamps = [hashes.get(page_id, content_hash) for page_id, content_hash in own]
    return _replaced(pages, "content_hash", pa.array(stamps, pa.string()))


def merged(kept: pa.Table, made: pa.Table, *order: str) -> pa.Table:
    """Kept and newly made rows in one order, whatever was kept: by page, then by place in the page."""
    return sort_rows(pa.concat_tables([kept, made]), "page_id", *order)


def _stamps(table: pa.Table, stamp: Stamp) -> dict[str, tuple[Any, ...]]:
    """Return the stamp of each page, from its first row."""
    columns = [name for name in STAMPED if name in table.column_names]
    stamps: dict[str, tuple[Any, ...]] = {}
    for row in table.select(columns).to_pylist():
        if row["page_id"] not in stamps:
            stamps[row["page_id"]] = stamp(row)
    return stamps


def _replaced(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), table.schema.field(name), values)
