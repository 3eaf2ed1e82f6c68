"""The parts of a catalog: texts, postings, vectors and keywords, fetched from the database by rows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from citelock_stores.remote.protocol import RESEND, TEXT_COLUMNS, Digests, PostingKind, RemoteReader, text_digest
from rag_serving.artifacts.columns import Read, dictionary_encode, numbers_of
from rag_serving.artifacts.keyword_tables import KEYWORD_PAGES, KEYWORD_ROWS
from rag_serving.indexes import exact
from rag_serving.indexes.databases import RemoteDataError
from rag_serving.indexes.exact import VectorTable, WindowMap
from rag_serving.indexes.indexed_chunks import Mask, Rows, Vector
from rag_serving.indexes.keyword_index import KeywordIndex, Numbers
from rag_serving.indexes.lexical import Allowed, Bm25, Occurrences
from rag_serving.indexes.readable_rows import Hit, Readable, best
from rag_serving.indexes.sentence_vectors import SentenceVectors, record_type
from rag_serving.indexes.word_lists import (
    NamedRows,
    NumberedWords,
    NumberLists,
    headings_below,
    keyword_table,
    words_table,
)
from rag_serving.query.spelling import Speller

Key = TypeVar("Key")
Value = TypeVar("Value")


class KeptValues(Generic[Key, Value]):
    """At most `limit` bytes of values; those used longest ago are dropped first. Safe to use from several threads."""

    def __init__(self, limit: int) -> None:
        self._limit, self.bytes = limit, 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """Return a value; None if it is not kept."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def keep(self, key: Key, value: Value, size: int) -> None:
        """Keep a value of so many bytes; one that has no room at all is not kept."""
        with self._lock:
            if key in self._kept or size > self._limit:
                return
            self._kept[key] = value, size
            self.bytes += size
            while self.bytes > self._limit:
                self.bytes -= self._kept.popitem(last=False)[1][1]


class Recent(Generic[Key, Value]):
    """Values by key, fetched where they are not kept. Safe to use from several threads."""

    def __init__(
        self, fetch: Callable[[list[Key]], Mapping[Key, Value]], size_of: Callable[[Value], int], limit: int
    ) -> None:
        """`fetch` gives the values of some keys, all of them; `limit`: in bytes, as `size_of` counts them."""
        self._fetch, self._size_of = fetch, size_of
        self._kept: KeptValues[Key, Value] = KeptValues(limit)

    @property
    def bytes(self) -> int:
        """The size of the values that are kept."""
        return self._kept.bytes

    def of(self, keys: Collection[Key]) -> dict[Key, Value]:
        """Return the values of some keys, each once; those that are not kept are fetched together."""
        found = {key: value for key in keys if (value := self._kept.get(key)) is not None}
        if missing := [key for key in dict.fromkeys(keys) if key not in found]:
            fetched = self._fetch(missing)
            found |= {key: fetched[key] for key in missing}
            for key in missing:
                self._kept.keep(key, fetched[key], self._size_of(fetched[key]))
        return found


