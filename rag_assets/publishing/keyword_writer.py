"""The keyword index of a generation: which words stand where, in content, titles and labels.

Belongs here: making its tables of a chunk table. Does not belong here: searching them
(`rag_serving.indexes.keyword_index`), what a word is (`rag_serving.text.keyword_words`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_serving.artifacts.keyword_tables import KEYWORD_PAGES, KEYWORD_ROWS, KEYWORD_WORDS
from rag_serving.artifacts.store import write_mapped
from rag_serving.indexes.keyword_index import PAGES_FILE, ROWS_FILE, WORDS_FILE
from rag_serving.text.analyzer import STOP_WORDS, stems
from rag_serving.text.keyword_words import words_in

_COLUMNS = ("page_id", "title", "heading_path", "labels", "text")

Numbers = NDArray[np.int32]


def write_keyword_index(folder: Path, chunks: pa.Table) -> None:
    """Write the files for a table of GENERATION_CHUNKS in its order; the same table gives the same bytes."""
    words = _Words()
    contents, terms, titles, labels = _Lists(), _Lists(), _Lists(), _Lists()
    lengths, pages, last = array("i"), array("i"), None
    for page_id, title, path, page_labels, text in zip(*(chunks[name].to_pylist() for name in _COLUMNS), strict=True):
        headings = [heading for heading in path or () if heading != title]
        content = [number for part in headings for number in words.of_name(part)]
        content += words.of(words_in(text))
        contents.add(sorted(set(content)))
        lengths.append(len(content))
        names = [words.of_name(name) for name in (title, *(page_labels or ()), *headings)]
        terms.add(sorted({name[0] for name in names if len(name) == 1}))
        if page_id != last:
            titles.add(names[0])
            labels.add(sorted({number for name in names[1 : 1 + len(page_labels or ())] for number in name}))
        last = page_id
        pages.append(len(titles) - 1)
    spelt, renumbered = words.sorted()
    stemmed = ["" if word in STOP_WORDS else stem for word, stem in zip(spelt, stems(spelt), strict=True)]
    tables = {
        WORDS_FILE: (
            KEYWORD_WORDS,
            {
                "word": spelt,
                "stem": stemmed,
                "by_stem": np.array(sorted(range(len(spelt)), key=stemmed.__getitem__), np.int32),
                "rows": contents.inverted(renumbered),
            },
        ),
        ROWS_FILE: (
            KEYWORD_ROWS,
            {
                "page": np.frombuffer(pages, np.int32),
                "length": np.frombuffer(lengths, np.int32),
                "terms": terms.renumbered(renumbered),
            },
        ),
        PAGES_FILE: (
            KEYWORD_PAGES,
            {"title": titles.renumbered(renumbered), "labels": labels.renumbered(renumbered)},
        ),
    }
    for name, (schema, columns) in tables.items():
        arrays = [pa.array(columns[field.name], field.type) for field in schema.columns]
        write_mapped(folder / name, pa.table(arrays, schema=schema.arrow), schema)


class _Words:
    """Words with a number each, in the order in which they came."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.of_name = lru_cache(maxsize=1 << 14)(self._of_name)

    def of(self, words: Iterable[str]) -> list[int]:
        """Return the numbers of words."""
        numbers = self._numbers
        return [numbers.setdefault(word, len(numbers)) for word in words]

    def sorted(self) -> tuple[list[str], Numbers]:
        """Return the words in their order, and for each number the place of its word there."""
        spelt = sorted(self._numbers)
        places = np.empty(len(spelt), np.int32)
        places[[self._numbers[word] for word in spelt]] = np.arange(len(spelt), dtype=np.int32)
        return spelt, places

    def _of_name(self, name: str) -> list[int]:
        return self.of(words_in(name))


class _Lists:
    """Lists of word numbers, one after the other."""

    def __init__(self) -> None:
        self._numbers, self._borders = array("i"), array("q", [0])

    def __len__(self) -> int:
        return len(self._borders) - 1

    def add(self, numbers: Sequence[int]) -> None:
        self._numbers.extend(numbers)
        self._borders.append(len(self._numbers))

    def renumbered(self, places: Numbers) -> Any:
        """Return the lists as an Arrow array, each number replaced by its place."""
        numbers = np.frombuffer(self._numbers, np.int32) if self._numbers else np.zeros(0, np.int32)
        return _lists(np.array(self._borders, np.int32), places[numbers])

    def inverted(self, places: Numbers) -> Any:
        """Return for each place the lists that hold its number, ascending, as an Arrow array."""
        numbers = places[np.frombuffer(self._numbers, np.int32)] if self._numbers else np.zeros(0, np.int32)
        owners = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(np.array(self._borders)))
        borders = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=len(places)))])
        return _lists(borders.astype(np.int32), owners[np.argsort(numbers, kind="stable")])


def _lists(borders: Numbers, numbers: Numbers) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(borders, pa.int32()), pa.array(numbers, pa.int32()))
