"""All that is wrong in a tenant's pages, or in a folder's.

Belongs here: the tables that are looked at, and which looks are taken. Does not belong here: any of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date

import pyarrow as pa

from rag_assets.steps.contradictions import upkeep, values
from rag_assets.steps.contradictions.findings import LintFinding, in_order
from rag_assets.steps.contradictions.upkeep import Properties
from rag_assets.steps.dedup import Fingerprints
from rag_serving.records.passages import Chunk

VERSION = values.VERSION + upkeep.VERSION
"""Raised when other findings are made of the same corpus."""
_COLUMNS = [name for name in Chunk.__dataclass_fields__ if name != "also_at"]


@dataclass(frozen=True)
class ExaminedPages:
    """The pages that are compared.

    Attributes:
        chunks: rows of CHUNKS with `source` and `kind`, those that are indexed, by page and place.
        fingerprints: of the text of each chunk.
        threshold: similarity from which a copy is not indexed.
        sections: rows of SECTIONS.
        pages: rows of PAGES.
        properties: what else is known of pages: front matter.
        files: names of all there is below the folder; none: that is not known.
    """

    chunks: pa.Table
    fingerprints: Fingerprints
    threshold: float
    sections: pa.Table
    pages: pa.Table
    properties: Properties = field(default_factory=dict)
    files: Collection[str] = ()


def examined(corpus: ExaminedPages, today: date, *, versions: bool = False) -> list[LintFinding]:
    """Return what is wrong, as it is shown; `versions`: also between versions, which are expected to differ."""
    chunks = chunks_of(corpus.chunks)
    found = [
        *values.contradictions(chunks, versions=versions),
        *upkeep.dead_links(corpus.sections, corpus.pages, corpus.files),
        *upkeep.neglected(chunks, corpus.properties, today),
        *upkeep.drifting_copies(chunks, corpus.fingerprints, corpus.threshold, versions=versions),
    ]
    return in_order({finding.id: finding for finding in found}.values())


def chunks_of(table: pa.Table) -> list[Chunk]:
    """Return rows of CHUNKS as records."""
    columns = {name: table[name].to_pylist() for name in _COLUMNS if name in table.column_names}
    for name in ("heading_path", "labels"):
        columns[name] = [tuple(values or ()) for values in columns[name]]
    rows: list[Mapping[str, object]] = [
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    ]
    return [Chunk(**row) for row in rows]  # type: ignore[arg-type]