class RowNumbers:
    """The chunk of the generation for each row of a catalog."""

    def __init__(self, numbers: Rows, refused: frozenset[int] = frozenset()) -> None:
        """`numbers` [rows]: ascending; `refused`: chunks of which the database may speak, and which are not used.
        Raises RemoteDataError: the numbers are not ascending."""
        if len(numbers) and (int(numbers[0]) < 0 or not np.all(np.diff(numbers) > 0)):
            raise RemoteDataError("the database handed out chunks out of their order, or twice; publish them again")
        self._numbers = numbers
        self.refused = np.array(sorted(refused), np.int64)

    def __len__(self) -> int:
        return len(self._numbers)

    def outward(self, rows: Rows | Sequence[int]) -> Rows:
        """Return the numbers that the database knows some rows by."""
        return self._numbers[np.asarray(rows, np.int64)]

    def inward(self, numbers: Rows) -> Rows:
        """Return the rows of some chunks. Raises RemoteDataError: one of them is not in the catalog: the reader may not
        see it."""
        rows, known = self.known(numbers)
        if not known.all():
            raise RemoteDataError("the database handed out a chunk that its reader may not see; it is not used")
        return rows

    def used(self, numbers: Rows) -> NDArray[np.bool_] | slice:
        """Return the mask of the chunks that are not refused, as an array index."""
        return np.isin(numbers, self.refused, invert=True) if len(self.refused) else slice(None)

    def known(self, numbers: Rows) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the rows of some chunks, any row for those that are not in the catalog, and which ones are."""
        rows = np.searchsorted(self._numbers, numbers).astype(np.int64)
        if not len(self._numbers):
            return rows, np.zeros(len(numbers), np.bool_)
        rows = np.minimum(rows, len(self._numbers) - 1)
        return rows, self._numbers[rows] == numbers


TEXTS_LIMIT = 8 << 20
"""Bytes of texts that one catalog keeps."""
_OF_PYTHON = 400  # bytes of four texts in Python

Texts = Mapping[str, Any]


class AlteredTextError(RemoteDataError):
    """Texts are not those that were published. `numbers`: of which chunks of the generation."""

    def __init__(self, numbers: frozenset[int]) -> None:
        super().__init__(f"the text of {len(numbers)} passages was altered in the database and is not used; {RESEND}")
        self.numbers = numbers


class RemoteTexts:
    """The texts of chunks by row. Safe to use from several threads."""

    def __init__(
        self, reader: RemoteReader, numbers: RowNumbers, digests: Digests, report: Callable[[frozenset[int]], None]
    ) -> None:
        """`digests` [rows, 32]: of the published texts; `report` receives chunks with other texts."""
        self._reader, self._numbers = reader, numbers
        self._digests, self._report = digests, report
        self.recent: Recent[int, Texts] = Recent(self._fetch, _size_of_texts, TEXTS_LIMIT)

    def columns(self) -> dict[str, Read]:
        """Return the readers of each column of text at some rows."""
        return {name: partial(self._read, name) for name in TEXT_COLUMNS}

    def _read(self, name: str, rows: Iterable[int]) -> list[Any]:
        wanted = [int(row) for row in rows]
        found = self.recent.of(wanted)
        return [found[row][name] for row in wanted]

    def _fetch(self, rows: list[int]) -> dict[int, Texts]:
        numbers = self._numbers.outward(rows).tolist()
        found = {texts["row"]: texts for texts in self._reader.texts(numbers).to_pylist()}
        if len(found) != len(rows) or not all(number in found for number in numbers):
            raise RemoteDataError("the database lacks the text of a passage that it lists; publish the pages again")
        self._compare(rows, numbers, found)
        return {row: found[number] for row, number in zip(rows, numbers, strict=True)}

    def _compare(self, rows: list[int], numbers: list[int], found: Mapping[int, Texts]) -> None:
        """Compare texts with the digests of those that were published. Raises AlteredTextError: they are others;
        `report` heard of them."""
        altered = frozenset(
            number
            for row, number in zip(rows, numbers, strict=True)
            if text_digest(found[number]) != self._digests[row].tobytes()
        )
        if altered:
            self._report(altered)
            raise AlteredTextError(altered)


def _size_of_texts(texts: Texts) -> int:
    return _OF_PYTHON + 2 * sum(len(texts[name] or "") for name in TEXT_COLUMNS)


POSTINGS_LIMIT = 16 << 20
"""Bytes of postings that one catalog keeps of each kind."""
_OVERHEAD = 200
_NOWHERE = Occurrences(np.zeros(0, np.int64), np.zeros(0, np.int32))


class RecentPostings:
    """The postings of one kind, by the rows of a catalog. Safe to use from several threads."""

    def __init__(self, reader: RemoteReader, numbers: RowNumbers, kind: PostingKind) -> None:
        self._reader, self._numbers, self._kind = reader, numbers, kind
        self.recent: Recent[str, Occurrences] = Recent(self._fetch, _size, POSTINGS_LIMIT)

    def of(self, terms: Collection[str]) -> dict[str, Occurrences]:
        """Return the occurrences of each term; missing ones are fetched together."""
        return self.recent.of(terms)

    @cached_property
    def terms(self) -> dict[str, int]:
        """The terms, and the number of chunks with each."""
        table = self._reader.vocabulary(self._kind)
        return dict(zip(table["term"].to_pylist(), table["chunks"].to_pylist(), strict=True))

    def counts_if_known(self) -> dict[str, int] | None:
        """Return `terms` if they were fetched before."""
        return vars(self).get("terms")

    def _fetch(self, terms: list[str]) -> Mapping[str, Occurrences]:
        found = self._reader.postings(self._kind, terms)
        held = {term: self._held(rows, counts) for term, (rows, counts) in found.items()}
        return {term: held.get(term, _NOWHERE) for term in terms}

    def _held(self, rows: Rows, counts: NDArray[np.int32]) -> Occurrences:
        used = self._numbers.used(rows)
        return Occurrences(self._numbers.inward(rows[used]), counts[used])


class RemoteLexical(Bm25):
    """The lexical index of a catalog. Safe to search from several threads."""

    def __init__(self, postings: RecentPostings, lengths: NDArray[np.int32]) -> None:
        """`lengths` [rows]: the number of terms of every chunk."""
        super().__init__(lengths)
        self._postings = postings

    def terms(self) -> Collection[str]:
        return self._postings.terms.keys()

    def frequency(self, term: str, allowed: Allowed | None = None) -> int:
        """Return the number of chunks with an analyzed term; of a catalog every chunk is allowed."""
        known = self._postings.counts_if_known()
        return super().frequency(term, allowed) if known is None or allowed is not None else known.get(term, 0)

    def occurrences(self, terms: Iterable[str]) -> Mapping[str, Occurrences]:
        """Return the occurrences of each term."""
        return self._postings.of(list(terms))


def _size(found: Occurrences) -> int:
    return _OVERHEAD + int(found.rows.nbytes + found.counts.nbytes)


class RemoteDense:
    """The vectors of a catalog's chunks. Safe to use from several threads."""

    problems: tuple[str, ...] = ()

    def __init__(self, reader: RemoteReader, numbers: RowNumbers) -> None:
        self._reader, self._numbers = reader, numbers

    def search(
        self, vector: Vector, k: int, _: frozenset[str], readable: Readable, among: Mask | None = None
    ) -> list[Hit]:
        """Return the k nearest rows by cosine similarity to `vector` [d], best first, of those in `among`."""
        mask = readable.limits if among is None else readable.mask & among
        rows = readable.rows if mask is None else np.flatnonzero(mask)
        k = min(k, len(rows))
        if k <= 0:
            return []
        vector = np.ascontiguousarray(vector, np.float32)
        asked = k + len(self._numbers.refused)
        found = self._reader.nearest(vector, asked, None if mask is None else self._numbers.outward(rows))
        used = self._numbers.used(found.rows)
        return best(self._numbers.inward(found.rows[used]), np.asarray(found.scores, np.float32)[used], k)

    def similarities(self, vector: Vector, rows: Rows) -> NDArray[np.float32]:
        """Return the cosine similarity [n] of some rows to `vector` [d], of each its nearest vector's."""
        return exact.similarities(self._table(rows), vector, np.arange(len(rows), dtype=np.int64))

    def mean(self, rows: Rows) -> NDArray[np.float32]:
        """Return one L2-normalized vector for each of some rows [n, d]: the mean of its windows."""
        return self._table(rows).mean(np.arange(len(rows), dtype=np.int64))

    def close(self) -> None:
        """Hold nothing: connections are the store's."""

    def _table(self, rows: Rows) -> VectorTable:
        if not len(rows):
            return VectorTable(np.zeros((0, 0), np.float32))
        counts, vectors = self._reader.vectors(self._numbers.outward(rows).tolist())
        if len(counts) != len(rows) or int(counts.sum()) != len(vectors) or counts.min() < 1:
            raise RemoteDataError("the database lacks vectors of a passage that it lists; publish the pages again")
        return VectorTable(np.ascontiguousarray(vectors, np.float32), None, WindowMap(np.asarray(counts, np.int64)))


