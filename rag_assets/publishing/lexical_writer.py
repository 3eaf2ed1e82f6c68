"""The lexical index of a generation is written as the arrays that bm25s would compute, part by part of the rows.

Belongs here: building the index. Does not belong here: reading and searching it (`rag_serving.indexes.lexical`), arrays
of rows by term (`posting_lists`).

Every word is analyzed once for each language that it comes in; the rest is counting numbers. bm25s itself holds all
documents as lists of Python objects, five times the memory and twice the time.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_assets.publishing.arrange import lexical_digest, lexical_documents
from rag_assets.publishing.posting_lists import PART, Numbers, Part, Postings, counted, merged
from rag_assets.publishing.token_lists import TokenLists
from rag_serving.indexes.bm25 import K1, METHOD, B, idf
from rag_serving.indexes.lexical import ARRAYS, FACTS_FILE, FORMAT, IDS_FILE, VOCABULARY_FILE
from rag_serving.text.analyzer import ANALYZER_VERSION, tokens_of, words_of
from rag_serving.text.stemming import word_terms

Progress = Callable[[int, int], None]

_PROGRESS_EVERY = 500
_WEIGHED = 1 << 22  # postings whose weights are computed at once


def build_lexical(folder: Path, table: pa.Table, progress: Progress | None = None) -> int:
    """Write the index of chunks into a folder; returns the size of its vocabulary.

    The same chunks in the same order give the same bytes. `table`: the columns chunk_id, lexical_prefix, text and lang
    of GENERATION_CHUNKS; a language says by which stems beside the English ones a text is found. `progress` hears of
    (texts analyzed, texts in all), which is most of the work.
    """
    terms, parts, lengths = TermNumbers(), list[Part](), list[Numbers]()
    for start in range(0, len(table), PART):
        texts, languages = lexical_documents(table.slice(start, PART))
        told = _told(texts, start, len(table), progress)
        found, owners = terms.of(told, languages)
        parts.append(counted(found, owners, start))
        lengths.append(np.bincount(owners, minlength=len(texts)).astype(np.int32))
    vocabulary, places = terms.sorted()
    postings = merged(parts, places)
    folder.mkdir(parents=True, exist_ok=True)
    _save(folder, postings, np.concatenate([np.zeros(0, np.int32), *lengths]))
    _dump(folder / VOCABULARY_FILE, {term: number for number, term in enumerate(vocabulary)}, (",", ":"))
    _dump(folder / IDS_FILE, table["chunk_id"].to_pylist())
    facts = {
        "format": FORMAT,
        "analyzer": ANALYZER_VERSION,
        "chunks": len(table),
        "terms": len(vocabulary),
        "content": lexical_digest(table),
    }
    _dump(folder / FACTS_FILE, facts)
    return len(vocabulary)


class TermNumbers:
    """Terms with a number each, in the order in which they came."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._lists = TokenLists()

    def of(self, texts: Iterable[str], languages: Sequence[str | None]) -> tuple[Numbers, Numbers]:
        """Return the number of every term of some texts, and that of its text."""
        self._lists.shrink()
        tokens, borders = array("i"), [0]
        for text, language in zip(texts, languages, strict=True):
            tokens.extend(map(self._lists.tokens(language, partial(self._of_token, language)), tokens_of(text)))
            borders.append(len(tokens))
        terms, sizes = self._lists.members(np.array(tokens, np.int32))
        owners = np.repeat(np.arange(len(borders) - 1, dtype=np.int32), np.diff(borders))
        return terms, np.repeat(owners, sizes)

    def sorted(self) -> tuple[list[str], Numbers]:
        """Return the terms in their order, and for each number the place of its term there."""
        spelt = sorted(self._numbers)
        places = np.empty(len(spelt), np.int32)
        places[[self._numbers[term] for term in spelt]] = np.arange(len(spelt), dtype=np.int32)
        return spelt, places

    def _of_token(self, language: str | None, token: str) -> Iterator[int]:
        terms, numbers = word_terms(language), self._numbers
        return (numbers.setdefault(term, len(numbers)) for word in words_of(token) for term in terms(word))


def _told(texts: Sequence[str], before: int, total: int, progress: Progress | None) -> Iterator[str]:
    for number, text in enumerate(texts, before + 1):
        yield text
        if progress and (number % _PROGRESS_EVERY == 0 or number == total):
            progress(number, total)


def _save(folder: Path, postings: Postings, lengths: Numbers) -> None:
    """Write the arrays, and the parameters as bm25s writes them."""
    import bm25s

    index: Any = bm25s.BM25(k1=K1, b=B, method=METHOD, csc_backend="numpy", backend="numpy")
    index.vocab_dict, index.nonoccurrence_array = {}, None
    index.scores = {
        "data": _weights(postings, lengths),
        "indices": postings.rows,
        "indptr": postings.starts,
        "num_docs": len(lengths),
    }
    index.save(folder, show_progress=False)
    np.save(folder / ARRAYS["counts"], postings.counts, allow_pickle=False)
    np.save(folder / ARRAYS["lengths"], lengths, allow_pickle=False)


def _weights(postings: Postings, lengths: Numbers) -> NDArray[np.float32]:
    """Return the weight of each term in each row that has it, rounded where bm25s rounds."""
    mean = int(lengths.sum(dtype=np.int64)) / max(len(lengths), 1)
    frequencies = np.diff(postings.starts)
    rare = {count: idf(count, len(lengths)) for count in np.unique(frequencies).tolist()}
    factors = np.array([rare[count] for count in frequencies.tolist()], np.float32)
    weights = np.empty(len(postings.rows), np.float32)
    for start in range(0, len(weights), _WEIGHED):
        part = slice(start, start + _WEIGHED)
        counts = postings.counts[part].astype(np.float32)
        saturation = counts / (K1 * ((1 - B) + B * lengths[postings.rows[part]] / mean) + counts)
        places = np.searchsorted(postings.starts, np.arange(start, start + len(counts)), side="right") - 1
        weights[part] = (factors[places] * saturation).astype(np.float32)
    return weights


def _dump(path: Path, value: object, separators: tuple[str, str] | None = None) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, separators=separators), encoding="utf-8")
