"""Publishing a checked generation in Qdrant: its points, sending and comparing them.

Belongs here: payloads and vectors of each kind of point, by number; what they take of a quota; requests.
Does not belong here: the order of a publication (`alias_publisher`), names and fields (`qdrant.points`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from citelock_stores.publishing.alias_publisher import (
    LISTED,
    NEAREST,
    AliasPublisher,
    Counts,
    GenerationPoints,
    GenerationUpload,
    Maker,
    NumberedPoint,
    RawPoint,
    some_of,
)
from citelock_stores.publishing.tables import chunk_table, classes_of_chunks, place_table
from citelock_stores.qdrant import filters
from citelock_stores.qdrant.points import (
    BOOK_FIELDS,
    DENSE,
    HNSW_EF_CONSTRUCT,
    HNSW_M,
    KEYWORD_FIELDS,
    SPARSE,
    WINDOWS,
)
from citelock_stores.qdrant.reader import pack_terms
from citelock_stores.qdrant.store import QdrantAlias
from citelock_stores.remote.protocol import PostingKind
from citelock_stores.remote.seals import DIGEST_BYTES
from citelock_stores.remote.stored import TENANT, number_of, point_id
from citelock_stores.remote.tables import TEXT_COLUMNS
from rag_serving.artifacts.columns import take_rows
from rag_serving.indexes.databases import RemoteDataError
from rag_serving.indexes.sentence_vectors import record_type

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.models import CollectionInfo


Search = tuple[str, Any, int]
"""The named vectors, what is searched for in them, and how many are wanted."""
_TERMS = 20_000  # of a vocabulary in one point


class TermCounts(NamedTuple):
    """The terms of each chunk: by chunk, the numbers of its terms and their counts."""

    terms: Sequence[str]
    starts: NDArray[np.int64]  # [chunks + 1]
    numbers: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, terms: Sequence[str], starts: Any, rows: Any, counts: Any, chunks: int) -> TermCounts:
        """Return the counts of a list of rows for every term: those of term n begin at `starts[n]`."""
        order = np.argsort(rows, kind="stable")
        numbers = np.repeat(np.arange(len(terms), dtype=np.int64), np.diff(starts))
        borders = np.zeros(chunks + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=chunks), out=borders[1:])
        return cls(terms, borders, numbers[order], np.asarray(counts, np.int64)[order])

    def of_chunk(self, row: int) -> dict[str, list[Any]]:
        """Return a chunk's sparse vector."""
        part = slice(self.starts[row], self.starts[row + 1])
        return {"indices": self.numbers[part].tolist(), "values": self.counts[part].astype(float).tolist()}


class TermVocabulary(NamedTuple):
    """A part of the terms of one reader class."""

    kind: PostingKind
    readers: str
    terms: list[str]
    numbers: list[int]
    chunks: list[int]


class QdrantPoints(GenerationPoints):
    """The points of one generation in Qdrant, made on demand."""

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
        """The stored size, in bytes: vectors, texts and other columns, counts of terms, sentences, files."""
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
    def _vocabularies(self) -> list[TermVocabulary]:
        names, codes = classes_of_chunks(self.files)
        parts: list[TermVocabulary] = []
        for kind, counts in self.term_counts.items():
            classes = np.repeat(codes.astype(np.int64), np.diff(counts.starts))
            keys, chunks = np.unique(classes * len(counts.terms) + counts.numbers, return_counts=True)
            for number, readers in enumerate(names):
                first, last = np.searchsorted(keys, [number * len(counts.terms), (number + 1) * len(counts.terms)])
                for start in range(int(first), int(last), _TERMS):
                    part = slice(start, min(start + _TERMS, int(last)))
                    numbers = (keys[part] - number * len(counts.terms)).tolist()
                    spelt = [counts.terms[each] for each in numbers]
                    parts.append(TermVocabulary(kind, readers, spelt, numbers, chunks[part].tolist()))
        return parts


