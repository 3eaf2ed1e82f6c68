"""One generation in Qdrant, read on behalf of one principal. A chunk has one sparse vector for each kind of posting:
the component at a term's number is the term's count, so that the product with the unit vector there is that count. A
reader's vocabulary is that of the reader classes: a term of hidden chunks alone has no number in it, and is not
queried."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from citelock_stores.qdrant import filters
from citelock_stores.qdrant.points import (
    DENSE,
    SPARSE,
    WINDOWS,
    PointSearch,
    ReadablePoints,
    SearchSettings,
    bytes_of,
    number_of,
    table_of,
    text_of,
)
from citelock_stores.remote.parts import KeptValues
from citelock_stores.remote.protocol import (
    REMOTE_CHUNKS,
    REMOTE_ORIGINALS,
    REMOTE_PLACES,
    REMOTE_SEALS,
    REMOTE_SENTENCES,
    REMOTE_TERMS,
    REMOTE_TEXTS,
    Nearest,
    PostingKind,
    Postings,
    Rows,
    Vector,
    WindowVectors,
    pack_table,
)
from rag_serving.indexes.databases import RemoteDataError

Hit = tuple[int, float]
"""The number of a chunk and its score."""
SPARE = 16
"""Hits asked for beyond k, to see whether further ones are as near as the last."""


def nearest_of(hits: Sequence[Hit], k: int) -> Nearest:
    """Return the k best of some hits, equal ones in row order."""
    ordered = sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]
    rows, scores = ([hit[0] for hit in ordered], [hit[1] for hit in ordered])
    return Nearest(np.array(rows, np.int64), np.array(scores, np.float32))


_PACKED = pa.schema([("term", pa.string()), ("number", pa.int32()), ("chunks", pa.int64())])


class PackedTerms(NamedTuple):
    """Terms of one reader class in code point order, the number of each, and how many chunks of the class have it."""

    terms: pa.Array
    numbers: pa.Array
    chunks: pa.Array


def pack_terms(terms: Sequence[str], numbers: Sequence[int], chunks: Sequence[int]) -> str:
    """Return terms with their numbers and chunks in a few characters."""
    arrays = [pa.array(values, field.type) for values, field in zip((terms, numbers, chunks), _PACKED, strict=True)]
    return text_of(pack_table(pa.table(arrays, schema=_PACKED)))


def unpack_terms(packed: str) -> PackedTerms:
    """Return unpacked terms. Raises RemoteDataError: it is damaged."""
    try:
        table = pa.ipc.open_stream(bytes_of(packed)).read_all()
        if table.schema != _PACKED or any(column.null_count for column in table.columns):
            raise ValueError("other columns")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RemoteDataError(
            f"a vocabulary in the Qdrant server is damaged ({error}); run `citelock generations repair`"
        ) from error
    return PackedTerms(*(column.combine_chunks() for column in table.columns))


_TERM_BYTES = 150  # of a term in a vocabulary, by sys.getsizeof


class Term(NamedTuple):
    """A term as one reader may know it: its number, and how many chunks have it."""

    number: int
    chunks: int


Vocabulary = Mapping[str, Term]


class PostingLists:
    """The postings of one generation. Safe to use from several threads."""

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes`: the memory limit of vocabularies."""
        self._vocabularies: KeptValues[Hashable, Vocabulary] = KeptValues(most_bytes)

    def vocabulary(self, points: ReadablePoints, kind: PostingKind) -> pa.Table:
        """Return REMOTE_TERMS of the chunks that may be read."""
        vocabulary = self._vocabulary(points, kind)
        terms = sorted(vocabulary)
        chunks = [vocabulary[term].chunks for term in terms]
        return pa.table([pa.array(terms, pa.string()), pa.array(chunks, pa.int64())], schema=REMOTE_TERMS.arrow)

    def of(self, points: ReadablePoints, kind: PostingKind, terms: Sequence[str]) -> dict[str, Postings]:
        """Return the chunks that may be read with each of some terms; terms of none are left out."""
        vocabulary = self._vocabulary(points, kind)
        known = {term: vocabulary[term] for term in terms if term in vocabulary}
        return dict(zip(known, _searched(points, kind, [*known.values()]), strict=True))

    def _vocabulary(self, points: ReadablePoints, kind: PostingKind) -> Vocabulary:
        key = points.classes, kind
        vocabulary = self._vocabularies.get(key)
        if vocabulary is None:
            vocabulary = _read(points, kind)
            self._vocabularies.keep(key, vocabulary, _TERM_BYTES * len(vocabulary) + 1)
        return vocabulary


