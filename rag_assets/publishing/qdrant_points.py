"""A generation's files as the points that Qdrant holds of it.

Belongs here: payloads and vectors of each kind of point, by number; what they take of a quota.
Does not belong here: sending them (`qdrant_writer`), names and fields (`rag_serving.indexes.qdrant.layout`).

The same generation always gives the same points: what was sent before a process was killed need not be sent again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_assets.publishing.remote_tables import (
    chunk_table,
    classes_of_chunks,
    original_files,
    original_table,
    place_table,
)
from rag_serving.artifacts.manifest import FILE as MANIFEST_FILE
from rag_serving.artifacts.store import read_text
from rag_serving.indexes.generation_files import GenerationFiles
from rag_serving.indexes.qdrant.layout import DENSE, FORMAT, GENERATION, POINT, SPARSE, TENANT, WINDOWS, PointKind
from rag_serving.indexes.qdrant.payloads import ManifestPayload, pack_terms, payload_of, text_of
from rag_serving.indexes.remote.protocol import PostingKind
from rag_serving.indexes.remote.tables import TEXT_COLUMNS
from rag_serving.indexes.sentence_vectors import record_type
from rag_serving.indexes.source_dates import newest_pages

PIECE = 512 << 10
"""Bytes of an original in one point."""
_TERMS = 20_000  # of a vocabulary in one point


class RawPoint(NamedTuple):
    """A point without its id: its payload, and its vectors by name."""

    payload: dict[str, Any]
    vectors: dict[str, Any]


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


class GenerationPoints:
    """The points of one generation, made when they are asked for."""

    def __init__(self, files: GenerationFiles, folder: Path) -> None:
        """`files` were read from `folder`, and so compared with the manifest."""
        self.files, self._folder = files, folder
        self.manifest, self._table = files.manifest, files.table
        self.chunks = len(files.table)
        self._content = lru_cache(maxsize=1)(self._read)

    @cached_property
    def counts(self) -> dict[PointKind, int]:
        """How many points there are of each kind but the manifest."""
        return {
            "chunk": self.chunks,
            "place": len(self._places),
            "original": len(self._originals),
            "piece": len(self._pieces),
            "terms": len(self._vocabularies),
        }

    @property
    def has_windows(self) -> bool:
        """Whether a chunk may have several vectors."""
        return self.files.vectors.windows is not None

    @property
    def is_book(self) -> bool:
        """Whether passages of books are among the chunks."""
        column = self._table["passage_id"]
        return bool(column.null_count < len(column))

    def of(self, kind: PointKind, numbers: Sequence[int]) -> Iterator[RawPoint]:
        """Yield the points of a kind with some numbers."""
        makers: dict[PointKind, Any] = {
            "chunk": self._chunk_points,
            "place": lambda which: (RawPoint(self._places[number], {}) for number in which),
            "original": lambda which: (RawPoint(self._originals[number], {}) for number in which),
            "piece": lambda which: (self._piece(number) for number in which),
            "terms": lambda which: (self._terms(number) for number in which),
        }
        owner = {TENANT: self.manifest.tenant, GENERATION: self.manifest.id, POINT: kind}
        for point in makers[kind](numbers):
            yield RawPoint(payload_of({**point.payload, **owner}), point.vectors)

    def manifest_payload(self, complete: bool) -> dict[str, Any]:
        """Return the payload of the point that says what the generation is."""
        described = ManifestPayload(
            format=FORMAT,
            content=text_of(read_text(self._folder / MANIFEST_FILE).encode()),
            created_at=self.manifest.created_at,
            newest=newest_pages(self._table),
            classes=tuple(sorted(self._classes)),
            points={**self.counts},
            windows=self.has_windows,
            vectors=self.manifest.vector_count,
            bytes=self.size,
            complete=complete,
        )
        owner = {TENANT: self.manifest.tenant, GENERATION: self.manifest.id, POINT: "manifest"}
        return {**described.model_dump(mode="json"), **owner}

    @cached_property
    def size(self) -> int:
        """What is stored, in bytes: vectors, texts and other columns, counts of terms, sentences, files."""
        postings = sum(len(counts.numbers) for counts in self.term_counts.values())
        sentences = len(self.files.sentences or ()) * record_type(self.manifest.embedder.dimension).itemsize
        originals = sum({row["sha256"]: row["bytes"] for row in self._originals}.values())
        vectors = 4 * self.manifest.vector_count * self.manifest.embedder.dimension
        encoded = (sentences + originals) * 4 // 3
        return int(vectors + self._chunks.nbytes + 8 * postings + encoded)

    @property
    def _classes(self) -> set[str]:
        chunks = set(pc.unique(self._table["readers"]).to_pylist())
        return chunks | {row["readers"] for row in (*self._places, *self._originals)}

    def _chunk_points(self, numbers: Sequence[int]) -> Iterator[RawPoint]:
        rows = self._chunks.take(pa.array(numbers, pa.int64())).to_pylist()
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

    def _piece(self, number: int) -> RawPoint:
        sha256, place, readers = self._pieces[number]
        content = self._content(sha256)[place * PIECE : (place + 1) * PIECE]
        return RawPoint({"sha256": sha256, "piece": place, "readers": readers, "bytes": content}, {})

    def _read(self, sha256: str) -> bytes:
        return next(each for each in self.files.originals.values() if each.sha256 == sha256).read()

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
    def _originals(self) -> list[dict[str, Any]]:
        """The files of pages, each for those who may read all of its page."""
        files = original_files(self.files)
        rows = original_table(files).to_pylist()
        return [{**row, "readers": file.readers} for row, file in zip(rows, files, strict=True)]

    @cached_property
    def _pieces(self) -> list[tuple[str, int, list[str]]]:
        """Digest, place and reader classes of every part of a file; a file that several pages have stands once."""
        files: dict[str, tuple[int, set[str]]] = {}
        for row in self._originals:
            files.setdefault(row["sha256"], (row["bytes"], set()))[1].add(row["readers"])
        return [
            (sha256, place, sorted(readers))
            for sha256, (size, readers) in sorted(files.items())
            for place in range(max(1, -(-size // PIECE)))
        ]

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
