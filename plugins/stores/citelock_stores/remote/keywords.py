"""The keyword index of a catalog: content by postings of the database, names by the catalog's own columns.

Belongs here: numbering words, fetching where they stand. Does not belong here: looking words up
(`indexes.keyword_index`), scores (`retrieval.keyword`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa

from citelock_stores.remote.postings import RecentPostings
from rag_serving.artifacts.columns import dictionary_encode, numbers_of
from rag_serving.artifacts.keyword_tables import KEYWORD_PAGES, KEYWORD_ROWS
from rag_serving.indexes.keyword_index import KeywordIndex, Numbers
from rag_serving.indexes.word_lists import (
    NamedRows,
    NumberedWords,
    NumberLists,
    headings_below,
    keyword_table,
    words_table,
)
from rag_serving.query.spelling import Speller

_COLUMNS = ("page_id", "title", "heading_path", "labels")


class RemoteKeywords(KeywordIndex):
    """The keyword index of a catalog. Pages and lengths are known at once; where words stand is asked for when it is
    needed, those that are expected together.

    Safe to use from several threads.
    """

    def __init__(self, table: pa.Table, postings: RecentPostings) -> None:
        """`table`: REMOTE_CHUNKS of the catalog's rows."""
        self._table, self._content = table, postings
        names, pages = dictionary_encode(table["page_id"])
        self.page_of: Numbers = pages
        self.lengths: Numbers = numbers_of(table["words"]).astype(np.int32)
        self.pages = len(names)
        self.titles = lru_cache(maxsize=4)(lambda left_out: self._named.titles(left_out))

    def expect(self, words: Iterable[str]) -> None:
        """Fetch where some words stand, those that there are, in one request."""
        self._content.of([self.spelt(number) for number in self._named.numbers(words)])

    def expect_stems(self, stems: Iterable[str]) -> None:
        """Fetch the same of all words with these stems, in one request."""
        self._content.of([self.spelt(number) for stem in stems for number in self._named.with_stem(stem)])

    def numbers(self, words: Iterable[str]) -> list[int]:
        """Return the numbers of those of some words that there are, ascending."""
        return self._named.numbers(words)

    def with_stem(self, stem: str) -> list[int]:
        """Return the numbers of the words with a stem."""
        return self._named.with_stem(stem)

    def spelt(self, number: int) -> str:
        """Return the word of a number."""
        return self._named.spelt(number)

    def rows(self, number: int) -> Numbers:
        """Return the rows that hold a word in their content, ascending."""
        word = self.spelt(number)
        return self._content.of([word])[word].rows

    def labelled(self, number: int) -> Numbers:
        """Return the pages that have a word among their labels."""
        return self._named.labelled(number)

    def named(self, number: int) -> Numbers:
        """Return the rows of which a word is the whole title, a whole label or a whole heading."""
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