def _read(points: ReadablePoints, kind: PostingKind) -> Vocabulary:
    vocabulary: dict[str, Term] = {}
    for point in points.scroll("terms", ["packed"], [filters.with_value("posting", kind)]):
        parts = unpack_terms((point.payload or {}).get("packed", ""))
        for term, number, chunks in zip(*(part.to_pylist() for part in parts), strict=True):
            before = vocabulary.get(term)
            vocabulary[term] = Term(number, chunks if before is None else before.chunks + chunks)
    return vocabulary


def _searched(points: ReadablePoints, kind: PostingKind, terms: Sequence[Term]) -> Iterator[Postings]:
    """Return the chunks that have each of some terms. Raises RemoteDataError: others than the vocabulary says."""
    from qdrant_client.models import SparseVector

    searches = [
        PointSearch(SPARSE[kind], SparseVector(indices=[term.number], values=[1.0]), term.chunks) for term in terms
    ]
    for term, found in zip(terms, points.with_terms(searches), strict=True):
        rows = np.array([row for row, _ in found], np.int64)
        counts = np.rint(np.array([score for _, score in found])).astype(np.int32)
        order = np.argsort(rows)
        rows, counts = rows[order], counts[order]
        if len(rows) != term.chunks or (np.diff(rows) <= 0).any() or (counts < 1).any():
            raise RemoteDataError(
                "the Qdrant server lost some of a generation's terms; run `citelock generations repair`"
            )
        yield Postings(rows, counts)


_NAMED = 2000  # rows that a request names one by one; for more, the best are fetched until enough are among them
_EF_FOR_EACH = 8  # candidates for each requested chunk: recall@80 0.99, at four 0.97 (20,000 x 384, a filter)


