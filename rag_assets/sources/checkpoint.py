"""Rows that a sync has fetched so far, on disk: a sync that is killed goes on where it stopped.

Belongs here: batches of rows in the source's folder, committed one by one.
Does not belong here: deciding which rows are still of use.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rag_assets.sources.base import Row, rows_by_id
from rag_serving.artifacts.schema import PAGES
from rag_serving.artifacts.store import StoreError, read_table, remove_folder, write_table


class SyncCheckpoint:
    """The numbered batches of one source.

    `settled` is the number that the last complete sync left in its state: whoever stored that state had stored its
    table before, so the batches below it have served. `identity` names the site and space, so that batches of other
    settings are never taken up.
    """

    def __init__(self, folder: Path, identity: str, settled: int = 1) -> None:
        root = folder / "sync"
        self._folder = root / identity
        self.following = settled
        for other in root.glob("*"):
            if other != self._folder:
                remove_folder(other)
        for file in self._files():
            if int(file.stem) < settled:
                file.unlink()

    def rows(self) -> dict[str, Row]:
        """Return everything fetched so far, by page id; a batch that cannot be read was not fetched."""
        rows: dict[str, Row] = {}
        for file in self._files():
            self.following = int(file.stem) + 1
            try:
                rows.update(rows_by_id(read_table(file, PAGES)))
            except StoreError:
                file.unlink()
        return rows

    def add(self, rows: Sequence[Row]) -> None:
        """Commit a batch."""
        if rows:
            write_table(self._folder / f"{self.following:06}.parquet", PAGES.table(list(rows)), PAGES)
            self.following += 1

    def _files(self) -> list[Path]:
        return sorted(file for file in self._folder.glob("*.parquet") if file.stem.isdigit())
