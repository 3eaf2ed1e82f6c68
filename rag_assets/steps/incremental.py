"""Sections and chunks brought up to date: unchanged ones are kept, the rest is made again; the account of a source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.steps.chunks.chunking import ChunkSize, build_chunks
from rag_assets.steps.chunks.document_fields import Detect, with_languages
from rag_assets.steps.sections.reading import BodyReader
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.artifacts.columns import sort_rows
from rag_serving.models.protocols import Tokenizer

NOTHING_CUT: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class SectionsUpdate:
    """All sections of a source, and what it took."""

    sections: pa.Table
    ledger: pa.Table
    failed: Mapping[str, str]  # page id -> reason
    read: int  # pages whose body was read
    missed: tuple[str, ...] = ()  # pages that show one that is not among the source's own
    cut: Mapping[str, str] = field(default_factory=dict)  # page id -> why the rest of it is left out

    def macros(self, outcome: str) -> dict[str, int]:
        """Return how often each macro had this outcome, most first."""
        rows = self.ledger.filter(pc.equal(self.ledger["outcome"], outcome))
        counts = rows.group_by("macro").aggregate([("count", "sum")]).sort_by([("count_sum", "descending")])
        return dict(zip(counts["macro"].to_pylist(), counts["count_sum"].to_pylist(), strict=True))

    def outcomes(self) -> dict[str, int]:
        """Return how many macros had each outcome."""
        counts = self.ledger.group_by("outcome").aggregate([("count", "sum")])
        return dict(zip(counts["outcome"].to_pylist(), counts["count_sum"].to_pylist(), strict=True))


@dataclass(frozen=True)
class ChunksUpdate:
    """All chunks of a source, and what it took."""

    chunks: pa.Table
    read: int  # pages that were cut
    new: int  # chunks whose text the page did not have before


def update_sections(
    pages: pa.Table,
    previous: pa.Table,
    previous_ledger: pa.Table,
    max_page_bytes: int,
    listed: pa.Table | None = None,
    reader: BodyReader | None = None,
    cut_before: Mapping[str, str] = NOTHING_CUT,
) -> SectionsUpdate:
    """Return sections and ledger of the pages as they are now.

    Pages that show text of others are read each time: their hash covers the text shown, not the page's own, so a change
    of the other page, of its readers, or of the available pages reaches them at once. `pages`: rows of PAGES.
    `previous`: earlier sections, made with the same settings; empty: everything is made again. `previous_ledger`: the
    ledger of the same build. `max_page_bytes`: a larger page is recorded as failed. `listed`: see `build_sections`.
    `reader`: see `build_sections`. `cut_before`: `SectionsUpdate.cut` of the same build as `previous`.
    """
    reuse = split_unchanged(pages, previous, content_stamp)
    made = build_sections(reuse.changed, max_page_bytes, (pages,), listed, reader)
    kept = {page_id: cut_before[page_id] for page_id in set(reuse.kept["page_id"].to_pylist()) & cut_before.keys()}
    return SectionsUpdate(
        sections=merged(renumbered(reuse.kept, pages), made.sections, "order"),
        ledger=merged(renumbered(rows_of(previous_ledger, reuse.kept), pages), made.ledger, "macro", "outcome"),
        failed=dict(made.failures),
        read=len(reuse.changed),
        missed=tuple(made.missed),
        cut=dict(sorted({**kept, **made.cut}.items())),
    )


def update_chunks(
    sections: pa.Table,
    pages: pa.Table,
    previous: pa.Table,
    tokenizer: Tokenizer,
    size: ChunkSize,
    detect: Detect = lambda _: None,
) -> ChunksUpdate:
    """Return chunks of the pages as they are now. `sections`: rows of SECTIONS. `pages`: rows of PAGES. `previous`:
    earlier chunks, made with the same settings; empty: everything is made again. `tokenizer`: see `build_chunks`.
    `size`: see `build_chunks`. `detect`: returns the language of a page whose source does not give it."""
    reuse = split_unchanged(_restamped(pages, sections), previous, page_stamp)
    cut = build_chunks(rows_of(sections, reuse.changed), reuse.changed, tokenizer, size)
    made = with_languages(cut, detect)
    known, texts = (
        set(zip(rows["page_id"].to_pylist(), rows["text_hash"].to_pylist(), strict=True)) for rows in (previous, made)
    )
    chunks = merged(rows_of(reuse.kept, sections), made, "chunk_idx")
    return ChunksUpdate(chunks, read=len(reuse.changed), new=len(texts - known))


Row = Mapping[str, Any]
Stamp = Callable[[Row], tuple[Any, ...]]


@dataclass(frozen=True)
class Reuse:
    """The input of an incremental step."""

    kept: pa.Table  # previous rows of unchanged pages
    changed: pa.Table  # pages to do again, new ones among them


def content_stamp(row: Row) -> tuple[Any, ...]:
    """Return the inputs of a page's sections."""
    return (row["content_hash"],)


