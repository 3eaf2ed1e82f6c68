"""The interface of an index to a question's stages: one reader's view, which returns nothing else.

Belongs here: the protocol of every index backend. Does not belong here: a backend (`indexes.view`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rag_serving.artifacts.manifest import EmbedderFacts
from rag_serving.indexes.hits import Hit
from rag_serving.indexes.keyword_index import ReadableKeywords
from rag_serving.indexes.originals import Original
from rag_serving.indexes.page_contents import DroppedPassage
from rag_serving.query.vocabulary import Names
from rag_serving.records.passages import Chunk
from rag_serving.records.queries import Facets, Filters
from rag_serving.records.sets import SetTables

Vector = NDArray[np.float32]  # [d]
Mask = NDArray[np.bool_]  # [rows]
Rows = NDArray[np.int64]  # [n]
Terms = Iterable[str] | Mapping[str, float]  # analyzed terms, or weights by term


class HiddenRowError(LookupError):
    """A stage requested a row hidden from its reader: a fault of the program, never of the question."""


class ReaderView(Protocol):
    """One generation as visible to one reader. Row numbers are opaque, and of this view alone: another reader's may
    count only rows visible to that one.

    Methods that take rows raise HiddenRowError if a row is hidden from the reader, or not of this view. Safe to use
    from several threads.
    """

    @property
    def id(self) -> str:
        """Return the generation's id."""
        ...

    @property
    def tenant(self) -> str: ...

    @property
    def embedder(self) -> EmbedderFacts:
        """Return the name and dimension of the model behind the vectors."""
        ...

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return the degraded parts, one line each."""
        ...

    @property
    def names(self) -> Names:
        """Return the spaces, labels and titles of the chunks, and of the other occurrences of their texts."""
        ...

    @property
    def keywords(self) -> ReadableKeywords:
        """Return the words of content, titles and labels, which need neither vectors nor the lexical index."""
        ...

    def languages(self) -> Mapping[str, float]:
        """Return the share of each language among a sample of the chunks, the largest first."""
        ...

    def __len__(self) -> int:
        """Return how many chunks the reader may see."""
        ...

    def dense(self, vector: Vector, k: int, among: Mask | None = None) -> list[Hit]:
        """Return the k chunks nearest to `vector` [d] by cosine similarity, best first, of those in `among`."""
        ...

    def similarities(self, vector: Vector, rows: Rows) -> NDArray[np.float32]:
        """Return the cosine similarity [n] of some rows to `vector` [d]: of a row with windows the nearest one's."""
        ...

    def lexical(self, terms: Terms, k: int, among: Mask | None = None) -> list[Hit]:
        """Return the k best chunks by BM25, only those with a term, best first, of those in `among`."""
        ...

    def lexical_scores(self, terms: Terms) -> NDArray[np.float32]:
        """Return the BM25 score [rows] of every row; 0 without a term and where the reader may not see."""
        ...

    def term_weights(self, terms: Iterable[str]) -> dict[str, float]:
        """Return the inverse document frequency of analyzed terms among the chunks that the reader may see."""
        ...

    def expect(self, terms: Iterable[str]) -> None:
        """Prefetch the analyzed terms that are needed next."""
        ...

    def frequency(self, term: str) -> int:
        """Return the number of chunks with an analyzed term."""
        ...

    def correction(self, word: str) -> str | None:
        """Return the word of the chunks that a word in lower case was meant to be, if it is none and one is near."""
        ...

    def holding(self, phrase: str) -> Rows:
        """Return the rows with a phrase verbatim, ascending, among the first 1,000 with all its words."""
        ...

    def matching(self, filters: Filters) -> Mask:
        """Return the rows that match filters by their own place, or by another place that the reader may see."""
        ...

    def mask(self, rows: Sequence[int]) -> Mask:
        """Return some rows as a mask."""
        ...

    def vectors(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """Return one L2-normalized vector for each of some rows [n, d]: of a row with windows their mean."""
        ...

    def sentence_similarities(self, vector: Vector, rows: Sequence[int], texts: Sequence[str]) -> list[float | None]:
        """Return the cosine similarity to `vector` [d] of texts that are sentences of some rows.

        None for a text without a stored vector, or in none of the rows.
        """
        ...

    def sentence_evidence(self, vector: Vector, rows: Sequence[int]) -> NDArray[np.float64]:
        """Return the cosine similarity to `vector` [d] of each row's heading path and of its nearest sentence [n, 2].

        NaN if no vector is stored.
        """
        ...

    def page_means(self, scores: NDArray[np.float32], rows: Rows) -> NDArray[np.float64]:
        """Return for each row the mean score [n] of the chunks of its page that the reader may see."""
        ...

    def sample(self, most: int) -> Rows:
        """Return at most so many rows, evenly spread over those that the reader may see, ascending."""
        ...

    def pages(self, rows: Rows) -> Rows:
        """Return the number of the page of every row: equal numbers are one page."""
        ...

    def parents(self, rows: Rows) -> Rows:
        """Return the number of the page above that of every row, -1 if there is none."""
        ...

    def boilerplate(self, rows: Rows) -> Mask:
        """Return which of some rows [n] are navigation and answer nothing."""
        ...

    def labels(self, rows: Rows) -> list[Sequence[str]]:
        """Return the labels of some rows, in their order."""
        ...

    def text_hashes(self, rows: Rows) -> list[str]:
        """Return the digests of the texts of some rows, in their order."""
        ...

    def chunks(self, rows: Sequence[int]) -> list[Chunk]:
        """Return the chunks at some rows, in their order, with the other places that the reader may see."""
        ...

    def chunk_ids(self, rows: Sequence[int]) -> list[str]:
        """Return the chunk ids at some rows, in their order."""
        ...

    def indexed_text(self, row: int) -> str:
        """Return headings and text of the chunk at a row."""
        ...

    def row_of(self, chunk_id: str) -> int | None:
        """Return the row of a chunk; None if the reader may see none of that id."""
        ...

    def rows_of_passage(self, passage_id: str) -> list[int]:
        """Return the rows of a passage of a book by its id, such as ch3-sec2-p45: one for each book that the reader may
        see it of."""
        ...

    def reading_ranks(self, rows: Rows) -> Rows:
        """Return the place of some rows [n] among all that the reader may see, in reading order: books from cover to
        cover, source by source, other pages by themselves."""
        ...

    def around(self, row: int, before: int = 1, after: int = 1) -> tuple[list[Chunk], list[Chunk]]:
        """Return up to so many passages before a row and after it in reading order, over the borders of pages in a
        book, of those that the reader may see."""
        ...

    def beside(self, chunk: Chunk, direction: int) -> Chunk | None:
        """Return the chunk before (-1) or after (1) another in its page; None if the reader may see none."""
        ...

    def duplicates_of_page(self, page_id: str) -> list[DroppedPassage]:
        """Return the passages of a page that were dropped as near-duplicates, in the page's order: only those whose
        place and whose kept copy the reader may see."""
        ...

    def original(self, page_id: str) -> Original | None:
        """Return the file that a page was read from; None if there is none, or where any of the page's text is
        hidden from the reader."""
        ...

    def facets(self) -> Facets:
        """Return the values of filters among the reader's pages, other places of their texts included."""
        ...

    def has_page(self, page_id: str) -> bool:
        """Return whether the reader may see any chunk of a page, dropped duplicates included."""
        ...

    def page_rows(self, page_id: str) -> Rows:
        """Return the rows of those of a page's chunks that the reader may see, in the page's order."""
        ...

    def page_text(self, page_id: str) -> str:
        """Return the text of those of a page's chunks that the reader may see, a line or more each."""
        ...

    def set_tables(self, among: Collection[str] | None = None) -> SetTables | None:
        """Return the tables for queries about sets, limited to the pages and passages visible to the reader. None if
        the generation was built without, or is in a database and this machine lacks its folder. `among`: only these
        pages, none with text of another."""
        ...
