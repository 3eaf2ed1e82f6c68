"""Dense search: every shard asked, results merged, exact search wherever Chroma cannot or need not answer.

Belongs here: searching the shards of one generation. Does not belong here: building them (`shard_collections`).

Who may read what is decided before anything is scored. Up to `EXACT_ROWS` rows that a caller may read are searched
exactly: 20,000 vectors of 384 numbers take 1 ms, Chroma's 3 ms, and whether a shard holds anything that the caller may
not read must not show in what an approximate search misses. Above that Chroma's graph is walked, which was made of all
chunks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes import exact
from rag_serving.indexes.chroma import DenseError, Place, one_line
from rag_serving.indexes.exact import Vectors
from rag_serving.indexes.hits import Hit, best
from rag_serving.indexes.shard_collections import ShardCollections, query

EXACT_ROWS = 20_000
RETRY_S = 30.0  # how long a shard that failed is searched exactly before Chroma is tried again

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class ShardRows:
    """Where a shard stands in the chunk table: its collection's name, its rows (ascending), the classes among them."""

    collection: str
    rows: Rows
    classes: frozenset[str]


class DenseIndex:
    """The shards of one generation, opened; safe to search from several threads."""

    def __init__(
        self,
        place: Place,
        shards: Sequence[ShardRows],
        vectors: Vectors,
        row_of: Mapping[str, int],
    ) -> None:
        """`vectors` [chunks, d] are the generation's, normalized; `row_of` gives the row of every chunk id."""
        self._shards = [OpenShard(place, shard, vectors, row_of) for shard in shards]
        self._vectors = vectors
        self._pool = ThreadPoolExecutor(min(8, len(shards)), "shard") if len(shards) > 1 else None

    @property
    def problems(self) -> tuple[str, ...]:
        """What is searched exactly because Chroma could not be used, a line for each shard."""
        return tuple(shard.problem for shard in self._shards if shard.problem)

    def search(self, vector: Vectors, k: int, classes: frozenset[str], allowed: NDArray[np.bool_]) -> list[Hit]:
        """The k nearest rows by cosine similarity to `vector` [d], best first.

        `classes` are the reader classes that may be seen, `allowed` [chunks] the rows they cover.
        """
        vector = np.ascontiguousarray(vector, dtype=np.float32)
        shards = [shard for shard in self._shards if shard.classes & classes]
        search = self._pool.map if self._pool else map
        found = [*search(lambda shard: shard.nearest(vector, k, classes, allowed), shards)]
        if not found:
            return []
        rows = np.concatenate(found)
        return best(rows, exact.similarities(self._vectors, vector, rows), k)

    def approximate(self, vector: Vectors, k: int) -> list[Hit]:
        """The k nearest that Chroma alone finds among all chunks.

        Raises:
            DenseError: a shard cannot be searched by Chroma.
        """
        vector = np.ascontiguousarray(vector, dtype=np.float32)
        rows = np.concatenate([np.zeros(0, np.int64), *(shard.approximate(vector, k) for shard in self._shards)])
        return best(rows, exact.similarities(self._vectors, vector, rows), k)

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown(wait=False)


class OpenShard:
    """One shard: its collection while Chroma answers, its rows of the vectors otherwise."""

    def __init__(self, place: Place, shard: ShardRows, vectors: Vectors, row_of: Mapping[str, int]) -> None:
        self.classes = shard.classes
        self.problem: str | None = None
        self._place, self._name, self._rows = place, shard.collection, shard.rows
        self._vectors, self._row_of = vectors, row_of
        self._collection: Any = None
        self._retry_at = 0.0
        self._connect()

    def nearest(self, vector: Vectors, k: int, classes: frozenset[str], allowed: NDArray[np.bool_]) -> Rows:
        """Rows of the k nearest chunks of this shard that the classes may see."""
        everything = self.classes <= classes
        rows = self._rows if everything else self._rows[allowed[self._rows]]
        if len(rows) > EXACT_ROWS:
            found = self._by_chroma(vector, min(k, len(rows)), None if everything else sorted(self.classes & classes))
            if found is not None:
                return found
        return np.array([hit.row for hit in exact.search(self._vectors, vector, k, rows)], dtype=np.int64)

    def approximate(self, vector: Vectors, k: int) -> Rows:
        """Rows that Chroma alone finds; raises DenseError where it cannot."""
        if self._collection is None:
            raise DenseError(self.problem)
        ids = query(self._collection, vector, min(k, len(self._rows)), None)
        return np.array([self._row_of[chunk_id] for chunk_id in ids if chunk_id in self._row_of], dtype=np.int64)

    def _by_chroma(self, vector: Vectors, k: int, readers: Sequence[str] | None) -> Rows | None:
        """What Chroma finds, None where it cannot be used or found fewer than there are."""
        if self._collection is None and not (time.monotonic() >= self._retry_at and self._connect()):
            return None
        try:
            ids = query(self._collection, vector, k, readers)
            rows = np.array([self._row_of[chunk_id] for chunk_id in ids], dtype=np.int64)
        except (DenseError, KeyError) as error:
            self._fail(one_line(error))
            return None
        return rows if len(rows) == k else None

    def _connect(self) -> bool:
        """Open the collection and compare its count; a shard that cannot be used says why in `problem`."""
        try:
            collection = ShardCollections.open(self._place).get(self._name)
            count = None if collection is None else collection.count()
        except Exception as error:  # from Chroma's storage or transport, of any class
            self._fail(one_line(error))
            return False
        if count != len(self._rows):
            state = "is missing" if count is None else f"holds {count} of {len(self._rows)} chunks"
            self._fail(f"collection {self._name} {state}")
            return False
        self._collection, self.problem = collection, None
        return True

    def _fail(self, reason: str) -> None:
        self._collection = None
        self._retry_at = time.monotonic() + RETRY_S
        self.problem = f"dense index searched exactly: {reason}; `citelock build` mends it"
