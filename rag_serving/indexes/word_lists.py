"""The words of chunks, numbered: what the tables of a keyword index are made of."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_serving.artifacts.keyword_tables import KEYWORD_WORDS
from rag_serving.artifacts.schema import TableSchema
from rag_serving.text.analyzer import STOP_WORDS, stems
from rag_serving.text.keyword_words import words_in

Numbers = NDArray[np.int32]


class NumberedWords:
    """Words with a number each, in the order in which they came."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.of_name = lru_cache(maxsize=1 << 14)(self._of_name)

    def of(self, words: Iterable[str]) -> list[int]:
        """Return the numbers of words."""
        numbers = self._numbers
        return [numbers.setdefault(word, len(numbers)) for word in words]

    def sorted(self, others: Iterable[str] = ()) -> tuple[list[str], Numbers]:
        """Return the words and some others in their order, and for each number the place of its word there."""
        return sorted_places(self._numbers, others)

    def _of_name(self, name: str) -> list[int]:
        return self.of(words_in(name))


class NamedRows:
    """The words that title, labels and headings of chunks are made of, row by row, page after page."""

    def __init__(self, words: NumberedWords) -> None:
        self._words = words
        self.terms, self.titles, self.labels = NumberLists(), NumberLists(), NumberLists()
        self.pages = array("i")
        self._last: str | None = None

    def add(self, page_id: str, title: str, headings: Sequence[str], labels: Sequence[str]) -> None:
        """Add the next row; `headings`: without the title."""
        names = [self._words.of_name(name) for name in (title, *labels, *headings)]
        self.terms.add(sorted({name[0] for name in names if len(name) == 1}))
        if page_id != self._last:
            self.titles.add(names[0])
            self.labels.add(sorted({number for name in names[1 : 1 + len(labels)] for number in name}))
        self._last = page_id
        self.pages.append(len(self.titles) - 1)


class NumberLists:
    """Lists of word numbers, one after the other."""

    def __init__(self) -> None:
        self._numbers, self._borders = array("i"), array("q", [0])

    def __len__(self) -> int:
        return len(self._borders) - 1

    def add(self, numbers: Sequence[int]) -> None:
        self._numbers.extend(numbers)
        self._borders.append(len(self._numbers))

    def arrays(self) -> tuple[NDArray[np.int64], Numbers]:
        """Return where each list begins, with the end of the last, and all numbers."""
        numbers = np.frombuffer(self._numbers, np.int32) if self._numbers else np.zeros(0, np.int32)
        return np.array(self._borders, np.int64), numbers

    def renumbered(self, places: Numbers) -> Any:
        """Return the lists as an Arrow array, each number replaced by its place."""
        borders, numbers = self.arrays()
        return list_array(borders.astype(np.int32), places[numbers])

    def inverted(self, places: Numbers) -> Any:
        """Return for each place the lists that contain its number, ascending, as an Arrow array."""
        numbers = places[np.frombuffer(self._numbers, np.int32)] if self._numbers else np.zeros(0, np.int32)
        owners = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(np.array(self._borders)))
        borders = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=len(places)))])
        return list_array(borders.astype(np.int32), owners[np.argsort(numbers, kind="stable")])


def sorted_places(numbers: Mapping[str, int], others: Iterable[str]) -> tuple[list[str], Numbers]:
    """Return numbered words and some others in code point order, and for each number the place of its word there."""
    spelt, places = sorted(numbers.keys() | set(others)), np.empty(len(numbers), np.int32)
    for place, word in enumerate(spelt):
        if (number := numbers.get(word)) is not None:
            places[number] = place
    return spelt, places


def list_array(borders: Numbers, numbers: Numbers) -> pa.ListArray:
    """Return lists of numbers as an Arrow array; list i is `numbers[borders[i]:borders[i+1]]`."""
    return pa.ListArray.from_arrays(pa.array(borders, pa.int32()), pa.array(numbers, pa.int32()))


def headings_below(title: str, path: Sequence[str] | None) -> list[str]:
    """Return the headings of a path but the page's title."""
    return [heading for heading in path or () if heading != title]


def words_table(spelt: Sequence[str], rows: pa.ListArray) -> pa.Table:
    """Return KEYWORD_WORDS of words in code point order, and the rows with each."""
    stemmed = ["" if word in STOP_WORDS else stem for word, stem in zip(spelt, stems(spelt), strict=True)]
    columns = {
        "word": spelt,
        "stem": stemmed,
        "by_stem": np.array(sorted(range(len(spelt)), key=stemmed.__getitem__), np.int32),
        "rows": rows,
    }
    return keyword_table(KEYWORD_WORDS, columns)


def keyword_table(schema: TableSchema, columns: Mapping[str, Any]) -> pa.Table:
    """Return some columns as a table of a schema."""
    arrays = [pa.array(columns[field.name], field.type) for field in schema.columns]
    return pa.table(arrays, schema=schema.arrow)
