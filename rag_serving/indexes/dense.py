"""Dense search: exact by the codes of the vectors, or by Chroma's graphs, as `indexing.dense_search` says.

Belongs here: searching the shards of one generation. Does not belong here: building them (`shard_collections`).

Who may read what is decided before anything is scored. With `auto` up to `EXACT_ROWS` rows that a caller may read are
searched exactly: with `codes` that is faster than asking Chroma, needs less memory, and does not show what else a shard
holds in what an approximate search misses. Above that, and always with `chroma`, Chroma's graphs are walked, which were
made of all chunks; where one cannot be, search is exact again. Chroma is loaded when it is first asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_serving.config.indexing import DenseSearch
from rag_serving.indexes import exact
from rag_serving.indexes.chroma import ChromaLocation, DenseError, one_line
from rag_serving.indexes.exact import Vectors, VectorTable
from rag_serving.indexes.hits import Hit, best
from rag_serving.indexes.readable_rows import Readable
from rag_serving.indexes.shard_collections import ShardCollections, query
from rag_serving.indexes.shard_files import file_fault
from rag_serving.indexes.window_map import WindowMap, chunk_id_of
from rag_serving.models.breaker import Breaker

EXACT_ROWS = 1_000_000
_NO_GRAPHS = "dense index searched exactly: it was built without Chroma's graphs; run `citelock build`"
RETRY_S = 30.0  # how long a shard that failed is left alone before Chroma is tried again

Rows = NDArray[np.int64]
RowOf = Callable[[str], int | None]


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
        place: ChromaLocation,
        shards: Sequence[ShardRows],
        table: VectorTable,
        row_of: RowOf,
        mode: DenseSearch = "auto",
    ) -> None:
        """`row_of` gives the row of a chunk id."""
        self._shards = [OpenShard(place, shard, row_of, table.windows) for shard in shards]
        self._table, self._mode = table, mode
        self._exact_rows = {"auto": EXACT_ROWS, "exact": table.rows, "chroma": 0}[mode]
        self._pool: ThreadPoolExecutor | None = None
        self._starting = threading.Lock()
        if table.rows > self._exact_rows:
            self.connect()

    @property
    def problems(self) -> tuple[str, ...]:
        """What is known to be searched exactly because Chroma could not be used, a line for each shard."""
        if self._mode == "chroma" and not self._shards and self._table.rows:
            return (_NO_GRAPHS,)
        return tuple(shard.problem for shard in self._shards if shard.problem)

    def connect(self) -> tuple[str, ...]:
        """Open every collection; returns the problems."""
        for shard in self._shards:
            shard.connect()
        return self.problems

    def search(
        self,
        vector: Vectors,
        k: int,
        classes: frozenset[str],
        readable: Readable,
        among: NDArray[np.bool_] | None = None,
    ) -> list[Hit]:
        """Return the k nearest rows by cosine similarity to `vector` [d], best first.

        `classes` are the reader classes that may be seen, `readable` the rows they cover. `among` [chunks] narrows the
        search to some rows, which are then compared one by one.
        """
        if among is not None:
            return exact.search(self._table, vector, k, np.flatnonzero(readable.mask & among))
        vector = np.ascontiguousarray(vector, dtype=np.float32)
        many = len(readable.rows) > self._exact_rows
        found = self._by_chroma(vector, k, classes, readable.mask) if many else None
        if found is None:
            return exact.search(self._table, vector, k, readable.rows)
        return best(found, exact.similarities(self._table, vector, found), k)

    def similarities(self, vector: Vectors, rows: Rows) -> NDArray[np.float32]:
        """Return the cosine similarity [n] of some rows to `vector` [d]."""
        return exact.similarities(self._table, vector, rows)

    def mean(self, rows: Rows) -> Vectors:
        """Return an L2-normalized vector for each of some rows [n, d], the mean of its windows."""
        return self._table.mean(rows)

    def approximate(self, vector: Vectors, k: int) -> list[Hit]:
        """Return the k nearest that Chroma alone finds among all chunks.

        Raises:
            DenseError: a shard cannot be searched by Chroma.
        """
        vector = np.ascontiguousarray(vector, dtype=np.float32)
        rows = np.concatenate([np.zeros(0, np.int64), *(shard.approximate(vector, k) for shard in self._shards)])
        return best(rows, exact.similarities(self._table, vector, rows), k)

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown(wait=False)

    def _by_chroma(self, vector: Vectors, k: int, classes: frozenset[str], allowed: NDArray[np.bool_]) -> Rows | None:
        """Return the k nearest of every shard by its graph, None where one of them cannot answer."""
        shards = [shard for shard in self._shards if shard.classes & classes]
        search = self._threads().map if len(shards) > 1 else map
        found = [*search(lambda shard: shard.nearest(vector, k, classes, allowed), shards)]
        whole = [rows for rows in found if rows is not None]
        return np.concatenate(whole) if whole and len(whole) == len(found) else None

    def _threads(self) -> ThreadPoolExecutor:
        with self._starting:
            self._pool = self._pool or ThreadPoolExecutor(min(8, len(self._shards)), "shard")
            return self._pool


class OpenShard:
    """One shard and its collection, which is opened when it is first asked."""

    def __init__(self, place: ChromaLocation, shard: ShardRows, row_of: RowOf, windows: WindowMap | None) -> None:
        self.classes = shard.classes
        self.problem: str | None = None
        self._place, self._name, self._rows, self._row_of = place, shard.collection, shard.rows, row_of
        self._windows = windows
        self._collection: Any = None
        self._breaker = Breaker(failures=1, reset_s=RETRY_S)

    def nearest(self, vector: Vectors, k: int, classes: frozenset[str], allowed: NDArray[np.bool_]) -> Rows | None:
        """Return rows of the k nearest that the classes may see; None where it cannot be used or finds too few."""
        if self._collection is None and not (self._breaker.allow() and self.connect()):
            return None
        everything = self.classes <= classes
        rows = self._rows if everything else self._rows[allowed[self._rows]]
        k = min(k, len(rows))
        try:
            found = self._distinct(vector, k, rows, None if everything else sorted(self.classes & classes))
        except DenseError as error:
            self._fail(one_line(error))
            return None
        found = found[allowed[found]]  # who may read a row is never left to what Chroma keeps of it
        return found if len(found) == k else None

    def approximate(self, vector: Vectors, k: int) -> Rows:
        """Return rows that Chroma alone finds; raises DenseError where it cannot."""
        if self._collection is None and not self.connect():
            raise DenseError(self.problem)
        return self._distinct(vector, min(k, len(self._rows)), self._rows, None)

    def connect(self) -> bool:
        """Open the collection and compare its files and count; a shard that cannot be used says why in `problem`."""
        if self._place.url is None and (fault := file_fault(self._place.folder, self._name, thorough=True)):
            self._fail(f"collection {self._name} is damaged: {fault}")
            return False
        try:
            collection = ShardCollections.open(self._place).get(self._name)
            count = None if collection is None else collection.count()
        except Exception as error:  # from Chroma's storage or transport, of any class
            self._fail(one_line(error))
            return False
        if count != (expected := self._vectors_of(self._rows)):
            state = "is missing" if count is None else f"holds {count} of {expected} vectors"
            self._fail(f"collection {self._name} {state}")
            return False
        self._collection, self.problem = collection, None
        self._breaker.succeed()
        return True

    def _distinct(self, vector: Vectors, k: int, rows: Rows, readers: Sequence[str] | None) -> Rows:
        """Return the k rows of the nearest vectors, each once; more vectors are asked for until they are of k rows.

        `rows`: those that the readers may see, whose vectors are all that there are to find.
        """
        asked, most = k, self._vectors_of(rows)
        while True:
            found = self._known(query(self._collection, vector, asked, readers))
            if len(found) >= k or asked >= most:
                return found[:k]
            asked = min(2 * asked, most)

    def _vectors_of(self, rows: Rows) -> int:
        return len(rows) if self._windows is None else int(self._windows.counts[rows].sum())

    def _known(self, ids: Sequence[str]) -> Rows:
        """Return rows of those ids that the generation has, each once, in the order of its nearest vector."""
        chunk_ids = ids if self._windows is None else dict.fromkeys(map(chunk_id_of, ids))
        rows = (self._row_of(chunk_id) for chunk_id in chunk_ids)
        return np.array([row for row in rows if row is not None], dtype=np.int64)

    def _fail(self, reason: str) -> None:
        self._collection = None
        self._breaker.fail()
        self.problem = f"dense index searched exactly: {reason}; `citelock generations repair` mends it"
