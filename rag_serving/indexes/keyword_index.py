"""The keyword index: words of content, titles and labels, as one reader may see them. It rests on nothing but its three
files: a question can be answered by it while vectors, the lexical index and every model are out of reach. Nothing is
counted before a reader is known. Whether a word is a term, how long a document is, which page has a title: each answer
is computed from the rows that the reader may see, so that a generation without the others gives the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_serving.artifacts.columns import combine_chunks
from rag_serving.indexes.readable_rows import Readable
from rag_serving.query.spelling import Speller

WORDS_FILE, ROWS_FILE, PAGES_FILE = "keyword-words.arrow", "keyword-rows.arrow", "keyword-pages.arrow"
FILES = (WORDS_FILE, ROWS_FILE, PAGES_FILE)

Numbers = NDArray[Any]
Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]


class _Postings(NamedTuple):
    """For each word number the rows or pages that have it."""

    starts: Numbers
    owners: Numbers

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> _Postings:
        """Return a column of lists of owners."""
        whole = combine_chunks(column)
        return cls(_array(whole.offsets), _array(whole.values))

    @classmethod
    def inverted(cls, lists: _Postings, words: int) -> _Postings:
        """Return the owners of so many words, given lists of words by owner."""
        order = np.argsort(lists.owners, kind="stable")
        return cls(_borders(lists.owners, words), lists.places()[order])

    def at(self, number: int) -> Numbers:
        """Return the owners of one word."""
        return self.owners[self.starts[number] : self.starts[number + 1]]

    def places(self) -> Numbers:
        """Return for each value the index of its list."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))


class _Titles:
    """The words of all titles one after the other, without those that are left out of comparisons."""

    def __init__(self, titles: _Postings, words: int, left_out: Sequence[int]) -> None:
        is_left_out = np.zeros(words, np.bool_)
        is_left_out[list(left_out)] = True
        kept = ~is_left_out[titles.owners]
        numbers: Numbers = titles.owners[kept]
        self.page: Numbers = titles.places()[kept]
        self.sizes = np.bincount(self.page, minlength=len(titles.starts) - 1)
        self._places = _Postings(_borders(numbers, words), np.argsort(numbers, kind="stable"))

    def places(self, numbers: Collection[int]) -> Numbers:
        """Return the positions of the words with these numbers."""
        return _joined([self._places.at(number) for number in numbers])