def page_stamp(row: Row) -> tuple[Any, ...]:
    """Return the inputs of a page's chunks: its content, and all fields that a chunk repeats of its page."""
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
    """Return the previous rows of pages whose stamp is the same, and the pages whose rows must be made again. `pages`:
    rows of PAGES. `previous`: the table as it was; rows of one page have one stamp. An empty one makes everything
    again. `stamp`: the inputs of a row, read from a row of either table."""
    before = _stamps(previous, stamp)
    now = _stamps(pages, stamp)
    unchanged = pa.array([page_id for page_id, value in now.items() if before.get(page_id) == value], pa.string())
    return Reuse(
        kept=previous.filter(pc.is_in(previous["page_id"], value_set=unchanged)),
        changed=pages.filter(pc.invert(pc.is_in(pages["page_id"], value_set=unchanged))),
    )


def renumbered(rows: pa.Table, pages: pa.Table) -> pa.Table:
    """Return rows of unchanged content under their page's present version (`version`, `section_id`)."""
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


def _restamped(pages: pa.Table, sections: pa.Table) -> pa.Table:
    """Return pages with the content hash of their sections, which also covers included text of other pages."""
    hashes = dict(zip(sections["page_id"].to_pylist(), sections["content_hash"].to_pylist(), strict=True))
    own = zip(pages["page_id"].to_pylist(), pages["content_hash"].to_pylist(), strict=True)
    stamps = [hashes.get(page_id, content_hash) for page_id, content_hash in own]
    return _replaced(pages, "content_hash", pa.array(stamps, pa.string()))


def merged(kept: pa.Table, made: pa.Table, *order: str) -> pa.Table:
    """Return kept and new rows in one order: by page, then by place in the page."""
    return sort_rows(pa.concat_tables([kept, made]), "page_id", *order)


def _stamps(table: pa.Table, stamp: Stamp) -> dict[str, tuple[Any, ...]]:
    columns = [name for name in STAMPED if name in table.column_names]
    stamps: dict[str, tuple[Any, ...]] = {}
    for row in table.select(columns).to_pylist():
        if row["page_id"] not in stamps:
            stamps[row["page_id"]] = stamp(row)
    return stamps


def _replaced(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), table.schema.field(name), values)


@dataclass(frozen=True)
class CompletenessReport:
    """The outcome of each enumerated page of a source; ids without one are `unexplained`."""

    enumerated: int
    chunked: int
    excluded: Mapping[str, str]  # page id -> reason
    failed: Mapping[str, str]
    unexplained: tuple[str, ...]

    @property
    def even(self) -> bool:
        """Whether every enumerated page is accounted for."""
        return not self.unexplained

    @property
    def explained(self) -> dict[str, str]:
        """The reason for each page without chunks."""
        return {**self.excluded, **self.failed}


def take_account(
    enumerated: Iterable[str],
    sectioned: Iterable[str],
    chunked: Iterable[str],
    excluded: Mapping[str, str],
    failed: Mapping[str, str],
) -> CompletenessReport:
    """Account for every enumerated page.

    A page that was read and has no text is excluded as such: it has nothing to search or cite. `enumerated`: ids named
    by the source in its last sync; `sectioned`: pages that were read without error; `chunked`: pages with at least one
    chunk; `excluded`: pages left out on purpose, with reasons; `failed`: pages that could not be read, with reasons.
    """
    ids, with_chunks = set(enumerated), set(chunked)
    empty = set(sectioned) - with_chunks - excluded.keys() - failed.keys()
    explained = {**excluded, **dict.fromkeys(sorted(empty & ids), "no text")}
    return CompletenessReport(
        enumerated=len(ids),
        chunked=len(with_chunks & ids),
        excluded={page_id: why for page_id, why in explained.items() if page_id in ids},
        failed={page_id: why for page_id, why in failed.items() if page_id in ids},
        unexplained=tuple(sorted(ids - with_chunks - explained.keys() - failed.keys())),
    )
