"""The chunks of a generation with the indexes that they are searched by, wherever those are kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_serving.artifacts.columns import Read, dictionary_encode, numbers_of, reader, rows_in, strings, take_rows
from rag_serving.artifacts.manifest import Manifest
from rag_serving.indexes.keyword_index import KeywordIndex, ReadableKeywords
from rag_serving.indexes.lexical import Bm25, idf
from rag_serving.indexes.originals import Original
from rag_serving.indexes.page_contents import DuplicateLocations, PageContents, ReadingOrder
from rag_serving.indexes.readable_rows import Hit, Readable, ReadableRows
from rag_serving.indexes.set_tables import SetTablesOfReaders, no_sets
from rag_serving.models.language_detector import shares_of_languages
from rag_serving.query.spelling import NAMED, Names, Speller, names_of
from rag_serving.records.passages import Chunk
from rag_serving.text.analyzer import analyze

Vector = NDArray[np.float32]  # [d]
Mask = NDArray[np.bool_]  # [chunks]
Rows = NDArray[np.int64]  # [n]


class VectorSearch(Protocol):
    """The vectors of the chunks, each row with one or several."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Return the degraded parts, one line each."""
        ...

    def search(
        self, vector: Vector, k: int, classes: frozenset[str], readable: Readable, among: Mask | None = None
    ) -> list[Hit]:
        """Return the k nearest readable rows, of those in `among`, by cosine similarity to `vector`, best first."""
        ...

    def similarities(self, vector: Vector, rows: Rows) -> NDArray[np.float32]:
        """Return the cosine similarity [n] of some rows to `vector`, of each its nearest vector's."""
        ...

    def mean(self, rows: Rows) -> NDArray[np.float32]:
        """Return one L2-normalized vector for each of some rows [n, d]: the mean of its own."""
        ...

    def close(self) -> None: ...


class SentenceSearch(Protocol):
    """The vectors of the chunks' sentences."""

    def similarities(self, vector: Vector, chunks: Sequence[int], texts: Sequence[str]) -> list[float | None]:
        """Return the cosine similarity to `vector` of texts that are sentences of some rows; None for others."""
        ...

    def best(self, vector: Vector, chunks: Sequence[int]) -> NDArray[np.float64]:
        """Return the similarity to `vector` of each row's heading path and nearest sentence [n, 2]; NaN without."""
        ...


class Parts(NamedTuple):
    """The parts for searching and showing the rows of one chunk table."""

    dense: VectorSearch
    lexical: Bm25
    keywords: KeywordIndex
    places: DuplicateLocations
    sentences: SentenceSearch | None = None
    originals: Mapping[str, Original] = {}
    texts: Mapping[str, Read] = {}  # the columns that the chunk table has not
    sets: Callable[[], SetTablesOfReaders] = no_sets


_FIELDS = tuple(name for name in Chunk.__dataclass_fields__ if name != "also_at")
_LANGUAGE_SAMPLE = 100  # chunks; those without a language from the build take some 10 ms once
_TUPLES = frozenset({"heading_path", "labels"})
_NOBODY = "nobody: not among the pages"  # no reader class: those name users and groups


