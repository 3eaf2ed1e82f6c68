"""A generation's files as the documents that OpenSearch holds of it.

Belongs here: fields and vectors of each kind of document, by number; what they take of a quota.
Does not belong here: what other servers hold, too (`generation_points`), sending them (`opensearch_upload`), names and
fields (`citelock_stores.opensearch.layout`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, get_args

import numpy as np
import pyarrow as pa

from citelock_stores.opensearch.layout import CLASSES, DENSE, NUMBER, ROW, VECTOR, class_id
from citelock_stores.opensearch.packed_postings import TermRows, pack_postings
from citelock_stores.publishing.generation_points import GenerationPoints, Maker, RawPoint
from citelock_stores.publishing.remote_tables import (
    CatalogBlock,
    blocks_by_class,
    catalog_blocks,
    classes_of_chunks,
    postings_of,
)
from citelock_stores.remote.packing import pack_table, term_hash, text_of
from citelock_stores.remote.protocol import PostingKind
from citelock_stores.remote.stored import READERS
from citelock_stores.remote.tables import REMOTE_TERMS, TEXT_COLUMNS
from rag_serving.artifacts.columns import take_rows
from rag_serving.indexes.sentence_vectors import record_type

_TOGETHER = 8_192  # postings of rare terms in one document
_MOST = 65_536  # rows of a common term in one document


class PostingGroup(NamedTuple):
    """The postings of one document: of one kind and reader class."""

    kind: PostingKind
    readers: str
    postings: list[TermRows]


class OpenSearchDocuments(GenerationPoints):
    """The documents of one generation, made when they are asked for."""

    batch_sizes: ClassVar = {"piece": 10, "block": 10, "posting": 40}

    @cached_property
    def counts(self) -> Mapping[str, int]:
        return {
            "chunk": self.chunks,
            "window": self.manifest.vector_count if self.has_windows else 0,
            "block": len(self._blocks),
            "posting": len(self._groups),
            "piece": len(self._pieces),
        }

    @cached_property
    def size(self) -> int:
        """About what is stored, in bytes: vectors twice, texts, tables and postings as they are packed, sentences,
        files."""
        vectors = 4 * self.manifest.vector_count * self.manifest.embedder.dimension
        texts = self._table.select(TEXT_COLUMNS).nbytes
        tables = sum(block.table.nbytes for block in self._blocks)
        postings = sum(8 * len(each.rows) for group in self._groups for each in group.postings)
        sentences = len(self.files.sentences or ()) * record_type(self.manifest.embedder.dimension).itemsize
        return int(vectors + texts + (vectors + tables + postings + sentences + self.original_bytes) * 4 // 3)

    def of(self, kind: str, numbers: Sequence[int]) -> Iterator[RawPoint]:
        """Yield the documents of a kind with some numbers, each under the reader classes that are found."""
        for number, point in zip(numbers, super().of(kind, numbers), strict=True):
            readers = point.payload[READERS]
            named = readers if isinstance(readers, list) else [readers]
            found_by = {CLASSES: [*map(class_id, named)], NUMBER: number}
            yield RawPoint({**point.payload, **found_by}, point.vectors)

    def sample(self, kind: PostingKind, every: int) -> Mapping[str, dict[int, int]]:
        """Return about so many terms of a kind, evenly spread: how often each chunk has them."""
        names = sorted({each.term for group in self._groups if group.kind == kind for each in group.postings})
        chosen = {names[round(number)] for number in np.linspace(0, len(names) - 1, every)} if names else set[str]()
        counts: dict[str, dict[int, int]] = {term: {} for term in sorted(chosen)}
        for group in self._groups:
            for each in group.postings if group.kind == kind else ():
                if each.term in counts:
                    ones = np.ones(len(each.rows), np.int32) if each.counts is None else each.counts
                    counts[each.term] |= dict(zip(each.rows.tolist(), ones.tolist(), strict=True))
        return counts

    def _makers(self) -> Mapping[str, Maker]:
        return {
            "chunk": self._chunk_points,
            "window": self._window_points,
            "block": lambda which: (self._block(number) for number in which),
            "posting": lambda which: (self._group(number) for number in which),
            "piece": self._piece_points,
        }

    def _chunk_points(self, numbers: Sequence[int]) -> Iterator[RawPoint]:
        names = [READERS, *TEXT_COLUMNS]
        rows = take_rows(self._table.select(names), np.array(numbers, np.int64)).to_pylist()
        for row, values in zip(numbers, rows, strict=True):
            values[ROW] = row
            if self.files.sentences is not None and len(records := self.files.sentences.records_of(row)):
                values["records"] = records.tobytes()
            yield RawPoint(values, {} if self.has_windows else self._vector(row))

    def _window_points(self, numbers: Sequence[int]) -> Iterator[RawPoint]:
        for number in numbers:
            row = int(self._window_rows[number])
            readers = self._classes_of_rows.names[int(self._classes_of_rows.of_rows[row])]
            yield RawPoint({ROW: row, READERS: readers}, self._vector(number))

    def _vector(self, place: int) -> dict[str, Any]:
        vector = np.asarray(self.files.vectors.vectors[place], np.float32)
        return {DENSE: vector.tolist(), VECTOR: text_of(vector.astype("<f4").tobytes())}

    def _block(self, number: int) -> RawPoint:
        block = self._blocks[number]
        return RawPoint({"block": block.kind, READERS: block.readers, "packed": pack_table(block.table)}, {})

    def _group(self, number: int) -> RawPoint:
        group = self._groups[number]
        keys = sorted({term_hash(each.term) for each in group.postings})
        packed = pack_postings(group.postings)
        return RawPoint({"posting": group.kind, READERS: group.readers, "keys": keys, "packed": packed}, {})

    @cached_property
    def _window_rows(self) -> Any:
        windows = self.files.vectors.windows
        return np.arange(self.chunks) if windows is None else np.repeat(np.arange(self.chunks), windows.counts)

    @cached_property
    def _classes_of_rows(self) -> Any:
        return classes_of_chunks(self.files)

    @cached_property
    def _blocks(self) -> list[CatalogBlock]:
        """The tables of catalogs and the vocabularies, each under its reader class."""
        blocks = [*catalog_blocks(self.files)]
        for kind in get_args(PostingKind):
            names, terms, chunks = list[str](), list[str](), list[int]()
            for term, readers, rows, _ in postings_of(self.files, kind, self._classes_of_rows):
                names.append(self._classes_of_rows.names[readers])
                terms.append(term)
                chunks.append(len(rows))
            table = pa.table([pa.array(terms, pa.string()), pa.array(chunks, pa.int64())], schema=REMOTE_TERMS.columns)
            blocks += blocks_by_class(kind, table, pa.chunked_array([pa.array(names, pa.string())]))
        return blocks + self._seals  # at the end: those of an older program keep their numbers

    @cached_property
    def _groups(self) -> list[PostingGroup]:
        return [group for kind in get_args(PostingKind) for group in self._groups_of(kind)]

    def _groups_of(self, kind: PostingKind) -> Iterator[PostingGroup]:
        names = self._classes_of_rows.names
        waiting, sizes = defaultdict[int, list[TermRows]](list), defaultdict[int, int](int)
        for term, readers, rows, counts in postings_of(self.files, kind, self._classes_of_rows):
            for start in range(0, len(rows), _MOST):
                part = slice(start, start + _MOST)
                waiting[readers].append(TermRows(term, rows[part], None if counts is None else counts[part]))
                sizes[readers] += len(rows[part])
                if sizes[readers] >= _TOGETHER:
                    yield PostingGroup(kind, names[readers], waiting.pop(readers))
                    sizes[readers] = 0
        for readers, postings in sorted(waiting.items()):
            yield PostingGroup(kind, names[readers], postings)
