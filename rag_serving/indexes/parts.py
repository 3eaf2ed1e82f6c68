"""The searchable parts of a generation's chunks, in files or a database.

Belongs here: the protocols of the parts that `IndexedChunks` is made of. Does not belong here: a part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rag_serving.artifacts.columns import Read
from rag_serving.indexes.bm25 import Bm25
from rag_serving.indexes.hits import Hit
from rag_serving.indexes.keyword_index import KeywordIndex
from rag_serving.indexes.originals import Original
from rag_serving.indexes.page_contents import DuplicateLocations
from rag_serving.indexes.readable_rows import Readable
from rag_serving.indexes.set_tables import SetTablesOfReaders, no_sets

Vector = NDArray[np.float32]  # [d]
Mask = NDArray[np.bool_]  # [chunks]
Rows = NDArray[np.int64]  # [n]


class VectorSearch(Protocol):
    """The vectors of the chunks, each row with one or several."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Return the degraded parts, one line each."""
        ...

    def search(
        self, vector: Vector, k: int, classes: frozenset[str], readable: Readable, among: Mask | None = None
    ) -> list[Hit]:
        """Return the k nearest rows that may be read by cosine similarity to `vector`, best first, of those in
        `among`."""
        ...

    def similarities(self, vector: Vector, rows: Rows) -> NDArray[np.float32]:
        """Return the cosine similarity [n] of some rows to `vector`, of each its nearest vector's."""
        ...

    def mean(self, rows: Rows) -> NDArray[np.float32]:
        """Return one L2-normalized vector for each of some rows [n, d]: the mean of its own."""
        ...

    def close(self) -> None: ...


class SentenceSearch(Protocol):
    """The vectors of the chunks' sentences."""

    def similarities(self, vector: Vector, chunks: Sequence[int], texts: Sequence[str]) -> list[float | None]:
        """Return the cosine similarity to `vector` of texts that are sentences of some rows; None for others."""
        ...

    def best(self, vector: Vector, chunks: Sequence[int]) -> NDArray[np.float64]:
        """Return the similarity to `vector` of each row's heading path and nearest sentence [n, 2]; NaN without."""
        ...


class Parts(NamedTuple):
    """The parts for searching and showing the rows of one chunk table."""

    dense: VectorSearch
    lexical: Bm25
    keywords: KeywordIndex
    places: DuplicateLocations
    sentences: SentenceSearch | None = None
    originals: Mapping[str, Original] = {}
    texts: Mapping[str, Read] = {}  # the columns that the chunk table has not
    sets: Callable[[], SetTablesOfReaders] = no_sets