class QdrantReader:
    """The part of a generation open to some reader classes; a `RemoteReader`. Safe to use from several threads."""

    def __init__(self, points: ReadablePoints, postings: PostingLists, settings: SearchSettings) -> None:
        self._points, self._postings, self._settings = points, postings, settings
        self._vector = WINDOWS if settings.windows else DENSE

    def classes(self) -> frozenset[str]:
        return self._points.classes

    def chunks(self) -> pa.Table:
        payloads = [point.payload or {} for point in self._points.scroll("chunk", REMOTE_CHUNKS.columns.names)]
        return table_of(REMOTE_CHUNKS, payloads).sort_by("row")

    def places(self) -> pa.Table:
        payloads = [point.payload or {} for point in self._points.scroll("place", REMOTE_PLACES.columns.names)]
        return table_of(REMOTE_PLACES, payloads).sort_by([("row", "ascending"), ("place", "ascending")])

    def originals(self) -> pa.Table:
        payloads = [point.payload or {} for point in self._points.scroll("original", REMOTE_ORIGINALS.columns.names)]
        return table_of(REMOTE_ORIGINALS, payloads).sort_by("page_id")

    def original(self, sha256: str) -> bytes:
        named = [filters.with_value("sha256", sha256)]
        if not any(True for _ in self._points.scroll("original", ["sha256"], named)):
            raise RemoteDataError("the file of a page is not in the Qdrant server, or may not be read")
        pieces = [point.payload or {} for point in self._points.scroll("piece", ["bytes"], named)]
        return b"".join(bytes_of(piece.get("bytes", "")) for piece in pieces)

    def seals(self) -> pa.Table:
        payloads = [point.payload or {} for point in self._points.scroll("seal", REMOTE_SEALS.columns.names)]
        return table_of(REMOTE_SEALS, payloads).sort_by([("readers", "ascending"), ("part", "ascending")])

    def texts(self, rows: Sequence[int]) -> pa.Table:
        points = self._points.of_rows(rows, REMOTE_TEXTS.columns.names)
        return table_of(REMOTE_TEXTS, [point.payload or {} for point in points])

    def sentences(self, rows: Sequence[int]) -> pa.Table:
        points = self._points.of_rows(rows, REMOTE_SENTENCES.columns.names)
        payloads = [point.payload or {} for point in points]
        return table_of(REMOTE_SENTENCES, [payload for payload in payloads if "records" in payload])

    def vectors(self, rows: Sequence[int]) -> WindowVectors:
        of_rows = {
            number_of(point.id): self._matrix(point.vector) for point in self._points.of_rows(rows, [], self._vector)
        }
        if missing := [row for row in rows if row not in of_rows]:
            raise RemoteDataError(f"{len(missing)} chunks have no vector in the Qdrant server that may be read")
        matrices = [of_rows[row] for row in rows]
        empty = np.zeros((0, self._settings.dimension), np.float32)
        counts = np.array([len(matrix) for matrix in matrices], np.int64)
        return WindowVectors(counts, np.concatenate([empty, *matrices]))

    def nearest(self, vector: Vector, k: int, among: Rows | None = None) -> Nearest:
        query = np.asarray(vector, np.float32).tolist()
        if k <= 0 or not self._points.classes or (among is not None and not len(among)):
            return nearest_of([], 0)
        named = among.tolist() if among is not None and len(among) <= _NAMED else None
        wanted = None if among is None or named is not None else frozenset(among.tolist())
        asked = (k if wanted is None else 4 * k) + SPARE
        while True:  # of those as near as the last one, the first rows: so there has to be one that is farther
            from qdrant_client.models import SearchParams

            ef = self._settings.ef
            exactly = SearchParams(exact=True)
            params = exactly if ef is None or named is not None else SearchParams(hnsw_ef=max(ef, _EF_FOR_EACH * asked))
            points = self._points.nearest(PointSearch(self._vector, query, asked), params, named)
            if len(points) < asked and params is not exactly:
                points = self._points.nearest(PointSearch(self._vector, query, asked), exactly, named)
            hits = [(number_of(point.id), point.score) for point in points]
            kept = hits if wanted is None else [hit for hit in hits if hit[0] in wanted]
            is_whole = len(hits) < asked
            if is_whole or (len(kept) >= k and hits[-1][1] < sorted((hit[1] for hit in kept), reverse=True)[k - 1]):
                return nearest_of(kept, k)
            asked *= 4

    def postings(self, kind: PostingKind, terms: Sequence[str]) -> dict[str, Postings]:
        return self._postings.of(self._points, kind, terms)

    def vocabulary(self, kind: PostingKind) -> pa.Table:
        return self._postings.vocabulary(self._points, kind)

    def _matrix(self, vectors: Any) -> NDArray[np.float32]:
        """Return the vectors [n, d] of one chunk. Raises RemoteDataError: it has none, or of another shape."""
        values = vectors.get(self._vector) if isinstance(vectors, dict) else None
        try:
            matrix: NDArray[np.float32] = np.array(values, np.float32, ndmin=2)
        except (TypeError, ValueError):
            matrix = np.zeros((0, 0), np.float32)
        if matrix.ndim != 2 or not len(matrix) or matrix.shape[1] != self._settings.dimension:
            raise RemoteDataError("a chunk's vector in the Qdrant server is damaged; run `citelock generations repair`")
        return matrix
