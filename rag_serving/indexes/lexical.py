"""BM25 over the terms of chunks: bm25s arrays in a plain folder, memory-mapped to search.

Belongs here: building, saving, loading and searching the lexical index. Does not belong here: what a term is (`terms`).

bm25s computes every (term, chunk) weight when it indexes (Lü, "BM25S", arXiv:2407.03618), so a query only adds up
columns. The adding is done here: bm25s multiplies by its weight mask, and a masked chunk comes back with score 0 when
few others match.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes.hits import Hit, best
from rag_serving.indexes.terms import ANALYZER_VERSION, analyze

FORMAT = 1
K1, B, METHOD = 1.5, 0.75, "lucene"
_FACTS = "lexical.json"
_IDS = "chunk_ids.json"
_ARRAYS = {"data": "data.csc.index.npy", "indices": "indices.csc.index.npy", "indptr": "indptr.csc.index.npy"}
_VOCABULARY = "vocab.index.json"


class LexicalError(Exception):
    """The folder does not hold a lexical index that this program can search."""


def documents_digest(chunk_ids: Sequence[str], texts: Sequence[str]) -> str:
    """What an index of these texts was made of."""
    return hashlib.sha256(json.dumps([list(chunk_ids), list(texts)]).encode()).hexdigest()


def build_lexical(folder: Path, chunk_ids: Sequence[str], texts: Sequence[str]) -> int:
    """Write the index of `texts`, one per chunk id, into a folder; returns the size of its vocabulary.

    The same texts in the same order give the same bytes.
    """
    terms = [analyze(text) for text in texts]
    vocabulary = {term: number for number, term in enumerate(sorted(set().union(*terms)))}
    index = _bm25(vocabulary, [[vocabulary[term] for term in document] for document in terms])
    folder.mkdir(parents=True, exist_ok=True)
    index.save(folder, show_progress=False)
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


def _bm25(vocabulary: dict[str, int], documents: list[list[int]]) -> Any:
    """bm25s over term numbers; its own vocabulary comes from a set, whose order changes with the hash seed."""
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it logs every call, whatever the application asks for
    index = bm25s.BM25(k1=K1, b=B, method=METHOD, csc_backend="numpy", backend="numpy")
    if vocabulary:
        index.index((documents, vocabulary), create_empty_token=False, show_progress=False)
        return index
    index.vocab_dict, index.nonoccurrence_array = {}, None  # bm25s itself divides by zero without a term
    index.scores = {
        "data": np.zeros(0, dtype=np.float32),
        "indices": np.zeros(0, dtype=np.int32),
        "indptr": np.zeros(1, dtype=np.int64),
        "num_docs": len(documents),
    }
    return index


class LexicalIndex:
    """An opened lexical index; safe to search from several threads."""

    def __init__(
        self, folder: Path, facts: Mapping[str, Any], vocabulary: Mapping[str, int], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        self._folder = folder
        self._vocabulary = vocabulary
        self._data, self._indices, self._indptr = arrays["data"], arrays["indices"], arrays["indptr"]
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
            arrays = {name: _array(folder / file) for name, file in _ARRAYS.items()}
        except (OSError, ValueError) as error:
            raise LexicalError(f"{folder} is not a complete lexical index ({error})") from error
        found = {"format": facts.get("format"), "analyzer": facts.get("analyzer")}
        if found != {"format": FORMAT, "analyzer": ANALYZER_VERSION}:
            raise LexicalError(f"{folder} was written by another version ({found})")
        if len(arrays["indptr"]) != len(vocabulary) + 1 or arrays["indptr"][-1] != len(arrays["data"]):
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
        `allowed` [chunks] are not there at all: document frequencies are counted without them, so that no score tells
        of them.
        `among` [chunks] only narrows what may come back.
        """
        scores = np.zeros(self.chunks, dtype=np.float32)
        weights = terms if isinstance(terms, Mapping) else Counter(terms)
        population = self.chunks if allowed is None else int(np.count_nonzero(allowed))
        for term in sorted(weights):
            rows, column = self._column(term)
            weight = weights[term]
            if allowed is not None and len(rows):
                seen = int(np.count_nonzero(allowed[rows]))
                weight *= idf(seen, population) / idf(len(rows), self.chunks)
            scores[rows] += column * np.float32(weight)
        for mask in (allowed, among):
            if mask is not None:
                scores[~mask] = 0
        found = np.flatnonzero(scores > 0)
        return best(found, scores[found], k)

    def _column(self, term: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """The rows that hold a term, each once, and its weights there."""
        number = self._vocabulary.get(term)
        part = slice(0, 0) if number is None else slice(self._indptr[number], self._indptr[number + 1])
        return self._indices[part], self._data[part]

    def frequency(self, term: str, allowed: NDArray[np.bool_] | None = None) -> int:
        """How many of the `allowed` chunks hold an analyzed term."""
        rows, _ = self._column(term)
        return len(rows) if allowed is None else int(np.count_nonzero(allowed[rows]))


def idf(frequency: int, population: int) -> float:
    """Inverse document frequency as Lucene and bm25s compute it: ln(1 + (N - n + ½) / (n + ½))."""
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
