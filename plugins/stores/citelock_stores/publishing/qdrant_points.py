"""A generation's files as the points that Qdrant holds of it.

Belongs here: payloads and vectors of each kind of point, by number; what they take of a quota.
Does not belong here: what other servers hold, too (`generation_points`), sending them (`qdrant_upload`), names and
fields (`citelock_stores.qdrant.layout`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from citelock_stores.publishing.generation_points import GenerationPoints, Maker, RawPoint
from citelock_stores.publishing.remote_tables import chunk_table, classes_of_chunks, place_table
from citelock_stores.qdrant.layout import DENSE, SPARSE, WINDOWS
from citelock_stores.qdrant.vocabularies import pack_terms
from citelock_stores.remote.protocol import PostingKind
from citelock_stores.remote.seals import DIGEST_BYTES
from citelock_stores.remote.tables import TEXT_COLUMNS
from rag_serving.artifacts.columns import take_rows
from rag_serving.indexes.sentence_vectors import record_type

_TERMS = 20_000  # of a vocabulary in one point


class TermCounts(NamedTuple):
    """Which chunk has which term: by chunk, the numbers of its terms and how often it has each."""

    terms: Sequence[str]
    starts: NDArray[np.int64]  # [chunks + 1]
    numbers: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, terms: Sequence[str], starts: Any, rows: Any, counts: Any, chunks: int) -> TermCounts:
        """Return the counts of a list of rows for every term: those of term n stand from `starts[n]`."""
        order = np.argsort(rows, kind="stable")
        numbers = np.repeat(np.arange(len(terms), dtype=np.int64), np.diff(starts))
        borders = np.zeros(chunks + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=chunks), out=borders[1:])
        return cls(terms, borders, numbers[order], np.asarray(counts, np.int64)[order])

    def of_chunk(self, row: int) -> dict[str, list[Any]]:
        """Return a chunk's sparse vector."""
        part = slice(self.starts[row], self.starts[row + 1])
        return {"indices": self.numbers[part].tolist(), "values": self.counts[part].astype(float).tolist()}


class Vocabulary(NamedTuple):
    """A part of the terms of one reader class."""

    kind: PostingKind
    readers: str
    terms: list[str]
    numbers: list[int]
    chunks: list[int]


class QdrantPoints(GenerationPoints):
    """The points of one generation in Qdrant, made when they are asked for."""

    batch_sizes: ClassVar = {"piece": 20, "seal": 20}  # some 14 MB, where a server takes 32 MB

    @cached_property
    def counts(self) -> Mapping[str, int]:
        return {
            "chunk": self.chunks,
            "place": len(self._places),
            "original": len(self._originals),
            "piece": len(self._pieces),
            "terms": len(self._vocabularies),
            "seal": len(self._seals),
        }

    @property
    def is_book(self) -> bool:
        """Whether passages of books are among the chunks."""
        column = self._table["passage_id"]
        return bool(column.null_count < len(column))

    def _makers(self) -> Mapping[str, Maker]:
        return {
            "chunk": self._chunk_points,
            "place": lambda which: (RawPoint(self._places[number], {}) for number in which),
            "original": lambda which: (RawPoint(self._originals[number], {}) for number in which),
            "piece": self._piece_points,
            "terms": lambda which: (self._terms(number) for number in which),
            "seal": lambda which: (RawPoint(self._seals[number].table.to_pylist()[0], {}) for number in which),
        }

    @cached_property
    def size(self) -> int:
        """What is stored, in bytes: vectors, texts and other columns, counts of terms, sentences, files."""
        postings = sum(len(counts.numbers) for counts in self.term_counts.values())
        sentences = len(self.files.sentences or ()) * record_type(self.manifest.embedder.dimension).itemsize
        vectors = 4 * self.manifest.vector_count * self.manifest.embedder.dimension
        digests = DIGEST_BYTES * self.chunks
        encoded = (sentences + self.original_bytes + digests) * 4 // 3
        return int(vectors + self._chunks.nbytes + 8 * postings + encoded)

    def _chunk_points(self, numbers: Sequence[int]) -> Iterator[RawPoint]:
        rows = take_rows(self._chunks, np.array(numbers, np.int64)).to_pylist()
        for row, values in zip(numbers, rows, strict=True):
            values["page"] = values["page_order"] if values["passage_id"] else None
            if self.files.sentences is not None and len(records := self.files.sentences.records_of(row)):
                values["records"] = records.tobytes()
            yield RawPoint(values, self._vectors(row))

    def _vectors(self, row: int) -> dict[str, Any]:
        sparse = {SPARSE[kind]: counts.of_chunk(row) for kind, counts in self.term_counts.items()}
        table = self.files.vectors
        if table.windows is None:
            return {DENSE: table.vectors[row].tolist(), **sparse}
        places, _ = table.windows.places(np.array([row], np.int64))
        return {WINDOWS: table.vectors[places].tolist(), **sparse}

    def _terms(self, number: int) -> RawPoint:
        part = self._vocabularies[number]
        packed = pack_terms(part.terms, part.numbers, part.chunks)
        return RawPoint({"posting": part.kind, "readers": part.readers, "packed": packed}, {})

    @cached_property
    def _chunks(self) -> pa.Table:
        texts = self._table.select(TEXT_COLUMNS)
        table = chunk_table(self.files)
        return pa.table([*table.columns, *texts.columns], names=[*table.column_names, *texts.column_names])

    @cached_property
    def _places(self) -> list[dict[str, Any]]:
        places: list[dict[str, Any]] = place_table(self.files).to_pylist()
        return places

    @cached_property
    def term_counts(self) -> dict[PostingKind, TermCounts]:
        """The postings of both kinds."""
        words, starts, rows = self.files.keywords.content_postings()
        ones = np.ones(len(rows), np.int64)
        return {
            "lexical": TermCounts.of(*self.files.lexical.postings(), chunks=self.chunks),
            "keyword": TermCounts.of(words, starts, rows, ones, chunks=self.chunks),
        }

    @cached_property
    def _vocabularies(self) -> list[Vocabulary]:
        names, codes = classes_of_chunks(self.files)
        parts: list[Vocabulary] = []
        for kind, counts in self.term_counts.items():
            classes = np.repeat(codes.astype(np.int64), np.diff(counts.starts))
            keys, chunks = np.unique(classes * len(counts.terms) + counts.numbers, return_counts=True)
            for number, readers in enumerate(names):
                first, last = np.searchsorted(keys, [number * len(counts.terms), (number + 1) * len(counts.terms)])
                for start in range(int(first), int(last), _TERMS):
                    part = slice(start, min(start + _TERMS, int(last)))
                    numbers = (keys[part] - number * len(counts.terms)).tolist()
                    spelt = [counts.terms[each] for each in numbers]
                    parts.append(Vocabulary(kind, readers, spelt, numbers, chunks[part].tolist()))
        return parts