class QdrantUpload(GenerationUpload[QdrantPoints]):
    """The upload of one generation to its collection, and its comparison there."""

    def _ensure_collection(self) -> None:
        if not self._requests.ask(lambda client: client.collection_exists(self.collection)):
            try:
                self._requests.ask(self._create)
            except RemoteDataError:  # another publisher, or an earlier try of ours, made it meanwhile
                if not self._requests.ask(lambda client: client.collection_exists(self.collection)):
                    raise
        info = self._requests.ask(lambda client: client.get_collection(self.collection))
        dimension, found = self._points.manifest.embedder.dimension, _dimension(info)
        if found != dimension:
            raise RemoteDataError(
                f"collection {self.collection} has vectors of {found} dimensions, generation {self._name[1]} of "
                f"{dimension}; give index.collection another name"
            )
        self._index_fields(frozenset(info.payload_schema))

    def _create(self, client: QdrantClient) -> bool:
        from qdrant_client import models

        size, cosine = self._points.manifest.embedder.dimension, models.Distance.COSINE
        several = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        return client.create_collection(
            self.collection,
            vectors_config={
                DENSE: models.VectorParams(size=size, distance=cosine),
                WINDOWS: models.VectorParams(size=size, distance=cosine, multivector_config=several),
            },
            sparse_vectors_config={name: models.SparseVectorParams() for name in SPARSE.values()},
            hnsw_config=models.HnswConfigDiff(m=HNSW_M, ef_construct=HNSW_EF_CONSTRUCT),
            on_disk_payload=True,
        )

    def _index_fields(self, indexed: frozenset[str]) -> None:
        from qdrant_client.models import KeywordIndexParams, KeywordIndexType

        schemas: dict[str, Any] = {TENANT: KeywordIndexParams(type=KeywordIndexType.KEYWORD, is_tenant=True)}
        schemas |= dict.fromkeys(KEYWORD_FIELDS, "keyword")
        if self._points.is_book:
            schemas |= BOOK_FIELDS
        for field, schema in schemas.items():
            if field not in indexed:
                self._requests.ask(
                    lambda client, name=field, kind=schema: client.create_payload_index(  # type: ignore[misc]
                        self.collection, name, field_schema=kind, wait=True
                    )
                )

    def _present(self, kind: str) -> set[int]:
        """Return the numbers of the points of a kind that are there."""
        narrowed, numbers, offset = filters.unread(*self._name, kind), set[int](), None
        while True:
            records, offset = self._requests.ask(
                lambda client, start=offset: client.scroll(  # type: ignore[misc]
                    self.collection, scroll_filter=narrowed, limit=LISTED, offset=start, with_payload=False
                )
            )
            numbers |= {number_of(record.id) for record in records}
            if offset is None:
                return numbers

    def _put(self, kind: str, points: Sequence[NumberedPoint]) -> None:
        from qdrant_client.models import PointStruct

        batch = [
            PointStruct(id=point_id(*self._name, kind, number), payload=point.payload, vector=point.vectors)
            for number, point in points
        ]
        self._requests.ask(lambda client: client.upsert(self.collection, points=batch, wait=True))

    def _finish(self, began: float) -> None:
        """Wait until the server has indexed the points; searches are right before, only slower."""
        pause_s = 0.02
        while time.monotonic() - began < self._config.index.publish_timeout_s:
            if self._requests.ask(lambda client: client.get_collection(self.collection)).status != "yellow":
                return
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)

    def _count(self, kind: str) -> int:
        narrowed = filters.unread(*self._name, kind)
        answer = self._requests.ask(lambda client: client.count(self.collection, count_filter=narrowed, exact=True))
        return int(answer.count)

    def _nearest(self, queries: NDArray[np.float32]) -> Sequence[Sequence[int]]:
        from qdrant_client.models import SearchParams

        using = WINDOWS if self._points.has_windows else DENSE
        searches = [(using, query.tolist(), NEAREST) for query in queries]
        answers = self._searched(searches, SearchParams(hnsw_ef=self._config.index.ef_search))
        return [[number_of(point.id) for point in answer] for answer in answers]

    def _terms(self, kind: PostingKind) -> Iterator[tuple[str, Counts, Counts]]:
        from qdrant_client.models import SparseVector

        counts, chunks = self._points.term_counts[kind], self._points.chunks
        terms = some_of(len(counts.terms))
        searches = [(SPARSE[kind], SparseVector(indices=[term], values=[1.0]), chunks) for term in terms]
        answers = self._searched(searches, None) if searches else []
        owners = np.repeat(np.arange(chunks), np.diff(counts.starts))
        for term, answer in zip(terms, answers, strict=True):
            which = counts.numbers == term
            sent = dict(zip(owners[which].tolist(), counts.counts[which].tolist(), strict=True))
            yield counts.terms[term], {number_of(point.id): round(point.score) for point in answer}, sent

    def _searched(self, searches: list[Search], params: Any) -> list[list[Any]]:
        from qdrant_client.models import QueryRequest

        narrowed = filters.unread(*self._name, "chunk")
        batch = [
            QueryRequest(query=query, using=using, filter=narrowed, limit=limit, params=params, with_payload=False)
            for using, query, limit in searches
        ]
        responses = self._requests.ask(lambda client: client.query_batch_points(self.collection, requests=batch))
        return [list(response.points) for response in responses]


def _dimension(info: CollectionInfo) -> int | None:
    """Return the dimension of a collection's vectors; None if it has none of that name."""
    vectors = info.config.params.vectors
    params = vectors.get(DENSE) if isinstance(vectors, dict) else None
    return params.size if params else None


class QdrantPublisher(AliasPublisher, QdrantAlias):
    """The generations of one tenant in a Qdrant server, for a holder of the tenant's lock (`Store.lock`)."""

    points_class, upload_class = QdrantPoints, QdrantUpload
