"""The lexical index on disk: bm25s arrays in a plain folder, memory-mapped to search.

Belongs here: loading it. Does not belong here: the formula, searching (`bm25`), building it
(`rag_assets.publishing.lexical_writer`), what a term is (`text.analyzer`).

bm25s computes every (term, chunk) weight when it indexes (Lü, "BM25S", arXiv:2407.03618), so a query only adds up
columns, where its reader may see every chunk.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag_serving.artifacts.contents import Contents, array_of, map_file
from rag_serving.indexes.bm25 import Bm25, Numbers, Occurrences
from rag_serving.text.analyzer import ANALYZER_VERSION

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
        self._ids = ids
        self._vocabulary = vocabulary
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
