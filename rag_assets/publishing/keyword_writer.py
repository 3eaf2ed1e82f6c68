"""The keyword index of a generation: which words stand where, in content, titles and labels.

Belongs here: making its tables of a chunk table. Does not belong here: searching them
(`rag_serving.indexes.keyword_index`), what a word is (`rag_serving.text.keyword_words`).
"""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
import pyarrow as pa

from rag_assets.publishing.posting_lists import PART, Numbers, Part, counted, merged
from rag_assets.publishing.token_lists import TokenLists
from rag_serving.artifacts.keyword_tables import KEYWORD_PAGES, KEYWORD_ROWS, KEYWORD_WORDS
from rag_serving.artifacts.store import write_mapped
from rag_serving.indexes.keyword_index import PAGES_FILE, ROWS_FILE, WORDS_FILE
from rag_serving.indexes.word_lists import (
    NamedRows,
    NumberedWords,
    headings_below,
    keyword_table,
    list_array,
    words_table,
)
from rag_serving.text.keyword_words import tokens_in, words_of_token

_COLUMNS = ["page_id", "title", "heading_path", "labels", "text"]


def write_keyword_index(folder: Path, chunks: pa.Table) -> None:
    """Write the files for a table of GENERATION_CHUNKS in its order; the same table gives the same bytes."""
    words, lists = NumberedWords(), TokenLists()
    named, parts, lengths = NamedRows(words), list[Part](), list[Numbers]()
    for start in range(0, len(chunks), PART):
        found, owners = _contents(chunks.slice(start, PART), words, lists, named)
        parts.append(counted(found, owners, start))
        lengths.append(np.bincount(owners, minlength=min(PART, len(chunks) - start)).astype(np.int32))
    spelt, renumbered = words.sorted()
    contents = merged(parts, renumbered)
    by_row = {
        "page": np.frombuffer(named.pages, np.int32),
        "length": np.concatenate([np.zeros(0, np.int32), *lengths]),
        "terms": named.terms.renumbered(renumbered),
    }
    pages = {"title": named.titles.renumbered(renumbered), "labels": named.labels.renumbered(renumbered)}
    tables = {
        WORDS_FILE: (KEYWORD_WORDS, words_table(spelt, list_array(contents.starts.astype(np.int32), contents.rows))),
        ROWS_FILE: (KEYWORD_ROWS, keyword_table(KEYWORD_ROWS, by_row)),
        PAGES_FILE: (KEYWORD_PAGES, keyword_table(KEYWORD_PAGES, pages)),
    }
    for name, (schema, table) in tables.items():
        write_mapped(folder / name, table, schema)


def _contents(rows: pa.Table, words: NumberedWords, lists: TokenLists, named: NamedRows) -> tuple[Numbers, Numbers]:
    """Return the number of every word of the headings and texts of some rows, and that of its row; add their names."""
    lists.shrink()
    heading = lists.tokens("heading", words.of_name)
    token = lists.tokens("text", lambda token: words.of(words_of_token(token)))
    tokens, borders = array("i"), [0]
    for page_id, title, path, labels, text in zip(*(rows[name].to_pylist() for name in _COLUMNS), strict=True):
        headings = headings_below(title, path)
        tokens.extend(map(heading, headings))
        tokens.extend(map(token, tokens_in(text)))
        borders.append(len(tokens))
        named.add(page_id, title, headings, labels or ())
    found, sizes = lists.members(np.array(tokens, np.int32))
    owners = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(borders))
    return found, np.repeat(owners, sizes)