class RemoteSentences:
    """The sentence vectors of a catalog's chunks. Safe to use from several threads."""

    def __init__(self, reader: RemoteReader, numbers: RowNumbers, dimension: int) -> None:
        self._reader, self._numbers, self._kind = reader, numbers, record_type(dimension)

    def similarities(self, vector: Vector, chunks: Sequence[int], texts: Sequence[str]) -> list[float | None]:
        """Return the cosine similarity to `vector` [d] of texts that are sentences of some rows; None for others."""
        return self._of(chunks).similarities(vector, range(len(chunks)), texts)

    def best(self, vector: Vector, chunks: Sequence[int]) -> NDArray[np.float64]:
        """Return the similarity to `vector` [d] of each row's heading path and nearest sentence [n, 2]; NaN if no
        vector is stored."""
        return self._of(chunks).best(vector, range(len(chunks)))

    def _of(self, rows: Sequence[int]) -> SentenceVectors:
        """Return the sentence vectors of some rows, numbered by their place among these."""
        numbers = self._numbers.outward(list(rows)).tolist()
        table = self._reader.sentences(sorted(set(numbers))) if numbers else None
        stored: dict[int, bytes] = {}
        if table is not None:
            stored = dict(zip(table["row"].to_pylist(), table["records"].to_pylist(), strict=True))
        if not stored.keys() <= set(numbers) or any(len(found) % self._kind.itemsize for found in stored.values()):
            raise RemoteDataError("sentence vectors of the database are damaged; publish the pages again")
        records = [np.frombuffer(stored.get(number, b""), self._kind) for number in numbers]
        borders = np.cumsum([0, *map(len, records)]).astype(np.int64)
        whole = np.concatenate(records) if records else np.zeros(0, self._kind)
        return SentenceVectors(whole, borders, np.arange(len(whole), dtype=np.int64))


