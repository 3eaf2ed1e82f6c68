"""Vectors of the sentences that answers are extracted from, made when a generation is published: a byte a component.
Each different text is stored once, under its digest; a chunk has the numbers of its own, so that only sentences of
requested chunks are compared; the first of a chunk is its heading path. A code is the vector divided by its largest
component and rounded; its scale gives it length one again, so that a similarity is a cosine."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from rag_serving.artifacts.contents import array_of

SENTENCES_FILE, SENTENCE_ROWS_FILE = "sentences.npy", "sentences-rows.npy"
FORMAT = 2
MAX_ERROR = 0.012
"""How far a cosine may be from that of the vector itself: 0.001 as a rule; a vector of hardly more than one component
could come further."""


class SentencesError(Exception):
    """The sentence vectors of a generation cannot be read or are not what was expected."""


def sentence_key(text: str) -> int:
    """Return the key of a text's vector: 64 bits of its BLAKE2b digest."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def record_type(dimension: int) -> np.dtype[np.void]:
    """Return the record of one sentence: key, scale and code."""
    return np.dtype([("key", "<u8"), ("scale", "<f4"), ("code", "i1", (dimension,))])


class SentenceVectors:
    """The sentence vectors of a generation, opened. Safe to use from several threads."""

    def __init__(self, records: NDArray[np.void], borders: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """`borders` [chunks + 1]: where the numbers of each chunk's sentences begin and end in `rows`."""
        self._records, self._borders, self._rows = records, borders, rows

    @classmethod
    def open(cls, sentences: memoryview, rows: memoryview, chunks: int, dimension: int) -> SentenceVectors:
        """Open the bytes of both files, not copied. Raises SentencesError: truncated, or of another shape."""
        try:
            records, numbers = array_of(sentences), array_of(rows)
        except ValueError as error:
            raise SentencesError(f"{SENTENCES_FILE} cannot be read ({error})") from error
        borders, members = numbers[: chunks + 1], numbers[chunks + 1 :]
        if (len(records) and records.dtype != record_type(dimension)) or numbers.dtype != np.int64:
            raise SentencesError(f"{SENTENCES_FILE} holds {records.dtype}, expected {record_type(dimension)}")
        if len(borders) != chunks + 1 or borders[-1] != len(members) or members.max(initial=-1) >= len(records):
            raise SentencesError(f"{SENTENCE_ROWS_FILE} does not fit {chunks} chunks with {len(records)} sentences")
        return cls(records, borders, members)

    def __len__(self) -> int:
        return len(self._records)

    def records_of(self, chunk: int) -> NDArray[np.void]:
        """Return the records of a chunk's sentences, its heading path first; none if nothing is stored."""
        records: NDArray[np.void] = self._records[self._rows[self._borders[chunk] : self._borders[chunk + 1]]]
        return records

    def similarities(
        self, vector: NDArray[np.float32], chunks: Sequence[int], texts: Sequence[str]
    ) -> list[float | None]:
        """Return the cosine similarity to `vector` [d] of texts that are sentences of some chunks; None for others."""
        spans = [self._rows[self._borders[chunk] : self._borders[chunk + 1]] for chunk in chunks]
        rows = np.concatenate(spans) if spans else np.empty(0, np.int64)
        known = dict(zip(self._records["key"][rows].tolist(), rows.tolist(), strict=True))
        places = [known.get(sentence_key(text)) for text in texts]
        stored = np.array([place for place in places if place is not None], np.int64)
        cosines = iter(self._cosines(vector, stored).tolist())
        return [None if place is None else next(cosines) for place in places]

    def best(self, vector: NDArray[np.float32], chunks: Sequence[int]) -> NDArray[np.float64]:
        """Return the cosine similarity to `vector` [d] of each chunk's heading path and of its nearest sentence [n, 2].
        Both are NaN for a chunk without stored texts, the second for one with nothing but headings."""
        spans = [self._rows[self._borders[chunk] : self._borders[chunk + 1]] for chunk in chunks]
        rows, places = np.unique(np.concatenate([*spans, np.empty(0, np.int64)]), return_inverse=True)
        cosines = self._cosines(vector, rows)[places]
        ends = np.cumsum([len(span) for span in spans])
        found = np.full((len(spans), 2), np.nan)
        for place, (end, span) in enumerate(zip(ends.tolist(), spans, strict=True)):
            if len(span):
                found[place, 0] = cosines[end - len(span)]
            if len(span) > 1:
                found[place, 1] = cosines[end - len(span) + 1 : end].max()
        return found

    def _cosines(self, vector: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cosine similarity to `vector` [d] of the texts at some rows [n]."""
        records = self._records[rows]
        products = records["code"].astype(np.float32) @ np.asarray(vector, np.float32)
        cosines: NDArray[np.float64] = (products * records["scale"]).astype(np.float64)
        return cosines
