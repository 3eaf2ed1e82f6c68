"""All that is wrong in a tenant's pages, or in a folder's.

Belongs here: the tables that are looked at, and which looks are taken. Does not belong here: any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa

from rag_assets.steps.contradictions.findings import Finding, in_order
from rag_assets.steps.contradictions.values import contradictions
from rag_serving.records.passages import Chunk

_COLUMNS = [name for name in Chunk.__dataclass_fields__ if name != "also_at"]


@dataclass(frozen=True)
class Corpus:
    """The pages that are compared.

    Attributes:
        chunks: rows of CHUNKS with `source` and `kind`, those that are indexed, by page and place.
        sections: rows of SECTIONS.
        pages: rows of PAGES.
    """

    chunks: pa.Table
    sections: pa.Table
    pages: pa.Table


def examined(corpus: Corpus, today: date, *, versions: bool = False) -> list[Finding]:  # noqa: ARG001
    """Return what is wrong, as it is shown; `versions`: also between versions, which are expected to differ."""
    return in_order(contradictions(chunks_of(corpus.chunks), versions=versions))


def chunks_of(table: pa.Table) -> list[Chunk]:
    """Return rows of CHUNKS as records."""
    columns = {name: table[name].to_pylist() for name in _COLUMNS if name in table.column_names}
    for name in ("heading_path", "labels"):
        columns[name] = [tuple(values or ()) for values in columns[name]]
    return [Chunk(**_named(columns, values)) for values in zip(*columns.values(), strict=True)]


def _named(columns: dict[str, list[Any]], values: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(columns, values, strict=True))
