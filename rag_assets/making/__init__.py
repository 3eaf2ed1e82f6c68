"""Run the steps of both jobs, one function each: Dagster's assets call them, and so does `citelock ask --docs`."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from rag_assets.progress import Reporter
from rag_assets.sources.base import hangs_on_a_page
from rag_serving.artifacts.schema import TableSchema
from rag_serving.artifacts.store import Store, StoreError, read_table
from rag_serving.config.loading import Config


@dataclass(frozen=True)
class Making:
    """Carry what every step needs: the source or tenant, the configuration, the store, and where progress goes."""

    key: str
    config: Config
    store: Store
    reporter: Reporter
    log: logging.Logger
    full: bool = False  # everything is made again, changed or not
    of_notes: bool = False  # of a source, only the pages that are noted are looked at


def previous_table(path: Path, schema: TableSchema) -> pa.Table:
    """Return a table of the last run to build upon: empty if it is missing, damaged, or of another version."""
    try:
        return read_table(path, schema)
    except StoreError:
        return schema.empty()


def listed_pages(pages: pa.Table, id_prefix: str) -> pa.Table:
    """Return the rows of PAGES that lists of pages may show: no files, no comments."""
    return pages.filter(
        pa.array([not hangs_on_a_page(each, id_prefix) for each in pages["page_id"].to_pylist()], pa.bool_())
    )
