"""How many of a source's passages everyone may read, and how many nobody: what a build and the doctor tell of it.

Belongs here: counting, and saying it where it would surprise. Does not belong here: who may read what, and why.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc

from rag_serving.access.principals import EVERYONE, NOBODY
from rag_serving.artifacts.schema import CHUNKS
from rag_serving.artifacts.store import Store, StoreError, read_table


@dataclass(frozen=True)
class PassageReaders:
    """The passages of a source's chunk table by who may read them."""

    passages: int = 0
    for_everyone: int = 0
    for_nobody: int = 0

    def note(self, source: str) -> str | None:
        """Return what whoever asks without a name will meet; None where that is no surprise."""
        if not self.passages:
            return None
        if self.for_nobody == self.passages:
            return (
                f"nobody may read any of its {self.passages:,} passages; `citelock doctor` says why, "
                f"sources.{source}.readers says who may read the space"
            )
        if not self.for_everyone:
            return f"0 of {self.passages:,} passages are readable for everyone; who asks needs --user or --group"
        return None


def passage_readers(store: Store, source: str) -> PassageReaders:
    """Count the passages of a source; none where it has no table that can be read."""
    try:
        readers = read_table(store.source(source) / "chunks.parquet", CHUNKS, ["readers"])["readers"]
    except StoreError:
        return PassageReaders()
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(readers).to_pylist()}
    return PassageReaders(len(readers), counts.get(EVERYONE, 0), counts.get(NOBODY, 0))
