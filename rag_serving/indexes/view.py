"""A generation as one reader may see it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rag_serving.artifacts.columns import numbers_of
from rag_serving.artifacts.manifest import EmbedderFacts
from rag_serving.indexes.keyword_index import ReadableKeywords
from rag_serving.indexes.originals import Original
from rag_serving.indexes.page_contents import DroppedPassage, matching_rows
from rag_serving.indexes.readable_rows import Hit
from rag_serving.query.spelling import Names
from rag_serving.records.passages import Chunk
from rag_serving.records.queries import Facets, Filters
from rag_serving.records.sets import SetTables
from rag_serving.text.analyzer import analyze, stems
from rag_serving.text.normalization import caseless, holds

if TYPE_CHECKING:
    from rag_serving.indexes.indexed_chunks import IndexedChunks

Vector = NDArray[np.float32]  # [d]
Mask = NDArray[np.bool_]  # [rows]
Rows = NDArray[np.int64]  # [n]
Terms = Iterable[str] | Mapping[str, float]  # analyzed terms, or weights by term
_SHOWING = 10  # passages that are read to see how a term is written
_READ_AT_MOST = 1000  # passages with all words of a phrase that are read to see whether they contain it literally


class HiddenRowError(LookupError):
    """A stage requested a row hidden from its reader: a fault of the program, never of the question."""


class ReaderView:
    """One generation as visible to one reader. Row numbers are opaque, and of this view alone: another reader's may
    count only rows visible to that one. Methods that take rows raise HiddenRowError if a row is hidden from the reader,
    or not of this view. Safe to use from several threads. Costs nothing until used."""

    def __init__(
        self,
        generation: IndexedChunks,
        classes: frozenset[str],
        satisfied: Callable[[frozenset[str]], frozenset[str]] | None = None,
        tables: SetTables | None = None,
    ) -> None:
        """`satisfied`: returns the subset of reader classes that the reader satisfies; None: only `classes`.
        `tables`: the only ones for queries about sets, where pages are left out."""
        self.__generation, self._tables = generation, tables
        self._classes = classes
        self._satisfied = satisfied or classes.intersection
        self._readable = generation.readable_mask(classes)

    @property
    def id(self) -> str:
        """Return the generation's id."""
        return self.__generation.id

    @property
    def tenant(self) -> str:
        return self.__generation.tenant

    @property
    def embedder(self) -> EmbedderFacts:
        """Return the name and dimension of the model behind the vectors."""
        return self.__generation.manifest.embedder

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return the degraded parts, one line each."""
        return self.__generation.degraded

    @property
    def names(self) -> Names:
        """Return the spaces, labels and titles of the chunks, and of the other occurrences of their texts."""
        return self.__generation.names(self._classes)

    @property
    def keywords(self) -> ReadableKeywords:
        """Return the words of content, titles and labels, which need neither vectors nor the lexical index."""
        return self.__generation.keywords(self._classes)

    def languages(self) -> Mapping[str, float]:
        """Return the share of each language among a sample of the chunks, the largest first."""
        return self.__generation.languages(self._classes)

    def __len__(self) -> int:
        """Return how many chunks the reader may see."""
        return self.__generation.readable(self._classes)

    def dense(self, vector: Vector, k: int, among: Mask | None = None) -> list[Hit]:
        """Return the k chunks nearest to `vector` [d] by cosine similarity, best first, of those in `among`."""
        return self.__generation.dense(vector, k, self._classes, among)

    def similarities(self, vector: Vector, rows: Rows) -> NDArray[np.float32]:
        """Return the cosine similarity [n] of some rows to `vector` [d]: of a row with windows the nearest one's."""
        return self.__generation.similarities(vector, self._allowed(rows))

    def lexical(self, terms: Terms, k: int, among: Mask | None = None) -> list[Hit]:
        """Return the k best chunks by BM25, only those with a term, best first, of those in `among`."""
        return self.__generation.lexical_terms(terms, k, self._classes, among)

    def lexical_scores(self, terms: Terms) -> NDArray[np.float32]:
        """Return the BM25 score [rows] of every row; 0 without a term and where the reader may not see."""
        return self.__generation.lexical_scores(terms, self._classes)

    def term_weights(self, terms: Iterable[str]) -> dict[str, float]:
        """Return the inverse document frequency of analyzed terms among the chunks that the reader may see."""
        return self.__generation.term_weights(terms, self._classes)

    def expect(self, terms: Iterable[str]) -> None:
        """Prefetch the analyzed terms that are needed next."""
        self.__generation.expect(terms)

    def frequency(self, term: str) -> int:
        """Return the number of chunks with an analyzed term."""
        return self.__generation.frequency(term, self._classes)

    def correction(self, word: str) -> str | None:
        """Return the word of the chunks that a word in lower case was meant to be, if it is none and one is near."""
        return self.__generation.speller.correction(word, self.frequency, self._spellings)

    def holding(self, phrase: str) -> Rows:
        """Return the rows with a phrase verbatim, ascending, among the first 1,000 with all its words."""
        rows, wanted = self._rows_with(analyze(phrase))[:_READ_AT_MOST].tolist(), caseless(phrase)
        texts = zip(rows, self.__generation.wordings(rows), strict=True)
        return np.array([row for row, text in texts if holds(caseless(text), wanted)], np.int64)

    def matching(self, filters: Filters) -> Mask:
        """Return the rows that match filters by their own place, or by another place that the reader may see."""
        places = self.__generation.places.readable(self._classes)
        rows = matching_rows(self.__generation.table, filters)
        rows[numbers_of(places["row"])[matching_rows(places, filters)]] = True
        matched: Mask = rows & self._readable
        return matched

    def mask(self, rows: Sequence[int]) -> Mask:
        """Return some rows as a mask."""
        mask = np.zeros(len(self.__generation), dtype=np.bool_)
        mask[self._allowed(rows)] = True
        return mask

    def vectors(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """Return one L2-normalized vector for each of some rows [n, d]: of a row with windows their mean."""
        self._allowed(rows)
        return self.__generation.vectors(rows)

    def sentence_similarities(self, vector: Vector, rows: Sequence[int], texts: Sequence[str]) -> list[float | None]:
        """Return the cosine similarity to `vector` [d] of texts that are sentences of some rows. None for a text
        without a stored vector, or in none of the rows."""
        self._allowed(rows)
        return self.__generation.sentence_similarities(vector, rows, texts)

    def sentence_evidence(self, vector: Vector, rows: Sequence[int]) -> NDArray[np.float64]:
        """Return the similarity to `vector` [d] of each row's heading path and nearest sentence [n, 2]; NaN: none."""
        self._allowed(rows)
        return self.__generation.sentence_evidence(vector, rows)

    def page_means(self, scores: NDArray[np.float32], rows: Rows) -> NDArray[np.float64]:
        """Return for each row the mean score [n] of the chunks of its page that the reader may see."""
        return self.__generation.page_means(scores, self._allowed(rows), self._classes)

    def sample(self, most: int) -> Rows:
        """Return at most so many rows, evenly spread over those that the reader may see, ascending."""
        return self.__generation.sample(self._classes, most)

    def pages(self, rows: Rows) -> Rows:
        """Return the number of the page of every row: equal numbers are one page."""
        return self.__generation.tree.pages(self._allowed(rows))

    def parents(self, rows: Rows) -> Rows:
        """Return the number of the page above that of every row, -1 if there is none."""
        return self.__generation.tree.parents(self._allowed(rows))

    def boilerplate(self, rows: Rows) -> Mask:
        """Return which of some rows [n] are navigation and answer nothing."""
        return np.array(self.__generation.values_of("is_boilerplate", self._allowed(rows).tolist()), dtype=np.bool_)

    def labels(self, rows: Rows) -> list[Sequence[str]]:
        """Return the labels of some rows, in their order."""
        return [values or () for values in self.__generation.values_of("labels", self._allowed(rows).tolist())]

    def text_hashes(self, rows: Rows) -> list[str]:
        """Return the digests of the texts of some rows, in their order."""
        return self.__generation.values_of("text_hash", self._allowed(rows).tolist())

    def chunks(self, rows: Sequence[int]) -> list[Chunk]:
        """Return the chunks at some rows, in their order, with the other places that the reader may see."""
        self._allowed(rows)
        return self.__generation.chunks(rows, self._classes)

    def chunk_ids(self, rows: Sequence[int]) -> list[str]:
        """Return the chunk ids at some rows, in their order."""
        self._allowed(rows)
        return self.__generation.ids_of(rows)

    def indexed_text(self, row: int) -> str:
        """Return headings and text of the chunk at a row."""
        self._allowed([row])
        return self.__generation.wordings([row])[0]

    def row_of(self, chunk_id: str) -> int | None:
        """Return the row of a chunk; None if the reader may see none of that id."""
        row = self.__generation.row_of(chunk_id)
        return row if row is not None and self._readable[row] else None

    def rows_of_passage(self, passage_id: str) -> list[int]:
        """Return the rows of a book's passage by its id, such as ch3-sec2-p45: one for each book that has it."""
        rows = self.__generation.reading_order.of_passage(passage_id)
        return [int(row) for row in rows if self._readable[row]]

    def around(self, row: int, before: int = 1, after: int = 1) -> tuple[list[Chunk], list[Chunk]]:
        """Return up to so many passages before a row and after it in reading order, over the borders of pages in a
        book, of those that the reader may see."""
        self._allowed([row])
        sides = self.__generation.reading_order.around(row, before, after, self._readable)
        earlier, later = (self.chunks(rows.tolist()) for rows in sides)
        return earlier, later

    def beside(self, chunk: Chunk, direction: int) -> Chunk | None:
        """Return the chunk before (-1) or after (1) another in its page; None if the reader may see none."""
        row = self.row_of(f"{chunk.page_id}:{chunk.version}:{chunk.chunk_idx + direction}")
        return None if row is None else self.chunks([row])[0]

    def duplicates_of_page(self, page_id: str) -> list[DroppedPassage]:
        """Return the passages of a page that were dropped as near-duplicates, in the page's order: only those whose
        place and whose kept copy the reader may see."""
        return self.__generation.contents.duplicates_of(page_id, self._classes, self._readable)

    def original(self, page_id: str) -> Original | None:
        """Return the file that a page was read from; None without one, or where any of its text is hidden."""
        original = self.__generation.originals.get(page_id)
        if original is None:
            return None
        readers = self.__generation.readers_of_page(page_id)
        return original if readers and readers <= self._classes else None

    def facets(self) -> Facets:
        """Return the values of filters among the reader's pages, other places of their texts included."""
        return self.__generation.contents.facets(self._classes, self._readable)

    def has_page(self, page_id: str) -> bool:
        """Return whether the reader may see any chunk of a page, dropped duplicates included."""
        return not self._classes.isdisjoint(self.__generation.readers_of_page(page_id))

    def page_rows(self, page_id: str) -> Rows:
        """Return the rows of those of a page's chunks that the reader may see, in the page's order."""
        rows = self.__generation.rows_of_page(page_id)
        rows = rows[self._readable[rows]]
        return rows[np.argsort(self.__generation.tree.places(rows), kind="stable")]

    def page_text(self, page_id: str) -> str:
        """Return the text of those of a page's chunks that the reader may see, a line or more each."""
        return self.__generation.page_text(page_id, self._classes)

    def narrowed(self, tables: SetTables) -> ReaderView:
        """Return a view as if there were no pages but those of some tables, which are of this view."""
        pages = tables.pages["page_id"].to_pylist()
        return ReaderView(self.__generation.narrowed(pages), self._classes, self._satisfied, tables)

    def set_tables(self, among: Collection[str] | None = None) -> SetTables | None:
        """Return the tables for queries about sets, limited to the pages and passages visible to the reader. None if
        the generation was built without, or is in a database and this machine lacks its folder. `among`: only these
        pages, none with text of another."""
        if self._tables and among is None:
            return self._tables
        sets = self.__generation.sets
        classes = self._satisfied(sets.classes)
        return sets.of(classes) if among is None else sets.among(classes, among)

    def _allowed(self, rows: Rows | Sequence[int]) -> Rows:
        """Return the rows. Raises HiddenRowError: one of them is hidden from the reader."""
        numbers = np.asarray(rows, dtype=np.int64)
        if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) >= len(self._readable)):
            raise HiddenRowError("a stage asked for a passage that is not there")
        if not self._readable[numbers].all():
            raise HiddenRowError("a stage asked for a passage that its reader may not see")
        return numbers

    def _rows_with(self, terms: Iterable[str]) -> Rows:
        return self.__generation.rows_with(terms, self._classes)

    def _spellings(self, stem: str) -> Iterator[str]:
        """Yield the lower-case words with this stem in the first passages that contain it."""
        for text in self.__generation.wordings(self._rows_with([stem])[:_SHOWING].tolist()):
            words = re.findall(rf"\b{stem[0]}[a-z]*", text.lower())
            yield from (word for word, its in zip(words, stems(words), strict=True) if its == stem)
