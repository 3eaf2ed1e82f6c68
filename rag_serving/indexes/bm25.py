"""BM25 over the terms of chunks, independent of their storage.

Belongs here: the formula, adding scores up, rows with terms. Does not belong here: occurrences: files (`lexical`), the
analysis into terms (`text.analyzer`).

Document frequencies and the mean length are counted over the rows that a reader may see: otherwise scores would reveal
the hidden ones. The formula and the order of rounding are those of bm25s (Lü, "BM25S", arXiv:2407.03618), to the last
bit those of an index of these rows alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes.hits import Hit, best

K1, B, METHOD = 1.2, 0.75, "lucene"

Numbers = NDArray[Any]
Allowed = NDArray[np.bool_]


class Occurrences(NamedTuple):
    """The rows with a term, each once, and its frequency in each."""

    rows: Numbers
    counts: Numbers


class Bm25(ABC):
    """The terms of so many chunks. Safe to search from several threads."""

    def __init__(self, lengths: Numbers) -> None:
        """`lengths` [chunks]: the number of terms of every row."""
        self._lengths = lengths
        self.chunks = len(lengths)

    def __len__(self) -> int:
        return self.chunks

    @abstractmethod
    def terms(self) -> Collection[str]:
        """Return every term of the index."""

    @abstractmethod
    def occurrences(self, terms: Iterable[str]) -> Mapping[str, Occurrences]:
        """Return the occurrences of each term; none for a term that is not indexed."""

    def search(
        self,
        terms: Iterable[str] | Mapping[str, float],
        k: int,
        allowed: Allowed | None = None,
        among: Allowed | None = None,
    ) -> list[Hit]:
        """Return the k best chunks by BM25, only those with a query term, best first.

        `terms` are analyzed terms, repetitions counting, or weights by term (a relevance model's). Rows outside
        `allowed` [chunks] do not exist: document frequencies and the mean length are those of the others, so that no
        score reveals them. `among` [chunks] only narrows the result.
        """
        scores = self.scores(terms, allowed)
        if among is not None:
            scores[~among] = 0
        return best_of(scores, k)

    def scores(self, terms: Iterable[str] | Mapping[str, float], allowed: Allowed | None = None) -> NDArray[np.float32]:
        """Return the BM25 score [chunks] of every row, 0 without a term of the query and outside `allowed`."""
        scores = np.zeros(self.chunks, dtype=np.float32)
        weights = terms if isinstance(terms, Mapping) else Counter(terms)
        mean = 0.0 if allowed is None else self._mean_length(allowed)
        for term, found in sorted(self.occurrences(weights).items()):
            rows, column = self._column(term, found) if allowed is None else self._column_among(found, allowed, mean)
            scores[rows] += np.float32(weights[term]) * column
        return scores

    def rows_with(self, terms: Iterable[str]) -> NDArray[np.int64]:
        """Return the rows with all of the analyzed terms, ascending; none without a term."""
        columns = sorted((found.rows for found in self.occurrences(sorted(set(terms))).values()), key=len)
        if not columns:
            return np.zeros(0, dtype=np.int64)
        rows = columns[0]
        for column in columns[1:]:
            rows = rows[np.isin(rows, column)]
        return np.sort(rows).astype(np.int64)

    def frequency(self, term: str, allowed: Allowed | None = None) -> int:
        """Return the number of `allowed` chunks with an analyzed term."""
        rows = self.occurrences([term])[term].rows
        return len(rows) if allowed is None else int(np.count_nonzero(allowed[rows]))

    def _mean_length(self, allowed: Allowed) -> float:
        return _mean(self._lengths[allowed])

    @cached_property
    def _whole_mean(self) -> float:
        return _mean(self._lengths)

    def _column(self, _: str, found: Occurrences) -> tuple[Numbers, Numbers]:
        """Return the rows with a term, each once, and its weights there."""
        return self._weighted(found, self._whole_mean, self.chunks)

    def _column_among(self, found: Occurrences, allowed: Allowed, mean: float) -> tuple[Numbers, Numbers]:
        """Return the same as if the `allowed` rows were all."""
        visible = allowed[found.rows]
        return self._weighted(
            Occurrences(found.rows[visible], found.counts[visible]), mean, int(np.count_nonzero(allowed))
        )

    def _weighted(self, found: Occurrences, mean: float, population: int) -> tuple[Numbers, Numbers]:
        """Return the rows with a term and its weights there, among `population` chunks of this mean length."""
        rows, counts = found.rows, found.counts.astype(np.float32)
        if not len(rows):
            return rows, counts
        saturation = counts / (K1 * ((1 - B) + B * self._lengths[rows] / mean) + counts)
        return rows, (np.float32(idf(len(rows), population)) * saturation).astype(np.float32)


def _mean(lengths: Numbers) -> float:
    return int(lengths.sum(dtype=np.int64)) / max(len(lengths), 1)


def best_of(scores: NDArray[np.float32], k: int) -> list[Hit]:
    """Return the k best rows of `scores` [chunks], only those above zero, best first."""
    matching = np.flatnonzero(scores > 0)
    return best(matching, scores[matching], k)


def idf(frequency: int, population: int) -> float:
    """Return inverse document frequency as Lucene and bm25s compute it: ln(1 + (N - n + ½) / (n + ½))."""
    return math.log(1 + (population - frequency + 0.5) / (frequency + 0.5))