class KeywordIndex:
    """The opened index of a generation, for all readers. Safe to use from several threads."""

    def __init__(self, words: pa.Table, rows: pa.Table, pages: pa.Table) -> None:
        """Tables of KEYWORD_WORDS, KEYWORD_ROWS and KEYWORD_PAGES."""
        self._words, self._stems = (combine_chunks(words[name]) for name in ("word", "stem"))
        self._by_stem: Numbers = _array(combine_chunks(words["by_stem"]))
        self._postings = _Postings.of(words["rows"])
        self.page_of: Numbers = _array(combine_chunks(rows["page"]))
        self.lengths: Numbers = _array(combine_chunks(rows["length"]))
        self._terms, self._titles, self._labels = (
            _Postings.of(column) for column in (rows["terms"], pages["title"], pages["labels"])
        )
        self.pages = len(pages)
        self.titles = lru_cache(maxsize=4)(self._titles_without)

    def __len__(self) -> int:
        return len(self.lengths)

    def expect(self, words: Iterable[str]) -> None:
        """Prefetch the positions of words that are needed next: nothing to do here."""

    def expect_stems(self, stems: Iterable[str]) -> None:
        """Fetch the same of all words with these stems."""

    def numbers(self, words: Iterable[str]) -> list[int]:
        """Return the numbers of those of some words that there are, ascending."""
        known = self._numbers
        return sorted([known[word] for word in words if word in known])

    def with_stem(self, stem: str) -> list[int]:
        """Return the numbers of the words with a stem."""
        first, last = self._stem_ranges.get(stem, (0, 0))
        numbers: list[int] = self._by_stem[first:last].tolist()
        return numbers

    def spelt(self, number: int) -> str:
        """Return the word of a number."""
        return str(self._words[number].as_py())

    def content_postings(self) -> tuple[list[str], Numbers, Numbers]:
        """Return all words, the starts of their rows [words + 1], and the rows with them in their content."""
        return self._words.to_pylist(), self._postings.starts, self._postings.owners

    def rows(self, number: int) -> Numbers:
        """Return the rows with a word in their content, ascending."""
        return self._postings.at(number)

    def labelled(self, number: int) -> Numbers:
        """Return the pages that have a word among their labels."""
        return self._label_postings.at(number)

    def named(self, number: int) -> Numbers:
        """Return the rows of which a word is the whole title, a whole label or a whole heading."""
        return self._term_postings.at(number)

    @cached_property
    def page_starts(self) -> list[int]:
        """The first row of every page, and behind the last one the number of rows."""
        starts: list[int] = _borders(self.page_of, self.pages).tolist()
        return starts

    @cached_property
    def speller(self) -> Speller:
        """The stems of all words: the caller decides which may be revealed."""
        return Speller(self._stem_ranges.keys() - {""})

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self._words.to_pylist())}

    @cached_property
    def _stem_ranges(self) -> dict[str, tuple[int, int]]:
        stems = self._stems.to_pylist()
        ordered = [stems[number] for number in self._by_stem.tolist()]
        borders = [place for place in range(len(ordered)) if not place or ordered[place] != ordered[place - 1]]
        return {ordered[first]: (first, last) for first, last in pairwise([*borders, len(ordered)])}

    @cached_property
    def _label_postings(self) -> _Postings:
        return _Postings.inverted(self._labels, len(self._words))

    @cached_property
    def _term_postings(self) -> _Postings:
        return _Postings.inverted(self._terms, len(self._words))

    def _titles_without(self, words: frozenset[str]) -> _Titles:
        return _Titles(self._titles, len(self._words), self.numbers(words))


