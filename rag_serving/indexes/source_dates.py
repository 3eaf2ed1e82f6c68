"""The sources of a generation: how many pages each has, and when its newest one was made.

Belongs here: counting the whole generation, for those who run it. Does not belong here: what one reader may know of it
(`view`), when a source was synced (`artifacts.sync_times`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from rag_serving.indexes.served import ServedGeneration


@dataclass(frozen=True)
class SourcePages:
    """What a generation has of one source."""

    pages: int
    newest: datetime | None  # when the version of its newest page was made


def source_pages(generation: ServedGeneration) -> dict[str, SourcePages]:
    """Return the sources of a generation by their keys, restricted pages included."""
    newest = generation.newest
    return {key: SourcePages(each.pages, newest.get(key)) for key, each in generation.manifest.pages.items()}


def newest_pages(chunks: pa.Table) -> dict[str, datetime]:
    """Return when the newest page of each source was made, by a table of GENERATION_CHUNKS; without sources that do not
    say."""
    dates = chunks.select(["source", "updated_at"]).group_by("source").aggregate([("updated_at", "max")])
    pairs = zip(dates["source"].to_pylist(), dates["updated_at_max"].to_pylist(), strict=True)
    return {source: newest for source, newest in pairs if newest is not None}
