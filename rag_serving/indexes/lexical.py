"""The lexical index on disk: bm25s arrays in a plain folder, memory-mapped to search. bm25s computes every (term,
chunk) weight when it indexes (Lü, "BM25S", arXiv:2407.03618), so a query only adds up columns, where its reader may see
every chunk. Else document frequencies and the mean length are those of the rows that the reader may see: otherwise
scores would reveal the hidden ones. Formula and order of rounding are bm25s's."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_serving.artifacts.contents import Contents, array_of, map_file
from rag_serving.indexes.readable_rows import Hit, best
from rag_serving.text.analyzer import ANALYZER_VERSION

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
        """Return the k best chunks by BM25, only those with a query term, best first. `terms` are analyzed terms,
        repetitions counting, or weights by term (a relevance model's). Rows outside `allowed` [chunks] do not exist:
        document frequencies and the mean length are those of the others, so that no score reveals them. `among`
        [chunks] only narrows the result."""
        scores = self.scores(terms, allowed)
        if among is not None:
            scores[~among] = 0
        return best_of(scores, k)

    def scores(self, terms: Iterable[str] | Mapping[str, float], allowed: Allowed | None = None) -> NDArray[np.float32]:
        """Return the BM25 score [chunks] of every row, 0 without a term of the query and outside `allowed`."""
        scores = np.zeros(self.chunks, dtype=np.float32)
        weights = terms if isinstance(terms, Mapping) else Counter(terms)
        mean = 0.0 if allowed is None else _mean(self._lengths[allowed])
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


FORMAT = 4
FACTS_FILE = "lexical.json"
IDS_FILE = "chunk_ids.json"
VOCABULARY_FILE = "vocab.index.json"
# By term, in the vocabulary's order: where its rows start [terms + 1]; rows, weights and counts [postings]. By row: its
# number of terms.
ARRAYS = {
    "starts": "indptr.csc.index.npy",
    "rows": "indices.csc.index.npy",
    "weights": "data.csc.index.npy",
    "counts": "counts.npy",
    "lengths": "lengths.npy",
}
FILES = (FACTS_FILE, VOCABULARY_FILE, *ARRAYS.values(), IDS_FILE)
"""What an index is searched by, in the order in which it is read."""


class LexicalError(Exception):
    """The folder has no lexical index that this program can search."""


class LexicalIndex(Bm25):
    """An opened lexical index; safe to search from several threads."""

    def __init__(
        self, ids: memoryview, facts: Mapping[str, Any], vocabulary: Mapping[str, int], arrays: Mapping[str, Numbers]
    ) -> None:
        """`ids`: the chunk id of every row, as JSON."""
        self._ids, self._vocabulary = ids, vocabulary
        self._starts, self._rows, self._weights, self._counts, lengths = (arrays[name] for name in ARRAYS)
        super().__init__(lengths)
        self.content = str(facts["content"])  # digest of what was indexed

    @classmethod
    def open(cls, folder: Path) -> LexicalIndex:
        """Open the index in a folder, its files memory-mapped; errors as those of `of`."""
        try:
            return cls.of({name: map_file(folder / name) for name in FILES})
        except OSError as error:
            raise LexicalError(f"{folder} is not a complete lexical index ({error})") from error

    @classmethod
    def of(cls, contents: Contents) -> LexicalIndex:
        """Open the bytes of the `FILES`, not copied. Raises LexicalError: missing, truncated, or of another version."""
        try:
            facts = json.loads(bytes(contents[FACTS_FILE]))
            vocabulary = json.loads(bytes(contents[VOCABULARY_FILE]))
            if facts.get("format") != FORMAT:
                raise LexicalError(f"the lexical index was written by another version (format {facts.get('format')})")
            arrays = {name: array_of(contents[file]) for name, file in ARRAYS.items()}
        except (ValueError, KeyError, RecursionError, AttributeError) as error:
            raise LexicalError(f"this is not a complete lexical index ({error})") from error
        recorded = {"format": facts.get("format"), "analyzer": facts.get("analyzer")}
        if recorded != {"format": FORMAT, "analyzer": ANALYZER_VERSION}:
            raise LexicalError(f"the lexical index was written by another version ({recorded})")
        found_sizes = {name: len(array) for name, array in arrays.items()}
        postings = int(arrays["starts"][-1])
        sizes = {"starts": len(vocabulary) + 1, "lengths": facts["chunks"]}
        if found_sizes != dict.fromkeys(("rows", "weights", "counts"), postings) | sizes:
            raise LexicalError("the lexical index is not consistent: its arrays do not fit its vocabulary")
        return cls(contents[IDS_FILE], facts, vocabulary, arrays)

    def chunk_ids(self) -> list[str]:
        """Return the chunk id of every row, as indexed."""
        ids: list[str] = json.loads(bytes(self._ids))
        return ids

    def terms(self) -> Collection[str]:
        """Return every term of the index."""
        return self._vocabulary

    def occurrences(self, terms: Iterable[str]) -> Mapping[str, Occurrences]:
        """Return the occurrences of each term."""
        parts = {term: self._part(term) for term in terms}
        return {term: Occurrences(self._rows[part], self._counts[part]) for term, part in parts.items()}

    def _part(self, term: str) -> slice:
        number = self._vocabulary.get(term)
        return slice(0, 0) if number is None else slice(self._starts[number], self._starts[number + 1])

    @property
    def lengths(self) -> Numbers:
        """Return the number of terms of every row [chunks]."""
        return self._lengths

    def postings(self) -> tuple[list[str], Numbers, Numbers, Numbers]:
        """Return all terms, where the rows of each begin [terms + 1], the rows, and how often each has the term."""
        terms = sorted(self._vocabulary, key=self._vocabulary.__getitem__)
        return terms, self._starts, self._rows, self._counts

    def _column(self, term: str, found: Occurrences) -> tuple[Numbers, Numbers]:
        """Return the rows with a term, each once, and its weights there, computed by bm25s."""
        return found.rows, self._weights[self._part(term)]

    def counts_of(self, rows: Sequence[int]) -> list[dict[str, int]]:
        """Return the frequency of each indexed term in each of some rows."""
        wanted = {row: number for number, row in enumerate(rows)}
        counts: list[dict[str, int]] = [{} for _ in rows]
        places = np.flatnonzero(np.isin(self._rows, np.asarray(rows)))
        numbers = np.searchsorted(self._starts, places, side="right") - 1
        terms = sorted(self._vocabulary, key=self._vocabulary.__getitem__)
        for place, number in zip(places.tolist(), numbers.tolist(), strict=True):
            counts[wanted[int(self._rows[place])]][terms[number]] = int(self._counts[place])
        return counts
