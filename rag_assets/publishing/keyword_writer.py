"""The keyword index of a generation: which words stand where, in content, titles and labels.

Belongs here: making its tables of a chunk table. Does not belong here: searching them
(`rag_serving.indexes.keyword_index`), what a word is (`rag_serving.text.keyword_words`).
"""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
import pyarrow as pa

from rag_serving.artifacts.keyword_tables import KEYWORD_PAGES, KEYWORD_ROWS, KEYWORD_WORDS
from rag_serving.artifacts.store import write_mapped
from rag_serving.indexes.keyword_index import PAGES_FILE, ROWS_FILE, WORDS_FILE
from rag_serving.indexes.word_lists import (
    NamedRows,
    NumberedWords,
    NumberLists,
    headings_below,
    keyword_table,
    words_table,
)
from rag_serving.text.keyword_words import words_in

_COLUMNS = ("page_id", "title", "heading_path", "labels", "text")


def write_keyword_index(folder: Path, chunks: pa.Table) -> None:
    """Write the files for a table of GENERATION_CHUNKS in its order; the same table gives the same bytes."""
    words = NumberedWords()
    named, contents, lengths = NamedRows(words), NumberLists(), array("i")
    for page_id, title, path, labels, text in zip(*(chunks[name].to_pylist() for name in _COLUMNS), strict=True):
        headings = headings_below(title, path)
        content = [number for part in headings for number in words.of_name(part)]
        content += words.of(words_in(text))
        contents.add(sorted(set(content)))
        lengths.append(len(content))
        named.add(page_id, title, headings, labels or ())
    spelt, renumbered = words.sorted()
    rows = {
        "page": np.frombuffer(named.pages, np.int32),
        "length": np.frombuffer(lengths, np.int32),
        "terms": named.terms.renumbered(renumbered),
    }
    pages = {"title": named.titles.renumbered(renumbered), "labels": named.labels.renumbered(renumbered)}
    tables = {
        WORDS_FILE: (KEYWORD_WORDS, words_table(spelt, contents.inverted(renumbered))),
        ROWS_FILE: (KEYWORD_ROWS, keyword_table(KEYWORD_ROWS, rows)),
        PAGES_FILE: (KEYWORD_PAGES, keyword_table(KEYWORD_PAGES, pages)),
    }
    for name, (schema, table) in tables.items():
        write_mapped(folder / name, table, schema)
