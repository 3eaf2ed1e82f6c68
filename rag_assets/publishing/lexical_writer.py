"""The lexical index of a generation is written as the arrays that bm25s would compute, part by part of the rows.

Every word is analyzed once for each language that it comes in; the rest is counting numbers. bm25s itself needs all
documents as lists of Python objects, five times the memory and twice the time. An earlier index's counts of unchanged
rows are reused: the bytes are the same either way. Weights are made anew, because they depend on all rows.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from rag_assets.publishing.arrange import lexical_digest, lexical_documents
from rag_assets.publishing.posting_lists import (
    PART,
    KeptPostings,
    KeptRows,
    Numbers,
    PostingBlock,
    RowPostings,
    TokenLists,
    blocks,
    counted,
    rows_of,
)
from rag_serving.indexes.lexical import (
    ARRAYS,
    FACTS_FILE,
    FORMAT,
    IDS_FILE,
    K1,
    METHOD,
    VOCABULARY_FILE,
    B,
    LexicalIndex,
    idf,
)
from rag_serving.indexes.word_lists import sorted_places
from rag_serving.text.analyzer import ANALYZER_VERSION, tokens_of, words_of
from rag_serving.text.stemming import word_terms


class ArrayFile:
    """An `.npy` file that grows; complete, and the same bytes as of `np.save`, when its `with` block ends."""

    def __init__(self, path: Path, kind: DTypeLike) -> None:
        self._path, self._kind, self._length = path, np.dtype(kind), 0

    def __enter__(self) -> Self:
        self._file = self._path.open("wb")
        self._write_header()
        self._begin = self._file.tell()
        return self

    def append(self, values: NDArray[Any]) -> None:
        """Add values, converted to the type of the file."""
        if len(values):
            self._file.write(np.ascontiguousarray(values, self._kind).data)
            self._length += len(values)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with self._file:
            if error is None:
                self._file.seek(0)
                self._write_header()
                assert self._file.tell() == self._begin  # numpy leaves room for the length to grow

    def _write_header(self) -> None:
        header = {"descr": np.lib.format.dtype_to_descr(self._kind), "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._file, header)


Progress = Callable[[int, int], None]

_PROGRESS_EVERY = 500


class EarlierLexical(NamedTuple):
    """An index of which most rows did not change, and which these are."""

    lexical: LexicalIndex
    kept: KeptRows


def build_lexical(
    folder: Path, table: pa.Table, progress: Progress | None = None, earlier: EarlierLexical | None = None
) -> int:
    """Write the index of chunks into a folder; return the size of its vocabulary.

    The same chunks in the same order give the same bytes, whatever is reused from an earlier index. `table`: the
    columns chunk_id, lexical_prefix, text and lang of GENERATION_CHUNKS; a language adds its stems to the English ones.
    `progress` receives (texts analyzed, texts to analyze), which is most of the work.
    """
    with ThreadPoolExecutor(1) as beside:  # taking digests leaves the other core to the words
        content = beside.submit(lexical_digest, table)
        vocabulary = _build(folder, table, progress, earlier)
        _dump(folder / VOCABULARY_FILE, {term: number for number, term in enumerate(vocabulary)}, (",", ":"))
        _dump(folder / IDS_FILE, table["chunk_id"].to_pylist())
        facts = {
            "format": FORMAT,
            "analyzer": ANALYZER_VERSION,
            "chunks": len(table),
            "terms": len(vocabulary),
            "content": content.result(),
        }
    _dump(folder / FACTS_FILE, facts)
    return len(vocabulary)


def _build(folder: Path, table: pa.Table, progress: Progress | None, earlier: EarlierLexical | None) -> list[str]:
    """Write the arrays; returns the vocabulary in its order."""
    terms, parts = TermNumbers(), list[RowPostings]()
    lengths = np.zeros(len(table), np.int32)
    fresh = earlier.kept.fresh if earlier else np.arange(len(table))
    for start in range(0, len(fresh), PART):
        rows = fresh[start : start + PART]
        texts, languages = lexical_documents(rows_of(table, rows))
        told = _told(texts, start, len(fresh), progress)
        found, owners = terms.of(told, languages)
        parts.append(counted(found, owners, rows.astype(np.int32)))
        lengths[rows] = np.bincount(owners, minlength=len(texts))
    folder.mkdir(parents=True, exist_ok=True)
    spelt, places, kept = _with_earlier(terms, earlier, lengths) if earlier else (*terms.sorted(), None)
    _save_parameters(folder, len(lengths))
    weigh, sizes = _Weights(lengths), list[NDArray[np.int64]]()
    with (
        ArrayFile(folder / ARRAYS["rows"], np.int32) as row_file,
        ArrayFile(folder / ARRAYS["counts"], np.int32) as count_file,
        ArrayFile(folder / ARRAYS["weights"], np.float32) as weight_file,
    ):

        def write(block: PostingBlock) -> None:
            row_file.append(block.rows)
            count_file.append(block.counts)
            weight_file.append(weigh(block))

        written = Future[None]()
        written.set_result(None)
        with ThreadPoolExecutor(1) as beside:  # one block is weighed while the next one is put together
            for block in blocks(parts, places, len(spelt), kept):
                written.result()
                written = beside.submit(write, block)
                sizes.append(block.sizes)
            written.result()
    frequencies = np.concatenate([np.zeros(0, np.int64), *sizes])
    present = np.flatnonzero(frequencies)
    borders = np.concatenate([np.zeros(1, np.int64), np.cumsum(frequencies[present])])
    np.save(folder / ARRAYS["starts"], borders, allow_pickle=False)
    np.save(folder / ARRAYS["lengths"], lengths, allow_pickle=False)
    return [spelt[place] for place in present.tolist()]


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

    def sorted(self, others: Iterable[str] = ()) -> tuple[list[str], Numbers]:
        """Return the terms and some others in their order, and for each number the place of its term there."""
        return sorted_places(self._numbers, others)

    def _of_token(self, language: str | None, token: str) -> Iterator[int]:
        terms, numbers = word_terms(language), self._numbers
        return (numbers.setdefault(term, len(numbers)) for word in words_of(token) for term in terms(word))


def _told(texts: Sequence[str], before: int, total: int, progress: Progress | None) -> Iterator[str]:
    for number, text in enumerate(texts, before + 1):
        yield text
        if progress and (number % _PROGRESS_EVERY == 0 or number == total):
            progress(number, total)


def _with_earlier(
    terms: TermNumbers, earlier: EarlierLexical, lengths: Numbers
) -> tuple[list[str], Numbers, KeptPostings]:
    """Return the terms of an earlier index and of new rows, the places of the latter, and the kept postings; fill in
    the lengths of kept rows."""
    known, starts, rows, counts = earlier.lexical.postings()
    spelt, places = terms.sorted(known)
    numbers = dict(zip(spelt, range(len(spelt)), strict=True))
    own = np.fromiter(map(numbers.__getitem__, known), np.int32, len(known))
    kept = np.flatnonzero(earlier.kept.earlier >= 0)
    lengths[kept] = earlier.lexical.lengths[earlier.kept.earlier[kept]]
    return spelt, places, KeptPostings(own, starts, rows, counts, earlier.kept.renumbered)


def _save_parameters(folder: Path, chunks: int) -> None:
    import bm25s

    index: Any = bm25s.BM25(k1=K1, b=B, method=METHOD, csc_backend="numpy", backend="numpy")
    index.vocab_dict, index.nonoccurrence_array = {}, None
    nothing = np.zeros(0, np.int32)  # the arrays are written after
    index.scores = {"data": nothing, "indices": nothing, "indptr": nothing, "num_docs": chunks}
    index.save(folder, show_progress=False)


class _Weights:
    """The weight of each term in each row that has it, rounded where bm25s rounds."""

    def __init__(self, lengths: Numbers) -> None:
        self._population = len(lengths)
        mean = int(lengths.sum(dtype=np.int64)) / max(len(lengths), 1)
        self._norms = K1 * ((1 - B) + B * lengths / mean) if mean else np.zeros(len(lengths))

    def __call__(self, block: PostingBlock) -> NDArray[np.float32]:
        rare = {count: idf(count, self._population) for count in np.flatnonzero(np.bincount(block.sizes)).tolist()}
        factors = np.array([rare[count] for count in block.sizes.tolist()], np.float32)
        counts = block.counts.astype(np.float32)
        saturation = counts / (self._norms[block.rows] + counts)
        return (np.repeat(factors, block.sizes) * saturation).astype(np.float32)


def _dump(path: Path, value: object, separators: tuple[str, str] | None = None) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, separators=separators), encoding="utf-8")
