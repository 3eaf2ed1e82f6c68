"""The generation that a server has open, in a folder or a database, and its sources.

Belongs here: the protocol; pages and newest page of each source, for operators. Does not belong here: one reader's view
(`protocols`), opening it (`sources`), times of syncs (`artifacts.signed_files`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import pyarrow as pa

from rag_serving.access.principals import Principal
from rag_serving.artifacts.manifest import Manifest
from rag_serving.indexes.protocols import ReaderView
from rag_serving.indexes.set_tables import SetTablesOfReaders


@dataclass(frozen=True)
class DatedPages:
    """A source's part of a generation."""

    pages: int
    newest: datetime | None  # when the version of its newest page was made


def source_pages(generation: ServedGeneration) -> dict[str, DatedPages]:
    """Return the sources of a generation by their keys, restricted pages included."""
    newest = generation.newest
    return {key: DatedPages(each.pages, newest.get(key)) for key, each in generation.manifest.pages.items()}


def newest_pages(chunks: pa.Table) -> dict[str, datetime]:
    """Return when the newest page of each source was made, by a table of GENERATION_CHUNKS; without sources that do not
    say."""
    dates = chunks.select(["source", "updated_at"]).group_by("source").aggregate([("updated_at", "max")])
    pairs = zip(dates["source"].to_pylist(), dates["updated_at_max"].to_pylist(), strict=True)
    return {source: newest for source, newest in pairs if newest is not None}


class ServedGeneration(Protocol):
    """An open generation that readers may ask. Safe to use from several threads."""

    @property
    def id(self) -> str: ...

    @property
    def manifest(self) -> Manifest: ...

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return the degraded parts, one line each."""
        ...

    @property
    def is_altered(self) -> bool:
        """Return whether its files were written to since it was opened."""
        ...

    def __len__(self) -> int:
        """Return its number of chunks, for all readers."""
        ...

    def for_reader(self, principal: Principal) -> ReaderView:
        """Return a principal's view.

        Raises:
            RemoteError: it is in a database that cannot answer.
        """
        ...

    @property
    def newest(self) -> Mapping[str, datetime]:
        """Return when the version of the newest page of each source was made, restricted pages included."""
        ...

    @property
    def sets(self) -> SetTablesOfReaders:
        """Return the tables for queries about sets."""
        ...

    def classes_for(self, principal: Principal) -> frozenset[str]:
        """Return the reader classes known to this process for a principal: all of them, or those that the principal
        satisfies."""
        ...

    def hides(self, view: ReaderView, chunk_id: str) -> bool:
        """Return whether a chunk is here, or may be, that `view` does not show."""
        ...

    def close(self) -> None: ...