_COLUMNS = ("page_id", "title", "heading_path", "labels")


class RemoteKeywords(KeywordIndex):
    """The keyword index of a catalog. Pages and lengths are loaded at once; occurrences of words on demand, expected
    ones together. Safe to use from several threads."""

    def __init__(self, table: pa.Table, postings: RecentPostings) -> None:
        """`table`: REMOTE_CHUNKS of the catalog's rows."""
        self._table, self._content = table, postings
        names, pages = dictionary_encode(table["page_id"])
        self.page_of: Numbers = pages
        self.lengths: Numbers = numbers_of(table["words"]).astype(np.int32)
        self.pages = len(names)
        self.titles = lru_cache(maxsize=4)(lambda left_out: self._named.titles(left_out))

    def expect(self, words: Iterable[str]) -> None:
        """Fetch the occurrences of the existing words in one request."""
        self._content.of([self.spelt(number) for number in self._named.numbers(words)])

    def expect_stems(self, stems: Iterable[str]) -> None:
        """Fetch the same of all words with these stems, in one request."""
        self._content.of([self.spelt(number) for stem in stems for number in self._named.with_stem(stem)])

    def numbers(self, words: Iterable[str]) -> list[int]:
        return self._named.numbers(words)

    def with_stem(self, stem: str) -> list[int]:
        return self._named.with_stem(stem)

    def spelt(self, number: int) -> str:
        return self._named.spelt(number)

    def rows(self, number: int) -> Numbers:
        word = self.spelt(number)
        return self._content.of([word])[word].rows

    def labelled(self, number: int) -> Numbers:
        return self._named.labelled(number)

    def named(self, number: int) -> Numbers:
        return self._named.named(number)

    @cached_property
    def speller(self) -> Speller:
        """The stems of all words."""
        return self._named.speller

    @cached_property
    def _named(self) -> KeywordIndex:
        """The words, and those of titles, labels and headings; of content only that there are such words."""
        words = NumberedWords()
        words.of(self._content.terms)
        rows = NamedRows(words)
        for page_id, title, path, labels in zip(*(self._table[name].to_pylist() for name in _COLUMNS), strict=True):
            rows.add(page_id, title, headings_below(title, path), labels or ())
        spelt, renumbered = words.sorted()
        nowhere = NumberLists().inverted(renumbered)
        by_row = {"page": self.page_of, "length": self.lengths, "terms": rows.terms.renumbered(renumbered)}
        by_page = {"title": rows.titles.renumbered(renumbered), "labels": rows.labels.renumbered(renumbered)}
        return KeywordIndex(
            words_table(spelt, nowhere),
            keyword_table(KEYWORD_ROWS, by_row),
            keyword_table(KEYWORD_PAGES, by_page),
        )
