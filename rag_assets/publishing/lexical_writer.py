"""The lexical index of a generation is written as the arrays that bm25s would compute, part by part of the rows; and
the keyword index, the occurrences of words in content, titles and labels.

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

from rag_assets.publishing.arrange import MOST, BuildError, lexical_digest, lexical_documents
from rag_assets.publishing.posting_lists import (
    PART,
    Borders,
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
from rag_serving.artifacts.columns import combine_chunks, dictionary_encode
from rag_serving.artifacts.keyword_tables import KEYWORD_PAGES, KEYWORD_ROWS, KEYWORD_WORDS
from rag_serving.artifacts.store import write_mapped
from rag_serving.indexes import word_lists
from rag_serving.indexes.keyword_index import PAGES_FILE, ROWS_FILE, WORDS_FILE
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
from rag_serving.text.keyword_words import tokens_in, words_of_token
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


class Lists(NamedTuple):
    """Some lists; list i is `values[starts[i]:starts[i+1]]`."""

    starts: Borders
    values: Numbers

    @classmethod
    def of(cls, lists: word_lists.NumberLists) -> Self:
        """Return lists that were added one by one."""
        return cls(*lists.arrays())

    @classmethod
    def of_column(cls, column: pa.ChunkedArray) -> Self:
        """Return a column of lists of int32, none of them null."""
        whole = combine_chunks(column)
        return cls(_array(whole.offsets).astype(np.int64), _array(whole.values))

    def replaced(self, numbers: Numbers) -> Self:
        """Return the lists with `numbers[value]` for each value."""
        return self._replace(values=numbers[self.values])

    def chosen(self, places: Numbers, others: Self) -> Self:
        """Return the list at each of some places, for every -1 the next one of the others."""
        own = places >= 0
        begins, sizes = np.empty(len(places), np.int64), np.empty(len(places), np.int64)
        begins[own], sizes[own] = self.starts[places[own]], np.diff(self.starts)[places[own]]
        begins[~own], sizes[~own] = others.starts[:-1] + len(self.values), np.diff(others.starts)
        ends = np.cumsum(sizes)
        values = np.concatenate([self.values, others.values])
        sources = np.repeat(begins - (ends - sizes), sizes) + np.arange(int(sizes.sum()))
        return self._replace(starts=np.concatenate([np.zeros(1, np.int64), ends]), values=values[sources])

    def sorted(self, numbers: int) -> Self:
        """Return the lists with the values of each ascending; all are below `numbers`."""
        width = np.int64(max(numbers, 1))
        keys = np.repeat(np.arange(len(self.starts) - 1) * width, np.diff(self.starts)) + self.values
        keys.sort()
        return self._replace(values=(keys % width).astype(np.int32))

    def arrow(self) -> pa.ListArray:
        """Return the lists as an Arrow array. Raises BuildError: they have more numbers in all than Arrow's offsets can
        count."""
        if len(self.values) > MOST:
            raise BuildError(
                f"a list of words or rows has {len(self.values):,} numbers, more than the {MOST:,} that an index can "
                "hold; divide the sources among several tenants"
            )
        return word_lists.list_array(self.starts.astype(np.int32), self.values)


def _array(column: pa.Array) -> NDArray[Any]:
    return np.asarray(np.from_dlpack(column)) if len(column) else np.zeros(0, np.int32)


# Columns of the chunks that the index is made of.
COLUMNS = ["page_id", "title", "heading_path", "labels", "text"]


class EarlierKeywords(NamedTuple):
    """The tables of an index of which most rows did not change, and which these are."""

    words: pa.Table
    rows: pa.Table
    pages: pa.Table
    kept: KeptRows


def write_keyword_index(folder: Path, chunks: pa.Table, earlier: EarlierKeywords | None = None) -> None:
    """Write the files for a table of GENERATION_CHUNKS in its order; the same table gives the same bytes, whatever is
    reused from an earlier index."""
    counts = _Counts(chunks.select(COLUMNS), earlier)
    spelt, places = counts.words.sorted(earlier.words["word"].to_pylist() if earlier else ())
    known = _places_of(earlier.words["word"], spelt) if earlier else np.zeros(0, np.int32)
    content = _content(counts, places, len(spelt), earlier, known)
    terms, titles, labels = (lists.renumbered(known, places) for lists in (counts.terms, counts.titles, counts.labels))
    stands = np.diff(content.starts) > 0
    for lists in (terms, titles, labels):
        stands[lists.values] = True
    final = (np.cumsum(stands) - 1).astype(np.int32)
    terms, titles, labels = (lists.replaced(final) for lists in (terms, titles, labels))
    words = [spelt[place] for place in np.flatnonzero(stands).tolist()]
    rows = Lists(np.append(content.starts[:-1][stands], content.starts[-1]), content.values)
    by_row = {"page": counts.page_of, "length": counts.lengths, "terms": terms.sorted(len(words)).arrow()}
    by_page = {"title": titles.arrow(), "labels": labels.sorted(len(words)).arrow()}
    tables = {
        WORDS_FILE: (KEYWORD_WORDS, word_lists.words_table(words, rows.arrow())),
        ROWS_FILE: (KEYWORD_ROWS, word_lists.keyword_table(KEYWORD_ROWS, by_row)),
        PAGES_FILE: (KEYWORD_PAGES, word_lists.keyword_table(KEYWORD_PAGES, by_page)),
    }
    for name, (schema, table) in tables.items():
        write_mapped(folder / name, table, schema)


class _Counts:
    """The words of a chunk table's rows and pages: those of an earlier index, and those that are counted."""

    def __init__(self, chunks: pa.Table, earlier: EarlierKeywords | None) -> None:
        self.words, self.parts = word_lists.NumberedWords(), list[RowPostings]()
        self.lengths = np.zeros(len(chunks), np.int32)
        rows, pages, self.page_of, firsts = _sources(chunks, earlier)
        fresh = np.flatnonzero(rows < 0)
        lists, named = TokenLists(), word_lists.NamedRows(self.words)
        for start in range(0, len(fresh), PART):
            fresh_rows = fresh[start : start + PART]
            found, owners = _contents(rows_of(chunks, fresh_rows), self.words, lists, named)
            self.parts.append(counted(found, owners, fresh_rows.astype(np.int32)))
            self.lengths[fresh_rows] = np.bincount(owners, minlength=len(fresh_rows))
        titled = word_lists.NamedRows(self.words)
        _add_names(titled, rows_of(chunks, firsts[pages < 0]))
        if earlier:
            kept = np.flatnonzero(rows >= 0)
            self.lengths[kept] = _numbers(earlier.rows["length"])[rows[kept]]
        self.terms = _Chosen(earlier and earlier.rows["terms"], rows, Lists.of(named.terms))
        self.titles = _Chosen(earlier and earlier.pages["title"], pages, Lists.of(titled.titles))
        self.labels = _Chosen(earlier and earlier.pages["labels"], pages, Lists.of(titled.labels))


