"""Which chunk has which term, as sparse vectors of chunks tell it to one reader.

Belongs here: numbers of terms by the vocabulary that a reader may see, which is kept; counts by search.
Does not belong here: BM25 (`indexes.bm25`), keeping postings (`remote.postings`), requests (`readable_points`).

A chunk has one sparse vector for each kind of posting: at the number of a term stands how often it has it, so that the
product with a vector of nothing but a one there is that count. A reader's vocabulary is what the reader classes have:
a term of hidden chunks alone has no number for it, and is not asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from citelock_stores.qdrant import filters
from citelock_stores.qdrant.layout import SPARSE
from citelock_stores.qdrant.readable_points import ReadablePoints, Search
from citelock_stores.qdrant.vocabularies import unpack_terms
from citelock_stores.remote.protocol import PostingKind, Postings
from citelock_stores.remote.tables import REMOTE_TERMS
from rag_serving.indexes.databases import RemoteDataError

Value = TypeVar("Value")


class KeptValues(Generic[Value]):
    """At most so many bytes of values. Safe to use from several threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()

    def get(self, key: Hashable) -> Value | None:
        """Return a value; None where it is not kept."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def keep(self, key: Hashable, value: Value, size: int) -> None:
        """Keep a value of so many bytes; one that has no room at all is not kept."""
        with self._lock:
            if key in self._values or size > self._most:
                return
            self._values[key] = value, size
            self._bytes += size
            while self._bytes > self._most:
                self._bytes -= self._values.popitem(last=False)[1][1]


_TERM_BYTES = 150  # of a term in a vocabulary, by sys.getsizeof


class Term(NamedTuple):
    """A term as one reader may know it: its number, and how many chunks have it."""

    number: int
    chunks: int


Vocabulary = Mapping[str, Term]


class PostingLists:
    """The postings of one generation. Safe to use from several threads."""

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes`: what may be kept of vocabularies."""
        self._vocabularies: KeptValues[Vocabulary] = KeptValues(most_bytes)

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
    """Return the terms of all reader classes together."""
    vocabulary: dict[str, Term] = {}
    for point in points.scroll("terms", ["packed"], [filters.with_value("posting", kind)]):
        parts = unpack_terms((point.payload or {}).get("packed", ""))
        for term, number, chunks in zip(*(part.to_pylist() for part in parts), strict=True):
            before = vocabulary.get(term)
            vocabulary[term] = Term(number, chunks if before is None else before.chunks + chunks)
    return vocabulary


def _searched(points: ReadablePoints, kind: PostingKind, terms: Sequence[Term]) -> Iterator[Postings]:
    """Return the chunks that have each of some terms.

    Raises:
        RemoteDataError: others than the vocabulary says.
    """
    from qdrant_client.models import SparseVector

    searches = [Search(SPARSE[kind], SparseVector(indices=[term.number], values=[1.0]), term.chunks) for term in terms]
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