class ReadableKeywords:
    """The keyword index as one reader may see it. Safe to use from several threads."""

    def __init__(self, index: KeywordIndex, readable: Readable) -> None:
        self._index, self._readable = index, readable

    @property
    def size(self) -> tuple[int, int]:
        """Return the sizes of arrays by row and by page."""
        return len(self._index), self._index.pages

    def expect(self, words: Iterable[str]) -> None:
        """Announce the words that are needed next: a database then gets one query."""
        self._index.expect(words)

    def rows_with(self, words: Collection[str]) -> Rows:
        """Return the rows whose content has one of some words, each once, ascending."""
        rows = _union([self._index.rows(number) for number in self._index.numbers(words)])
        return rows if self._readable.limits is None else rows[self._readable.limits[rows]]

    def pages_titled(self, words: Collection[str], left_out: frozenset[str]) -> Rows:
        """Return the pages whose titles have one of some words, each once; titles are read without `left_out`."""
        titles = self._index.titles(left_out)
        return self._open(titles.page[titles.places(self._index.numbers(words))])

    def pages_labelled(self, words: Collection[str]) -> Rows:
        """Return the pages whose labels have one of some words, each once."""
        return self._open(_joined([self._index.labelled(number) for number in self._index.numbers(words)]))

    def pages_named(self, run: Sequence[Collection[str]], left_out: frozenset[str]) -> tuple[Rows, Rows]:
        """Return the pages whose titles contain a run of words, one from each collection in order; and those whose
        titles are nothing else. Titles are read without `left_out`."""
        titles, size = self._index.titles(left_out), len(run)
        places: Numbers = titles.places(self._index.numbers(run[0])) if run else _NONE
        for shift, words in enumerate(run[1:], start=1):
            if not len(places):
                break
            follows = np.zeros(len(titles.page) + size, np.bool_)
            follows[titles.places(self._index.numbers(words))] = True
            places = places[follows[places + shift]]
        if size > 1 and len(places):
            places = places[titles.page[places] == titles.page[places + size - 1]]
        pages = self._open(titles.page[places])
        return pages, pages[titles.sizes[pages] == size]

    def is_term(self, word: str) -> bool:
        """Return whether a word is the whole title, a whole label or a whole heading of a row."""
        return any(self._readable.mask[self._index.named(number)].any() for number in self._index.numbers([word]))

    def has_word(self, words: Collection[str]) -> bool:
        """Return whether one of the words occurs in content, titles or labels."""
        return any(self._has(number) for number in self._index.numbers(words))

    def correction(self, word: str) -> str | None:
        """Return the word of content, titles and labels that a word in lower case was meant to be, if one is near."""
        return self._index.speller.correction(word, self.frequency, self._written, self._index.expect_stems)

    def frequency(self, stem: str) -> int:
        """Return the number of rows with a word of this stem in content, title or labels."""
        numbers = self._index.with_stem(stem)
        if not numbers:
            return 0
        held = np.zeros(len(self._index), np.bool_)
        for number in numbers:
            held[self._index.rows(number)] = True
        if len(pages := _joined([self._pages_with(number) for number in numbers])):
            named = np.zeros(self._index.pages, np.bool_)
            named[pages] = True
            held |= named[self._index.page_of]
        return int(np.count_nonzero(held if self._readable.limits is None else held & self._readable.limits))

    def rows_of(self, page: int) -> Rows:
        """Return the rows of a page, ascending."""
        first, last = self._index.page_starts[page], self._index.page_starts[page + 1]
        if self._readable.limits is None:
            return np.arange(first, last)
        return first + np.flatnonzero(self._readable.limits[first:last])

    @property
    def readable(self) -> Mask:
        """Return which rows the reader may see."""
        return self._readable.mask

    @property
    def page_of(self) -> Numbers:
        """Return the number of the page of every row."""
        return self._index.page_of

    @cached_property
    def lengths(self) -> Numbers:
        """Return the words of the content of every row; 0 for those that the reader may not see."""
        return np.where(self._readable.mask, self._index.lengths, 0)

    @cached_property
    def page_lengths(self) -> Rows:
        """Return the words of the content of every page, of the rows that the reader may see."""
        return np.bincount(self._index.page_of, self.lengths, minlength=self._index.pages).astype(np.int64)

    @cached_property
    def _open_pages(self) -> Mask:
        mask = np.zeros(self._index.pages, np.bool_)
        mask[self._index.page_of[self._readable.rows]] = True
        return mask

    def _open(self, pages: Numbers) -> Rows:
        return _union([pages[self._open_pages[pages]]])

    def _has(self, number: int) -> bool:
        rows = self._index.rows(number)
        if len(rows) and (self._readable.limits is None or self._readable.limits[rows].any()):
            return True
        return bool(self._open_pages[self._pages_with(number)].any())

    def _pages_with(self, number: int) -> Numbers:
        titles = self._index.titles(frozenset())
        return np.concatenate([titles.page[titles.places([number])], self._index.labelled(number)])

    def _written(self, stem: str) -> Iterator[str]:
        return (self._index.spelt(number) for number in self._index.with_stem(stem) if self._has(number))


_NONE: Numbers = np.zeros(0, np.int32)


def _joined(parts: Sequence[Numbers]) -> Numbers:
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else _NONE


def _union(parts: Sequence[Numbers]) -> Numbers:
    """Return the values of some arrays, each once, ascending. Not by `np.unique`, which imports numpy.ma."""
    values = _joined(parts)
    if len(values) < 2:
        return values
    steps = values[1:] > values[:-1]
    if steps.all():
        return values
    values = np.sort(values)
    first: Numbers = values[np.flatnonzero(np.diff(values, prepend=-1))]
    return first


def _borders(numbers: Numbers, count: int) -> Numbers:
    """Return where each of so many numbers begins among the sorted `numbers`, and their count."""
    borders = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(numbers, minlength=count), out=borders[1:])
    return borders


def _array(column: pa.Array) -> Numbers:
    """`column`: numbers without nulls; not copied."""
    return np.from_dlpack(column) if len(column) else np.zeros(0, np.int32)
