"""BM25 over the terms of chunks: term counts in plain arrays, memory-mapped to search.

Belongs here: building, saving, loading and searching the lexical index. Does not belong here: what a term is (`terms`).

score = Σ idf · tf / (tf + k1 · (1 - b + b · length / mean length)), as Lucene computes it (Robertson and Zaragoza, "The
Probabilistic Relevance Framework: BM25 and Beyond", 2009). The weights are computed when somebody asks: in those that
an index computes beforehand stand document frequencies and a mean length over chunks that the caller may not read.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes.hits import Hit, best
from rag_serving.indexes.terms import ANALYZER_VERSION, analyze

FORMAT = 2
K1, B, METHOD = 1.5, 0.75, "lucene"
_FACTS = "lexical.json"
_IDS = "chunk_ids.json"
_VOCABULARY = "vocabulary.json"
# By term, in the vocabulary's order: where its rows start [terms + 1]; rows and counts [postings]. And by row: lengths.
_ARRAYS = ("starts", "rows", "counts", "lengths")


class LexicalError(Exception):
    """The folder does not hold a lexical index that this program can search."""


def documents_digest(chunk_ids: Sequence[str], texts: Sequence[str]) -> str:
    """What an index of these texts was made of."""
    return hashlib.sha256(json.dumps([list(chunk_ids), list(texts)]).encode()).hexdigest()


def build_lexical(folder: Path, chunk_ids: Sequence[str], texts: Sequence[str]) -> int:
    """Write the index of `texts`, one per chunk id, into a folder; returns the size of its vocabulary.

    The same texts in the same order give the same bytes.
    """
    documents = [Counter(analyze(text)) for text in texts]
    vocabulary = {term: number for number, term in enumerate(sorted(set().union(*documents)))}
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in _postings(documents, vocabulary).items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    _dump(folder / _VOCABULARY, vocabulary)
    _dump(folder / _IDS, list(chunk_ids))
    facts = {
        "format": FORMAT,
        "analyzer": ANALYZER_VERSION,
        "chunks": len(chunk_ids),
        "terms": len(vocabulary),
        "content": documents_digest(chunk_ids, texts),
    }
    _dump(folder / _FACTS, facts)
    return len(vocabulary)


def _postings(documents: Sequence[Mapping[str, int]], vocabulary: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """How often each term stands in which row, sorted by term and row, and how many terms each row has."""
    sizes = [len(document) for document in documents]
    terms = np.fromiter((vocabulary[term] for document in documents for term in document), np.int32, sum(sizes))
    counts = np.fromiter(chain.from_iterable(document.values() for document in documents), np.int32, sum(sizes))
    rows = np.repeat(np.arange(len(documents), dtype=np.int32), sizes)
    order = np.argsort(terms, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(terms, minlength=len(vocabulary)))])
    lengths = np.array([sum(document.values()) for document in documents], dtype=np.int32)
    return {"starts": starts.astype(np.int64), "rows": rows[order], "counts": counts[order], "lengths": lengths}


class LexicalIndex:
    """An opened lexical index; safe to search from several threads."""

    def __init__(
        self, folder: Path, facts: Mapping[str, Any], vocabulary: Mapping[str, int], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        self._folder = folder
        self._vocabulary = vocabulary
        self._starts, self._rows, self._counts, self._lengths = (arrays[name] for name in _ARRAYS)
        self.chunks = int(facts["chunks"])
        self.content = str(facts["content"])  # digest of what was indexed

    @classmethod
    def open(cls, folder: Path) -> LexicalIndex:
        """Open the index in a folder, its arrays memory-mapped.

        Raises:
            LexicalError: missing, truncated, or written by another version.
        """
        try:
            facts = _load(folder / _FACTS)
            vocabulary = _load(folder / _VOCABULARY)
            if facts.get("format") != FORMAT:
                raise LexicalError(f"{folder} was written by another version (format {facts.get('format')})")
            arrays = {name: _array(folder / f"{name}.npy") for name in _ARRAYS}
        except (OSError, ValueError) as error:
            raise LexicalError(f"{folder} is not a complete lexical index ({error})") from error
        found = {"format": facts.get("format"), "analyzer": facts.get("analyzer")}
        if found != {"format": FORMAT, "analyzer": ANALYZER_VERSION}:
            raise LexicalError(f"{folder} was written by another version ({found})")
        starts, rows, counts, lengths = (arrays[name] for name in _ARRAYS)
        if (len(starts), len(rows), len(counts)) != (len(vocabulary) + 1, starts[-1], starts[-1]) or len(
            lengths
        ) != facts["chunks"]:
            raise LexicalError(f"{folder} is not consistent: its arrays do not fit its vocabulary")
        return cls(folder, facts, vocabulary, arrays)

    def __len__(self) -> int:
        return self.chunks

    def chunk_ids(self) -> list[str]:
        """The chunk id of every row, as indexed."""
        ids: list[str] = _load(self._folder / _IDS)
        return ids

    def search(
        self,
        terms: Iterable[str] | Mapping[str, float],
        k: int,
        allowed: NDArray[np.bool_] | None = None,
        among: NDArray[np.bool_] | None = None,
    ) -> list[Hit]:
        """The k best chunks by BM25, only those with a term of the query, best first.

        `terms` are analyzed terms, repetitions counting, or weights by term (a relevance model's). Rows outside
        `allowed` [chunks] are not there at all: document frequencies and the mean length are those of the others, so
        that no score tells of them.
        `among` [chunks] only narrows what may come back.
        """
        scores = np.zeros(self.chunks, dtype=np.float32)
        weights = terms if isinstance(terms, Mapping) else Counter(terms)
        lengths = self._lengths if allowed is None else self._lengths[allowed]
        mean = int(lengths.sum(dtype=np.int64)) / max(len(lengths), 1)
        for term in sorted(weights):
            rows, counts = self._column(term, allowed)
            if len(rows):
                weight = weights[term] * idf(len(rows), len(lengths))
                saturation = counts / (counts + K1 * (1 - B + B * self._lengths[rows] / mean))
                scores[rows] += (weight * saturation).astype(np.float32)
        if among is not None:
            scores[~among] = 0
        found = np.flatnonzero(scores > 0)
        return best(found, scores[found], k)

    def _column(self, term: str, allowed: NDArray[np.bool_] | None) -> tuple[NDArray[Any], NDArray[Any]]:
        """The `allowed` rows that hold a term, each once, and how often they do."""
        number = self._vocabulary.get(term)
        part = slice(0, 0) if number is None else slice(self._starts[number], self._starts[number + 1])
        rows, counts = self._rows[part], self._counts[part]
        if allowed is None:
            return rows, counts
        seen = allowed[rows]
        return rows[seen], counts[seen]

    def frequency(self, term: str, allowed: NDArray[np.bool_] | None = None) -> int:
        """How many of the `allowed` chunks hold an analyzed term."""
        return len(self._column(term, allowed)[0])


def idf(frequency: int, population: int) -> float:
    """Inverse document frequency as Lucene computes it: ln(1 + (N - n + ½) / (n + ½))."""
    return math.log1p((population - frequency + 0.5) / (frequency + 0.5))


def _array(path: Path) -> NDArray[Any]:
    """Memory-mapped, except where it is empty, which cannot be mapped."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        if "empty" not in str(error):
            raise
        array = np.load(path, allow_pickle=False)
    return array


def _dump(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def _load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
