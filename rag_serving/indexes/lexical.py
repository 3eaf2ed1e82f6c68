"""BM25 over the terms of chunks: bm25s arrays in a plain folder, memory-mapped to search.

Belongs here: loading and searching the lexical index, the formula. Does not belong here: building it
(`rag_assets.publishing.lexical_writer`), what a term is (`text.analyzer`).

bm25s computes every (term, chunk) weight when it indexes (Lü, "BM25S", arXiv:2407.03618), so a query only adds up
columns. In those weights stand document frequencies and a mean length over all chunks: whoever may not read all of them
would see the others in the scores. For them the same weights are computed from the counts of what they may read, to the
last bit those that bm25s gives for an index of nothing else.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_serving.artifacts.contents import Contents, array_of, map_file
from rag_serving.indexes.hits import Hit, best
from rag_serving.text.analyzer import ANALYZER_VERSION

FORMAT = 4
K1, B, METHOD = 1.2, 0.75, "lucene"
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

Numbers = NDArray[Any]


class LexicalError(Exception):
    """The folder does not hold a lexical index that this program can search."""


class LexicalIndex:
    """An opened lexical index; safe to search from several threads."""

    def __init__(
        self, ids: memoryview, facts: Mapping[str, Any], vocabulary: Mapping[str, int], arrays: Mapping[str, Numbers]
    ) -> None:
        """`ids`: the chunk id of every row, as JSON."""
        self._ids = ids
        self._vocabulary = vocabulary
        self._starts, self._rows, self._weights, self._counts, self._lengths = (arrays[name] for name in ARRAYS)
        self.chunks = int(facts["chunks"])
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
        """Open the index in the bytes of its `FILES`, not copied.

        Raises:
            LexicalError: missing, truncated, or written by another version.
        """
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

    def __len__(self) -> int:
        return self.chunks

    def chunk_ids(self) -> list[str]:
        """Return the chunk id of every row, as indexed."""
        ids: list[str] = json.loads(bytes(self._ids))
        return ids

    def search(
        self,
        terms: Iterable[str] | Mapping[str, float],
        k: int,
        allowed: NDArray[np.bool_] | None = None,
        among: NDArray[np.bool_] | None = None,
    ) -> list[Hit]:
        """Return the k best chunks by BM25, only those with a term of the query, best first.

        `terms` are analyzed terms, repetitions counting, or weights by term (a relevance model's). Rows outside
        `allowed` [chunks] are not there at all: document frequencies and the mean length are those of the others, so
        that no score tells of them.
        `among` [chunks] only narrows what may come back.
        """
        scores = self.scores(terms, allowed)
        if among is not None:
            scores[~among] = 0
        return best_of(scores, k)

    def scores(
        self, terms: Iterable[str] | Mapping[str, float], allowed: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float32]:
        """Return the BM25 score [chunks] of every row, 0 without a term of the query and outside `allowed`."""
        scores = np.zeros(self.chunks, dtype=np.float32)
        weights = terms if isinstance(terms, Mapping) else Counter(terms)
        mean = 0.0 if allowed is None else self._mean_length(allowed)
        for term in sorted(weights):
            rows, column = self._column(term) if allowed is None else self._column_among(term, allowed, mean)
            scores[rows] += np.float32(weights[term]) * column
        return scores

    def _part(self, term: str) -> slice:
        number = self._vocabulary.get(term)
        return slice(0, 0) if number is None else slice(self._starts[number], self._starts[number + 1])

    def _column(self, term: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the rows that hold a term, each once, and its weights there."""
        part = self._part(term)
        return self._rows[part], self._weights[part]

    def _mean_length(self, allowed: NDArray[np.bool_]) -> float:
        lengths = self._lengths[allowed]
        return int(lengths.sum(dtype=np.int64)) / max(len(lengths), 1)

    def _column_among(self, term: str, allowed: NDArray[np.bool_], mean: float) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the same as if the `allowed` rows were all: the formula and the order of rounding are those of
        bm25s."""
        part = self._part(term)
        visible = allowed[self._rows[part]]
        rows, counts = self._rows[part][visible], self._counts[part][visible].astype(np.float32)
        if not len(rows):
            return rows, counts
        saturation = counts / (K1 * ((1 - B) + B * self._lengths[rows] / mean) + counts)
        return rows, (np.float32(idf(len(rows), int(np.count_nonzero(allowed)))) * saturation).astype(np.float32)

    def terms(self) -> Collection[str]:
        """Return every term of the index."""
        return self._vocabulary

    @property
    def lengths(self) -> Numbers:
        """Return the number of terms of every row [chunks]."""
        return self._lengths

    def postings(self) -> tuple[list[str], Numbers, Numbers, Numbers]:
        """Return all terms, where the rows of each begin [terms + 1], the rows, and how often each has the term."""
        terms = sorted(self._vocabulary, key=self._vocabulary.__getitem__)
        return terms, self._starts, self._rows, self._counts

    def rows_with(self, terms: Iterable[str]) -> NDArray[np.int64]:
        """Return the rows that hold every one of some analyzed terms, ascending; none without a term."""
        columns = sorted((self._rows[self._part(term)] for term in set(terms)), key=len)
        if not columns:
            return np.zeros(0, dtype=np.int64)
        rows = columns[0]
        for column in columns[1:]:
            rows = rows[np.isin(rows, column)]
        return np.sort(rows).astype(np.int64)

    def counts_of(self, rows: Sequence[int]) -> list[dict[str, int]]:
        """Return how often each term stands in each of some rows, as the index has it."""
        wanted = {row: number for number, row in enumerate(rows)}
        counts: list[dict[str, int]] = [{} for _ in rows]
        places = np.flatnonzero(np.isin(self._rows, np.asarray(rows)))
        numbers = np.searchsorted(self._starts, places, side="right") - 1
        terms = sorted(self._vocabulary, key=self._vocabulary.__getitem__)
        for place, number in zip(places.tolist(), numbers.tolist(), strict=True):
            counts[wanted[int(self._rows[place])]][terms[number]] = int(self._counts[place])
        return counts

    def frequency(self, term: str, allowed: NDArray[np.bool_] | None = None) -> int:
        """Return how many of the `allowed` chunks hold an analyzed term."""
        rows = self._rows[self._part(term)]
        return len(rows) if allowed is None else int(np.count_nonzero(allowed[rows]))


def best_of(scores: NDArray[np.float32], k: int) -> list[Hit]:
    """Return the k best rows of `scores` [chunks], only those above zero, best first."""
    matching = np.flatnonzero(scores > 0)
    return best(matching, scores[matching], k)


def idf(frequency: int, population: int) -> float:
    """Return inverse document frequency as Lucene and bm25s compute it: ln(1 + (N - n + ½) / (n + ½))."""
    return math.log(1 + (population - frequency + 0.5) / (frequency + 0.5))