class _Chosen(NamedTuple):
    """Lists of words, some of an earlier index and the others new ones in their order."""

    earlier: pa.ChunkedArray | None
    numbers: Numbers  # of each list in the earlier index, -1: the next new one
    fresh: Lists

    def renumbered(self, known: Numbers, places: Numbers) -> Lists:
        """Return all lists, their words numbered by place: `known` of an earlier number, `places` of a new one."""
        fresh = self.fresh.replaced(places)
        if self.earlier is None:
            return fresh
        return Lists.of_column(self.earlier).replaced(known).chosen(self.numbers, fresh)


def _sources(chunks: pa.Table, earlier: EarlierKeywords | None) -> tuple[Numbers, Numbers, Numbers, NDArray[np.int64]]:
    """Return the positions of rows and pages in an earlier index, -1 for new ones, the page of every row, and the first
    row of every page. A page's names are those of its first row."""
    codes = dictionary_encode(chunks["page_id"])[1]
    begins = np.diff(codes, prepend=-1) != 0
    firsts = np.flatnonzero(begins)
    page_of = (np.cumsum(begins) - 1).astype(np.int32)
    if earlier is None:
        return np.full(len(chunks), -1, np.int32), np.full(len(firsts), -1, np.int32), page_of, firsts
    rows, known = earlier.kept.earlier, _numbers(earlier.rows["page"])
    began = np.diff(known, prepend=-1) != 0
    first = rows[firsts]
    same = first >= 0
    same[same] = began[first[same]]
    pages = np.full(len(firsts), -1, np.int32)
    pages[same] = known[first[same]]
    return rows, pages, page_of, firsts


def _content(counts: _Counts, places: Numbers, words: int, earlier: EarlierKeywords | None, known: Numbers) -> Lists:
    """Return the rows of every word; `known`: the places of an earlier index's words."""
    kept, most = None, sum(len(part.counts) for part in counts.parts)
    if earlier:
        lists = Lists.of_column(earlier.words["rows"])
        kept = KeptPostings(known, lists.starts, lists.values, None, earlier.kept.renumbered)
        most += len(lists.values)
    rows, starts = np.empty(most, np.int32), np.zeros(words + 1, np.int64)
    done = first = 0
    for block in blocks(counts.parts, places, words, kept):
        rows[done : done + len(block.rows)] = block.rows
        done += len(block.rows)
        starts[first + 1 : first + 1 + len(block.sizes)] = block.sizes
        first += len(block.sizes)
    return Lists(np.cumsum(starts), rows[:done])


def _places_of(words: pa.ChunkedArray, spelt: list[str]) -> Numbers:
    numbers = dict(zip(spelt, range(len(spelt)), strict=True))
    return np.fromiter(map(numbers.__getitem__, words.to_pylist()), np.int32, len(words))


def _numbers(column: pa.ChunkedArray) -> Numbers:
    return np.asarray(np.from_dlpack(combine_chunks(column))) if len(column) else np.zeros(0, np.int32)


def _contents(
    rows: pa.Table, words: word_lists.NumberedWords, lists: TokenLists, named: word_lists.NamedRows
) -> tuple[Numbers, Numbers]:
    """Return the number of every word of the headings and texts of some rows, and that of its row; add their names."""
    lists.shrink()
    heading = lists.tokens("heading", words.of_name)
    token = lists.tokens("text", lambda token: words.of(words_of_token(token)))
    tokens, borders = array("i"), [0]
    for page_id, title, path, labels, text in zip(*(rows[name].to_pylist() for name in COLUMNS), strict=True):
        headings = word_lists.headings_below(title, path)
        tokens.extend(map(heading, headings))
        tokens.extend(map(token, tokens_in(text)))
        borders.append(len(tokens))
        named.add(page_id, title, headings, labels or ())
    found, sizes = lists.members(np.array(tokens, np.int32))
    owners = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(borders))
    return found, np.repeat(owners, sizes)


def _add_names(named: word_lists.NamedRows, rows: pa.Table) -> None:
    for page_id, title, path, labels in zip(*(rows[name].to_pylist() for name in COLUMNS[:4]), strict=True):
        named.add(page_id, title, word_lists.headings_below(title, path), labels or ())