class IndexedChunks:
    """The chunks of a generation, or those of them that some readers may see. Safe to use from several threads."""

    def __init__(self, manifest: Manifest, table: pa.Table, readable: ReadableRows, parts: Parts) -> None:
        """`table`: GENERATION_CHUNKS but for the columns in `parts.texts` and of builds; `readable`: its readers."""
        self.manifest, self.table = manifest, table
        self._parts, self._is_narrowed = parts, False
        self._dense, self._lexical, self._keyword_index, self.places = parts[:4]
        self._sentences, self.originals, self._texts = parts[4:7]
        self._sets = parts.sets
        self.lead: Callable[[str], str] = str  # from a stored address to the one shown
        self.id = manifest.id
        self.tenant = manifest.tenant
        self._readable = readable
        self.reader_classes = tuple(sorted(readable.classes))
        self.contents = PageContents(table, self.places)
        self.known_classes = self.places.classes | readable.classes  # those of chunks and of other places
        self._keywords = lru_cache(maxsize=64)(self._open_keywords)
        self._names = lru_cache(maxsize=64)(self._compute_names)
        self._languages = lru_cache(maxsize=64)(self._compute_languages)

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def sets(self) -> SetTablesOfReaders:
        """The tables for queries about sets."""
        return self._sets()

    def narrowed(self, pages: Collection[str]) -> IndexedChunks:
        """Return the same generation as if it had no other pages: their chunks and places are open to no class."""
        readers = pc.if_else(pc.is_in(self.table["page_id"], value_set=strings(pages)), self.table["readers"], _NOBODY)
        parts = self._parts._replace(places=self.places.narrowed(pages))
        narrowed = IndexedChunks(self.manifest, self.table, ReadableRows(readers), parts)
        narrowed.lead, narrowed._is_narrowed = self.lead, True
        return narrowed

    @property
    def degraded(self) -> tuple[str, ...]:
        """The degraded parts, one line each; empty if all is well."""
        return self._dense.problems

    def chunk(self, row: int, classes: frozenset[str] = frozenset()) -> Chunk:
        """Return the chunk at a row of the table, with the other places of its text that these reader classes open."""
        return self.chunks([row], classes)[0]

    def chunks(self, rows: Sequence[int], classes: frozenset[str] = frozenset()) -> list[Chunk]:
        """Return the chunks at some rows, in their order, each with the other places that these reader classes open."""
        columns = {name: read(rows) for name, read in self._columns.items()}
        for name in _TUPLES:
            columns[name] = [tuple(values or ()) for values in columns[name]]
        columns["url"] = [*map(self.lead, columns["url"])]
        places = [
            tuple(replace(place, url=self.lead(place.url)) for place in self.places.of(row, classes)) for row in rows
        ]
        return [*map(Chunk, *columns.values(), places)]

    def row_of(self, chunk_id: str) -> int | None:
        """Return the row of a chunk id, None if the generation has no such chunk."""
        return self._rows.get(chunk_id)

    def ids_of(self, rows: Sequence[int]) -> list[str]:
        """Return the chunk ids at some rows, in their order."""
        return self._columns["chunk_id"](rows)

    def values_of(self, field: str, rows: Sequence[int]) -> list[Any]:
        """Return the values of a field of Chunk at some rows, in their order."""
        return self._columns[field](rows)

    def readers_of(self, row: int) -> str:
        """Return the reader class of the chunk at a row."""
        return self._readable.class_of(row)

    def chunks_of_page(self, page_id: str) -> list[Chunk]:
        """Return the chunks of a page in order; empty if the generation has none of it."""
        rows = self.rows_of_page(page_id)
        return sorted(self.chunks(rows.tolist()), key=lambda chunk: chunk.chunk_idx)

    def page_text(self, page_id: str, classes: frozenset[str]) -> str:
        """Return the text of those of a page's chunks that these reader classes open, a line or more each."""
        rows = [row for row in self.rows_of_page(page_id).tolist() if self.readers_of(row) in classes]
        return "\n".join(self._columns["text"](rows))

    def readers_of_page(self, page_id: str) -> frozenset[str]:
        """Return the reader classes of a page's chunks, dropped ones too; empty if the generation has none of it."""
        rows = self.rows_of_page(page_id)
        return self._readable.classes_of(rows) | self.places.readers_of_page(page_id)

    def dense(
        self, vector: NDArray[np.float32], k: int, classes: frozenset[str], among: NDArray[np.bool_] | None = None
    ) -> list[Hit]:
        """Return the k chunks of the given reader classes nearest to `vector` [d], by cosine similarity, best first.
        `among` [chunks] narrows the search to some rows, which are then compared one by one."""
        readable = self._readable.of(classes)
        if self._is_narrowed and among is None:  # the graphs know no rows but those of classes
            among = readable.mask
        return self._dense.search(vector, k, classes, readable, among)

    def lexical(self, query: str, k: int, classes: frozenset[str], among: NDArray[np.bool_] | None = None) -> list[Hit]:
        """Return the k best chunks of the given reader classes by BM25, only those with a term of the query, best
        first. `among` [chunks] narrows the search to some rows."""
        return self.lexical_terms(analyze(query), k, classes, among)

    def lexical_terms(
        self,
        terms: Iterable[str] | Mapping[str, float],
        k: int,
        classes: frozenset[str],
        among: NDArray[np.bool_] | None = None,
    ) -> list[Hit]:
        """Return the same for analyzed terms, or for weights by term."""
        readable = self._readable.of(classes)
        if not len(readable.rows):
            return []
        return self._lexical.search(terms, k, readable.limits, among)

    def lexical_scores(
        self, terms: Iterable[str] | Mapping[str, float], classes: frozenset[str]
    ) -> NDArray[np.float32]:
        """Return the BM25 score [chunks] of every row, 0 without a term of the query and where it is hidden."""
        readable = self._readable.of(classes)
        if not len(readable.rows):
            return np.zeros(len(self), dtype=np.float32)
        return self._lexical.scores(terms, readable.limits)

    def similarities(self, vector: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return cosine similarity of some rows to `vector` [d]."""
        return self._dense.similarities(vector, rows)

    def page_means(
        self, scores: NDArray[np.float32], rows: NDArray[np.int64], classes: frozenset[str]
    ) -> NDArray[np.float64]:
        """Return the mean over each row's page of the scores [chunks] of the rows that are open to the classes."""
        return self.tree.means(scores, rows, self._readable.of(classes).rows)

    def term_weights(self, terms: Iterable[str], classes: frozenset[str]) -> dict[str, float]:
        """Return inverse document frequencies of analyzed terms, ln(1 + (N - n + ½) / (n + ½)). Counted among the
        chunks of the given reader classes, so that a weight reveals nothing of other chunks."""
        readable = self._readable.of(classes)
        return {term: idf(self._lexical.frequency(term, readable.limits), len(readable.rows)) for term in terms}

    def expect(self, terms: Iterable[str]) -> None:
        """Prefetch the analyzed terms that are needed next."""
        self._lexical.occurrences(list(terms))

    def frequency(self, term: str, classes: frozenset[str]) -> int:
        """Return the number of chunks of the given reader classes with an analyzed term."""
        return self._lexical.frequency(term, self._readable.of(classes).limits)

    def rows_with(self, terms: Iterable[str], classes: frozenset[str]) -> NDArray[np.int64]:
        """Return the rows of the given reader classes with all of the analyzed terms, ascending."""
        rows = self._lexical.rows_with(terms)
        return rows[self._readable.of(classes).mask[rows]]

    def keywords(self, classes: frozenset[str]) -> ReadableKeywords:
        """Return the keyword index as these reader classes open it."""
        return self._keywords(classes & self._readable.classes)

    def readable_mask(self, classes: frozenset[str]) -> NDArray[np.bool_]:
        """Return which rows [chunks] these reader classes open."""
        return self._readable.of(classes).mask

    def readable(self, classes: frozenset[str]) -> int:
        """Return how many chunks these reader classes open."""
        return len(self._readable.of(classes).rows)

    def names(self, classes: frozenset[str]) -> Names:
        """Return the spaces, labels and titles that these reader classes open, other places of a text included."""
        return self._names(classes & self.known_classes)

    def languages(self, classes: frozenset[str]) -> Mapping[str, float]:
        """Return the share of each language among some of the chunks that these reader classes open."""
        return self._languages(classes & self._readable.classes)

    def sample(self, classes: frozenset[str], most: int) -> NDArray[np.int64]:
        """Return at most so many rows, evenly spread over those of the given reader classes, ascending."""
        return self._readable.sample(classes, most)

    def wordings(self, rows: Sequence[int]) -> list[str]:
        """Return headings and text of the chunks at some rows, in their order."""
        paths, texts = (self._columns[name](rows) for name in ("heading_path", "text"))
        return [f"{' '.join(path or ())}\n{text}" for path, text in zip(paths, texts, strict=True)]

    @cached_property
    def tree(self) -> PageTree:
        """The pages of the chunks."""
        return PageTree(self.table)

    @cached_property
    def reading_order(self) -> ReadingOrder:
        """The order in which the chunks are read."""
        return ReadingOrder(self.table)

    @cached_property
    def speller(self) -> Speller:
        """The vocabulary of all chunks: the caller decides which words may be revealed."""
        return Speller(self._lexical.terms())

    def vectors(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """Return an L2-normalized vector for each of some rows [rows, d], the mean of its windows."""
        return self._dense.mean(np.asarray(rows, dtype=np.int64))

    def sentence_similarities(
        self, vector: NDArray[np.float32], rows: Sequence[int], texts: Sequence[str]
    ) -> list[float | None]:
        """Return the cosine similarity to `vector` [d] of sentences of some rows; None if no vector is stored."""
        return self._sentences.similarities(vector, rows, texts) if self._sentences else [None] * len(texts)

    def sentence_evidence(self, vector: NDArray[np.float32], rows: Sequence[int]) -> NDArray[np.float64]:
        """Return the similarity to `vector` [d] of each row's heading path and nearest sentence [n, 2]; NaN: none."""
        return self._sentences.best(vector, rows) if self._sentences else np.full((len(rows), 2), np.nan)

    def close(self) -> None:
        """Release the resources of the searches, which must not be used afterwards."""
        self._dense.close()

    def rows_of_page(self, page_id: str) -> NDArray[np.int64]:
        """Return the rows of a page's chunks, ascending; empty if the generation has none of it."""
        return np.flatnonzero(rows_in(self.table["page_id"], [page_id]))

    @cached_property
    def _columns(self) -> dict[str, Read]:
        return {name: self._texts.get(name) or reader(self.table[name]) for name in _FIELDS}

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {chunk_id: row for row, chunk_id in enumerate(self.table["chunk_id"].to_pylist())}

    def _compute_names(self, classes: frozenset[str]) -> Names:
        rows = self._readable.of(classes).rows
        return names_of([take_rows(self.table.select(NAMED), rows), *self.places.told(classes)])

    def _open_keywords(self, classes: frozenset[str]) -> ReadableKeywords:
        return ReadableKeywords(self._keyword_index, self._readable.of(classes))

    def _compute_languages(self, classes: frozenset[str]) -> dict[str, float]:
        rows = self.sample(classes, _LANGUAGE_SAMPLE).tolist()
        told = reader(self.table["lang"])(rows)
        return shares_of_languages(self._columns["text"](rows), told)


Numbers = NDArray[np.int64]


class PageTree:
    """The pages of a chunk table. Safe to use from several threads."""

    def __init__(self, table: pa.Table) -> None:
        """`table`: the columns page_id, parent_id and chunk_idx of GENERATION_CHUNKS."""
        names, self._pages = dictionary_encode(table["page_id"])
        above, codes = dictionary_encode(table["parent_id"])
        numbers = {name: number for number, name in enumerate(names)}
        self._parents = np.array([numbers.get(name, -1) for name in above], dtype=np.int32)[codes]
        self._places = numbers_of(table["chunk_idx"])
        self._sizes = np.bincount(self._pages)

    def pages(self, rows: Numbers) -> Numbers:
        """Return the number of the page of every row: equal numbers are one page."""
        return self._pages[rows].astype(np.int64)

    def parents(self, rows: Numbers) -> Numbers:
        """Return the number of the page above that of every row, -1 if it has none here."""
        return self._parents[rows].astype(np.int64)

    def places(self, rows: Numbers) -> Numbers:
        """Return the place of every row in its page."""
        return self._places[rows]

    def means(self, scores: NDArray[np.float32], rows: Numbers, readable: Numbers) -> NDArray[np.float64]:
        """Return the mean of the scores [chunks] over the `readable` rows of the page of each of `rows` [n]. `scores`
        are 0 outside `readable`: to add nothing changes no sum, not in the last bit."""
        pages, scored = self._pages[rows], np.flatnonzero(scores)
        sums = np.bincount(self._pages[scored], scores[scored].astype(np.float64), minlength=len(self._sizes))
        everything = len(readable) == len(self._pages)
        sizes = self._sizes if everything else np.bincount(self._pages[readable], minlength=len(self._sizes))
        means: NDArray[np.float64] = sums[pages] / np.maximum(sizes[pages], 1)
        return means
